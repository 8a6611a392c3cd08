#!/usr/bin/env bash
# Tries NCCL Inspector, built from its public source, behind ncclscope: it writes what it writes alone.
#
# Inspector by itself loses a few rows of such short jobs, and not the same in each run. So all kinds of rows
# must be there, none twice, and nine tenths as many as alone.
#
# usage: scripts/test-inspector.sh [SOURCE]
#
# SOURCE is a clone of NVIDIA/nccl; without it, one is made. Builds into target/inspector. The headers of CUDA
# come from PyPI. No GPU: fake-nccl plays the jobs. `make tests-built` comes first.
set -euo pipefail
cd "$(dirname "$0")/.."

place=target/inspector
source=${1:-https://github.com/NVIDIA/nccl.git}
if [ -d "$source" ]; then
    source=file://$(realpath "$source")
fi
built=${BUILT:-$PWD/target/debug}
mkdir -p "$place"

if [ ! -d "$place/nccl/plugins" ]; then
    git clone --quiet --depth 1 --filter=blob:none --sparse "$source" "$place/nccl"
    git -C "$place/nccl" sparse-checkout set plugins/profiler/inspector
fi
if [ ! -x "$place/venv/bin/pip" ]; then
    python3 -m venv "$place/venv"
fi
if ! ls "$place"/venv/lib/python3*/site-packages/nvidia/cuda_runtime/include/cuda.h > /dev/null 2>&1; then
    "$place/venv/bin/pip" install --quiet \
        nvidia-cuda-runtime-cu12==12.9.79 nvidia-cuda-nvcc-cu12==12.9.86
fi
cuda=$(echo "$PWD/$place"/venv/lib/python3*/site-packages/nvidia/cuda_runtime)
inspector=$PWD/$place/nccl/plugins/profiler/inspector
library=$inspector/libnccl-profiler-inspector.so
# All of CUDA that Inspector asks for: which device is current, and its UUID.
stubs=$PWD/$place/stubs
mkdir -p "$stubs"
cc -shared -fPIC -Wl,-soname,libcudart.so.12 -o "$stubs/libcudart.so.12" -xc - << 'END'
int cudaGetDevice(int *device) { *device = 0; return 0; }
const char *cudaGetErrorString(int error) { (void)error; return "no error"; }
END
ln -sf libcudart.so.12 "$stubs/libcudart.so"
cc -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$stubs/libcuda.so.1" -xc - << 'END'
int cuGetErrorString(int error, const char **text) { (void)error; *text = "no error"; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetUuid(unsigned char *uuid, int device) {
    for (int i = 0; i < 16; i++) uuid[i] = device + i;
    return 0;
}
END
ln -sf libcuda.so.1 "$stubs/libcuda.so"
if [ ! -f "$library" ]; then
    CPATH=$(dirname "$cuda")/cuda_nvcc/include \
        make --quiet -C "$inspector" CUDA_HOME="$cuda" CUDA_LIB="$stubs" > "$place/build.log" 2>&1 || {
        cat "$place/build.log" >&2
        exit 1
    }
fi
revision=$(git -C "$place/nccl" log -1 --format='%h of %cs')

# Collectives, sends and receives. At the end, Inspector has time to write: it drops what is left.
job() {
    printf 'nccl %s\nranks 2\nrate 200/s\nall_reduce 1MiB x60\n' "$1"
    printf 'group { send 1MiB to=+1 ; recv 1MiB from=-1 }\nall_gather 64KiB x20\nsync\nsleep 300ms\n'
}

# What Inspector wrote: a line for each row, without its times.
written() {
    cat "$1"/*.log | python3 -c '
import json, sys
for line in sys.stdin:
    row = json.loads(line)
    for kind in ("coll_perf", "p2p_perf"):
        if kind in row:
            perf, head = row[kind], row["header"]
            names = ("coll", "p2p", "coll_msg_size_bytes", "p2p_msg_size_bytes")
            number = perf.get("coll_sn", perf.get("p2p_sn"))
            what = [str(perf[name]) for name in names if name in perf]
            print(head["rank"], head["n_ranks"], kind, *what, number)
' | sort
}

play() {
    release=$1 where=$2
    shift 2
    rm -rf "$where"
    mkdir -p "$where"
    job "$release" | env "$@" NCCLSCOPE_QUIET=1 NCCL_INSPECTOR_ENABLE=1 NCCL_INSPECTOR_DUMP_DIR="$where" \
        NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS=500 NCCL_INSPECTOR_ENABLE_P2P=1 \
        LD_LIBRARY_PATH="$stubs" "$built/fake-nccl" play - > "$where.json" 2> "$where.err" || {
        tail -3 "$where.err" >&2
        exit 1
    }
}

for release in 2.28.9 2.29.7 2.30.7 2.31.2 2.32.3; do
    alone=$place/alone-$release behind=$place/behind-$release capture=$place/capture-$release
    rm -rf "$capture"
    play "$release" "$alone" NCCL_PROFILER_PLUGIN="$library"
    play "$release" "$behind" NCCL_PROFILER_PLUGIN="$built/libnccl-profiler-ncclscope.so" \
        NCCLSCOPE_OUT="$capture" NCCLSCOPE_CHAIN="$library"
    written "$alone" > "$alone.txt"
    written "$behind" > "$behind.txt"
    # Without their numbers, these are the kinds of rows.
    diff <(sed 's/ [0-9]*$//' "$alone.txt" | sort -u) <(sed 's/ [0-9]*$//' "$behind.txt" | sort -u) ||
        { echo "$release: Inspector wrote rows of other kinds than alone" >&2; exit 1; }
    [ -z "$(uniq -d "$behind.txt")" ] || { echo "$release: Inspector wrote a row twice" >&2; exit 1; }
    rows=$(wc -l < "$behind.txt") rows_alone=$(wc -l < "$alone.txt")
    [ "$rows_alone" -gt 100 ] && [ $((10 * rows)) -ge $((9 * rows_alone)) ] ||
        { echo "$release: Inspector wrote $rows rows, and $rows_alone alone" >&2; exit 1; }
    "$built/ncclscope" report "$capture" > "$capture.txt"
    grep -q 'Another profiler plugin ran behind ncclscope on ranks 0-1' "$capture.txt"
    echo "NCCL $release: Inspector ($revision) wrote $rows rows, and $rows_alone alone;" \
        "$(sed -n 's/^ *\(.* announced calls recorded\).*/\1/p' "$capture.txt")"
done

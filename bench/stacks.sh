#!/usr/bin/env bash
# What `run --stacks` adds to a call: bench/stacks.sh [PYTHON...]
#
# A libnccl without a GPU calls the plugin as NCCL does, from Python with 21 frames. Prints ns of one call,
# with caches hot and cold, from the main thread and another one, and while a thread runs Python code.
set -euo pipefail
cd "$(dirname "$0")/.."

pythons=("$@")
[ ${#pythons[@]} -gt 0 ] || pythons=(python3)
cargo build --quiet --release -p ncclscope-recorder >&2
plugin=$PWD/${CARGO_TARGET_DIR:-target}/release/libnccl_profiler_ncclscope.so
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cc -shared -fPIC -O2 -Wl,-soname,libnccl.so.2 -o "$folder/libnccl.so.2" \
    crates/recorder/tests/all/stacks/nccl.c -lpthread -ldl

printf '%-34s %-6s %8s %8s %8s %8s\n' 'python, thread, busy threads' stacks 'hot p50' p99 'cold p50' p99
for python in "${pythons[@]}"; do
    release=$("$python" -c 'import sys; print(sys.version.split()[0])')
    for thread in main thread; do
        for busy in 0 1; do
            for stacks in off on; do
                printf '%-34s %-6s ' "$release, $thread, $busy" $stacks
                FAKE_NCCL=$folder/libnccl.so.2 NCCL_PROFILER_PLUGIN=$plugin NCCLSCOPE_STACKS=$stacks \
                    NCCLSCOPE_TIMING=host NCCLSCOPE_QUIET=1 NCCLSCOPE_OUT=$folder/out \
                    "$python" bench/stacks.py $thread $busy 18
                rm -rf "$folder/out"
            done
        done
    done
done

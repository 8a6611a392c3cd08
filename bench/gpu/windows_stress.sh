#!/usr/bin/env bash
# Opens and closes kernel windows all the time beside a job whose threads launch, until the job dies.
#
#     bench/gpu/windows_stress.sh OUT [SECONDS]
#
# CUPTI 13.0 crashed such jobs in its own worker thread, as long as each launching thread had buffers of its
# own. Prints how each run ended; a run that `timeout` ended (status 124) is a good one. A core that a crash
# left is asked for its stack, with cuda-gdb. Needs two GPUs, root (for core_pattern), `make` first.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for captures and stacks}
seconds=${2:-240}
plugin=$(realpath "${PLUGIN:-target/release/libnccl-profiler-ncclscope.so}")
mkdir -p "$out"
ulimit -c unlimited
echo "$(realpath "$out")/core.%p" >/proc/sys/kernel/core_pattern
end=$((SECONDS + seconds))
run=0
while ((SECONDS + 30 < end)); do
    run=$((run + 1))
    began=$SECONDS
    NCCL_NVLS_ENABLE=0 NCCLSCOPE_QUIET=1 NCCLSCOPE_BUDGET=10 NCCLSCOPE_WINDOWS=on \
        NCCLSCOPE_OUT="$out/capture-$run" NCCL_PROFILER_PLUGIN="$plugin" \
        timeout -k 1 $((end - SECONDS)) \
        python3 bench/gpu/jobs.py ring --steps 100000 --width 512 --tokens 512 \
        >"$out/run-$run.out" 2>"$out/run-$run.err"
    echo "run $run: status $? after $((SECONDS - began)) s"
    for core in "$out"/core.*; do
        [ -s "$core" ] || continue
        timeout 100 cuda-gdb -batch -nx -ex "bt 40" \
            "$(realpath "$(command -v python3)")" "$core" 2>/dev/null |
            grep '^#' | tee "$out/stack-$run.txt"
        rm "$core"
    done
done

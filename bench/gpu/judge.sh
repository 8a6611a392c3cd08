#!/usr/bin/env bash
# Judges ncclscope in its settings, and the empty plugin, over `ncclscope bench` on this machine's GPUs.
#
#   bench/gpu/judge.sh OUT        # tables on stdout and in OUT/judge.txt, all figures in OUT/judge.json
#
# Needs GPUs and `make` first. RANKS is the number of GPUs, PAIRS the rounds, FUNCTIONS and SIZES what is
# called, CASES how (single, back-to-back, grouped, graph). STEP is a training step's command, if one shall be
# compared. A run is mostly the start of NCCL: 5 profilers x 2 cases x 3 rounds are 30 runs.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:?folder for the report}
scope=${NCCLSCOPE:-target/release/ncclscope}
ranks=${RANKS:-$(nvidia-smi -L | grep -c '^GPU')}
mkdir -p "$out"
# NVLink multicast is left alone: calls must be the same on every machine.
export NCCL_NVLS_ENABLE=0
"$scope" judge --work bench --pairs "${PAIRS:-3}" --case "${CASES:-single,back-to-back}" --seed 1 --timeout \
    60 --json "$out/judge.json" \
    ${STEP:+--step "$STEP"} \
    --plugin host=,NCCLSCOPE_TIMING=host --plugin stamps=,NCCLSCOPE_TIMING=stamps \
    -- "${FUNCTIONS:-all_reduce,all_gather,alltoall}" --sizes "${SIZES:-1K,1M}" --gpus "$ranks" -n 200 -w 20 \
    | tee "$out/judge.txt"
# The counter of calls, held against the benchmark.
"$scope" judge --work bench --pairs 1 --case single --check-counter --seed 1 --timeout 60 --only --plugin \
    ncclscope= \
    -- all_reduce,all_gather --sizes 1K --gpus "$ranks" -n 200 | sed -n '/^Notes/,/^$/p' |
    tee "$out/counter.txt"

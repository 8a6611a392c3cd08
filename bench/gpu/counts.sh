#!/usr/bin/env bash
# Counters of driver calls beside their truth; GPU memory by NCCL's own count (2.29.7 and later), by its log,
# and by NVML, in a short job of torch.
#
#     bench/gpu/counts.sh OUT [libnccl.so.2 of 2.29.7 or later]
#
# Needs two GPUs, torch, `make` first; 25 s for each NCCL.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for captures}
scope=${NCCLSCOPE:-target/release/ncclscope}
export NCCL_NVLS_ENABLE=0
mkdir -p "$out"
for nccl in "" ${2:+"$2"}; do
    name=counts${nccl:+-preloaded}
    echo "== ${nccl:-the NCCL of torch}"
    LD_PRELOAD=${nccl:-${LD_PRELOAD:-}} NCCLSCOPE_NCCL_LOG=on timeout 90 "$scope" run -o "$out/$name" -- \
        torchrun --nproc-per-node 2 bench/gpu/counts_job.py 2>"$out/$name.err"
    "$scope" report --all "$out/$name" | sed -n '/^Calls of the CUDA driver/,/^$/p' |
        tee "$out/$name-calls.txt"
    "$scope" memory --all "$out/$name" | tee "$out/$name-memory.txt"
done

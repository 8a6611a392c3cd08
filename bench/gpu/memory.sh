#!/usr/bin/env bash
# GPU memory of communicators: ncclscope's figures beside the driver's and NCCL's own; and the link matrix
# that the sampler asks NVML for beside nvidia-smi's.
#
#     bench/gpu/memory.sh OUT [libnccl.so.2]
#
# Needs two GPUs, python3, `make` first; 20 s.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for the capture}
scope=${NCCLSCOPE:-target/release/ncclscope}
mkdir -p "$out"
NCCLSCOPE_NCCL_LOG=on "$scope" run -o "$out/memory-capture" -- \
    python3 bench/gpu/memory.py --ranks 2 ${2:+--nccl "$2"} | tee "$out/memory.txt"
"$scope" memory --all "$out/memory-capture" | tee "$out/memory-table.txt"
"$scope" topo "$out/memory-capture" | tee "$out/topo-of-capture.txt"
nvidia-smi topo -m | tee "$out/topo-of-nvidia-smi.txt"
# Lines of the log are the test data of ncclscope's reader: kept as they are.
NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,ALLOC NCCL_DEBUG_FILE="$out/memory-log.%p" \
    python3 bench/gpu/memory.py --ranks 2 ${2:+--nccl "$2"} >"$out/memory-of-log.txt"

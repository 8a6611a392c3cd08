#!/usr/bin/env bash
# Hangs of two ranks without a recorder, of which PyTorch's flight recorder writes dumps, and what `ncclscope
# hang` says of these.
#
#     bench/gpu/flight_dumps.sh OUT [WRONG…]   # half a minute; needs two GPUs and `make` first
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for dumps}
shift
scope=${NCCLSCOPE:-target/release/ncclscope}
unset NCCLSCOPE
export NCCL_NVLS_ENABLE=0
[ $# -gt 0 ] || set -- kernel loop size crossed skip sends

play() { # WRONG
    local dumps=$out/$1
    mkdir -p "$dumps"
    # Older releases of PyTorch know the second name of each.
    TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=true \
        TORCH_FR_DUMP_TEMP_FILE=$dumps/nccl_trace_rank_ \
        TORCH_NCCL_DEBUG_INFO_TEMP_FILE=$dumps/nccl_trace_rank_ \
        timeout -s KILL 60 python3 bench/gpu/jobs.py ddp --layers 2 --width 256 --tokens 128 --batch 2 \
        --steps 100000 --sync-every 10 --wrong "$1" --wrong-rank 1 --wrong-step 200 --timeout 8 \
        >"$dumps.out" 2>"$dumps.err" </dev/null
    "$scope" hang "$dumps" >"$dumps.said" 2>&1
    echo "$1 (status $?, $(ls "$dumps" | wc -l) dumps): $(head -2 "$dumps.said" | cut -c1-260 | paste -sd' ')"
}

for wrong in "$@"; do
    play "$wrong" &
done
wait

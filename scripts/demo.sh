#!/usr/bin/env bash
# The main job, shown: a recorded real training job through the plugin, and with GPUs a live one as well.
# usage: demo.sh FOLDER_WITH_THE_BUILT_COMMANDS
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$(realpath "${1:?folder of the built commands}")
plugin=$("$bin/ncclscope" plugin-path)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo "A recorded job: DenseNet-121 under DistributedDataParallel, 8 ranks as two hosts, on H200 GPUs"
echo "(data/ddp8_two_hosts)"
echo "is played again at the plugin's C ABI, without a GPU; this is the report of what the plugin recorded:"
echo
NCCLSCOPE_OUT="$work/replayed" NCCLSCOPE_TIMING=stamps NCCLSCOPE_QUIET=1 \
    "$bin/fake-nccl" replay data/ddp8_two_hosts --plugin "$plugin" >"$work/announced.json"
"$bin/ncclscope" report "$work/replayed"

gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
if [ "${gpus:-0}" -lt 1 ]; then
    echo
    echo "No GPU here, so no live job. On a machine with GPUs:"
    echo "    ncclscope run -- torchrun --nproc-per-node 8 train.py"
    exit 0
fi
echo
if python3 -c 'import torch, torchvision' 2>/dev/null; then
    echo "Now a live training job on $gpus GPU(s):"
    job=(python3 -m torch.distributed.run --nnodes 1 --master-addr 127.0.0.1 --master-port 29517
        --nproc-per-node "$gpus" bench/gpu/ddp_densenet.py --steps 20)
else
    echo "Now live NCCL calls on $gpus GPU(s) (there is no torch here for a training job):"
    job=(python3 bench/gpu/nccl_calls.py paper --ranks "$gpus" --iterations 5 --max-bytes 1048576)
fi
# NVLink multicast is left alone: a demo has no business with it.
NCCL_NVLS_ENABLE=0 "$bin/ncclscope" run -o "$work/live" -- "${job[@]}"
echo
"$bin/ncclscope" report "$work/live"

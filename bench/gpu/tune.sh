#!/usr/bin/env bash
# Algorithms and protocols tried within one run of a DDP job that waits for its AllReduces, on all GPUs:
#
#     bench/gpu/tune.sh OUT
#     RUNS=1 bench/gpu/tune.sh OUT      # besides, in runs of their own (half a minute more)
#
# It prints the ranking, with intervals, and NVIDIA's tuner file if a setting wins. Asks: does NCCL load the
# tuner, do all ranks switch alike (else the job hangs), and is there a gain over NCCL's own choice? Needs
# python3 with torch, and `make` first (or NCCLSCOPE=target/debug/ncclscope); under a minute.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for the captures}
scope=${NCCLSCOPE:-target/release/ncclscope}
mkdir -p "$out"
rm -rf "$out/within" "$out/between"

begin=$SECONDS
"$scope" tune --within --block "${BLOCK:-360}" --timeout 55 -o "$out/within" \
    --try NCCL_ALGO=Ring,Tree --try NCCL_PROTO=LL128,Simple -- \
    python3 bench/gpu/jobs.py ddp --steps "${STEPS:-3000}" --width 1024 --batch 1 --tokens 128
echo "exit status $?, $((SECONDS - begin)) s"
tail -1 "$out/within/output.txt" | cut -c 1-300
cat "$out/within/nccl_tuner.conf" 2>/dev/null
ls "$out/within" | grep -c blocks
"$scope" report "$out/within/capture" --json | python3 -c '
import json, sys

report = json.load(sys.stdin)
steps = report["steps"] or {}
print("steps", steps.get("steps"), "calls in a step", steps.get("calls"))
for row in report["operations"]:
    if row["calls"] > 100:
        names = ["function", "bytes", "algorithm", "protocol", "calls", "busbw_gb_per_s"]
        print(*[row[name] for name in names])
'
if [ "${RUNS:-0}" = 1 ]; then
    "$scope" tune --rounds 4 --timeout 60 -o "$out/between" --try NCCL_PROTO=LL128,Simple -- \
        "$scope" bench all_reduce -b 25M -n 2000
    echo "exit status $?"
fi

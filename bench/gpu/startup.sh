#!/usr/bin/env bash
# Start-up of a real job: what NCCL says of its init under `ncclscope run`, and what that costs.
#
#     bench/gpu/startup.sh OUT
#
# Asks: is NCCL's output off the program's streams, are no files left in /dev/shm, are the phases of all ranks
# there, do calls cost the same with NCCL's output in a file, and how does what ALLOC lines sum up to compare
# with what NVML sees. Keeps NCCL's own log, its topology and graphs, and nvidia-smi's matrix. Needs two GPUs,
# python3, `make` first; 80 s.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for captures and logs}
scope=${NCCLSCOPE:-target/release/ncclscope}
export NCCL_NVLS_ENABLE=0
mkdir -p "$out"
calls="timeout 60 python3 bench/gpu/nccl_calls.py"

NCCLSCOPE_NCCL_LOG=on "$scope" run -o "$out/capture" -- $calls mix --parts ring,after >"$out/run.out" \
    2>"$out/run.err"
echo "recorded: exit status $?"
lines=$(cat "$out/run.out" "$out/run.err" | grep -c 'NCCL INFO')
echo "lines of NCCL on the program's streams (0 wanted): $lines"
echo "files left in /dev/shm (0 wanted): $(ls /dev/shm | grep -c '^ncclscope-log')"
"$scope" startup --all "$out/capture" | tee "$out/startup.txt"
"$scope" startup --json "$out/capture" >"$out/startup.json"

echo "== the same as a file"
NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,ALLOC,ENV NCCL_DEBUG_FILE="$out/log.%h.%p" \
    NCCL_TOPO_DUMP_FILE="$out/topology.xml" NCCL_GRAPH_DUMP_FILE="$out/graphs.xml" \
    $calls mix --parts ring,after >"$out/log.out" 2>&1
"$scope" startup "$out"/log.* | head -20
wc -lc "$out"/log.* | tail -1
grep -ho 'Alloc Size [0-9]*' "$out"/log.* |
    awk '{sum += $3} END {print "ALLOC lines sum up to", sum / 1048576, "MiB"}'
nvidia-smi topo -m >"$out/topo.txt" 2>&1
nvidia-smi --query-gpu=index,memory.used --format=csv >"$out/memory.txt"

echo "== µs per call, NCCL's output off and on, three times each"
for round in 1 2 3; do
    for log in off on; do
        echo -n "$log: "
        NCCLSCOPE_NCCL_LOG=$log NCCLSCOPE_QUIET=1 timeout 30 "$scope" run -o "$out/cost-$log-$round" -- \
            python3 bench/gpu/nccl_calls.py flood --calls 20000 2>"$out/cost.err" | tail -1 | cut -c1-300
    done
done
rm -rf "$out"/cost-*

#!/usr/bin/env bash
# Slow ranks and hangs of a real training job, of which the truth is known: what `report` and `hang` say of them.
#
#   bench/gpu/waits.sh OUT            # needs GPUs, python3 with torch and torchvision, and `make` first
#
# RANKS is the number of GPUs. Runs alternate slowed and unslowed, so that the cost of the slow rank is known as the difference of their
# times. Hanging jobs are asked while they hang, then killed.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for captures}
scope=${NCCLSCOPE:-target/release/ncclscope}
ranks=${RANKS:-$(nvidia-smi -L | grep -c '^GPU')}
export NCCL_NVLS_ENABLE=0 NCCL_SOCKET_IFNAME=lo OMP_NUM_THREADS=8
train="python3 -m torch.distributed.run --nnodes 1 --master-addr 127.0.0.1 --master-port 29511 --nproc-per-node $ranks bench/gpu/ddp_densenet.py"
mkdir -p "$out"

slow() { # NAME HOSTS OPTIONS…: the job's time, and the end of the report
    local name=$1 hosts=$2; shift 2
    timeout 110 "$scope" run -o "$out/$name" -- $train --steps "${STEPS:-45}" --hosts "$hosts" "$@" >"$out/$name.out" 2>"$out/$name.err"
    echo "== $name: $(grep 'median step' "$out/$name.out")"
    "$scope" report "$out/$name" >"$out/$name.report"
    sed -n '/^Findings/,$p' "$out/$name.report"
}
hang() { # NAME OPTIONS…: what `hang` says of the job 15 s after it went wrong, and of the killed one
    local name=$1; shift
    "$scope" run -o "$out/$name" -- $train --steps 100000 "$@" >"$out/$name.out" 2>"$out/$name.err" &
    local job=$!
    sleep "${AFTER:-35}"
    echo "== $name, $(pgrep -fc ddp_densenet.py) processes alive"
    "$scope" hang "$out/$name" --after 8s; echo "exit status $?"
    pkill -KILL -f ddp_densenet.py; wait $job
    echo "-- after kill -9 of all"
    "$scope" hang "$out/$name" | head -3
}

for hosts in ${HOSTS_LIST-1}; do
    for turn in ${TURNS:-1 2}; do
        slow plain.$hosts.$turn "$hosts"
        slow host.$hosts.$turn "$hosts" --slow-rank 2 --slow-ms 20 --slow-on host
        slow gpu.$hosts.$turn "$hosts" --slow-rank 1 --slow-ms 20 --slow-on gpu
    done
done
hang skip --wrong-rank 1 --wrong-step 60 --wrong skip
hang order --wrong-rank 3 --wrong-step 60 --wrong order
hang dead --kill-rank 2 --kill-step 60

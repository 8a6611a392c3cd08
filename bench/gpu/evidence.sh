#!/usr/bin/env bash
# The runs behind bench/README.md: real jobs under ncclscope, each compared with what the program (or NCCL's
# log) says it did.
#
#   bench/gpu/evidence.sh OUT [NCCL_2_30 [NCCL_2_32]] # the last two: other releases' libnccl.so.2, or one
#   packed as .xz
#
# Needs GPUs, python3, for the training jobs torch and torchvision, and `make` first. RANKS is the number of
# GPUs.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for captures}; nccl230=${2:-}; nccl232=${3:-}
scope=${NCCLSCOPE:-target/release/ncclscope}
ranks=${RANKS:-$(nvidia-smi -L | grep -c '^GPU')}
export NCCL_NVLS_ENABLE=0 NCCL_SOCKET_IFNAME=lo OMP_NUM_THREADS=8
calls="python3 bench/gpu/nccl_calls.py"
train="python3 -m torch.distributed.run --nnodes 1 --master-addr 127.0.0.1 --master-port 29511"
mkdir -p "$out"

summary() { # NAME: one line of what was announced, recorded, timed, and what the program counted
    "$scope" report "$out/$1" --json >"$out/$1.report.json" && python3 - "$out/$1" <<'P'
import json, os, sys
name = sys.argv[1]
c = json.load(open(name + ".report.json"))["completeness"]
print("  announced", c["announced"], "recorded", c["recorded"], "timed", c["timed"],
      "lost", c["lost"], "not timed", c["untimed"])
lines = [line for line in open(name + ".out", errors="replace") if line.startswith("{")]
if lines:
    print("  the program made", json.loads(lines[-1]).get("calls_all_ranks"))
if os.path.exists(name + ".log.json"):
    print("  NCCL's own log has", json.load(open(name + ".log.json"))["total"])
P
}
record() { # NAME MODE TIMING COMMAND…
    local name=$1 mode=$2 timing=$3; shift 3
    echo "$name"
    timeout 110 "$scope" run -o "$out/$name" --mode "$mode" --timing "$timing" -- "$@" >"$out/$name.out" \
        2>"$out/$name.err"
    summary "$name"
}
logged() { # as record, with NCCL's own log of calls beside
    local name=$1 mode=$2 timing=$3; shift 3
    mkdir -p "$out/$name.log"
    echo "$name"
    NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL NCCL_DEBUG_FILE="$out/$name.log/nccl.%p" \
        timeout 110 "$scope" run -o "$out/$name" --mode "$mode" --timing "$timing" -- "$@" >"$out/$name.out" \
        2>"$out/$name.err"
    python3 bench/gpu/count_nccl_log.py "$out/$name.log"/nccl.* >"$out/$name.log.json"
    summary "$name"
}

for release in 228: 230:$nccl230 232:$nccl232; do
    tag=${release%%:*}; library=${release#*:}
    [ "$tag" = 228 ] || [ -n "$library" ] || continue
    with=${library:+--nccl $library}
    record paper$tag trace stamps $calls paper --ranks "$ranks" $with
    record flood$tag trace stamps $calls flood --ranks "$ranks" $with
    record mix$tag callbacks stamps $calls mix --ranks "$ranks" $with
done
record flood_host trace host $calls flood --ranks "$ranks"
record flood_profile profile host $calls flood --ranks "$ranks"
record mix_hosts callbacks stamps $calls mix --ranks "$ranks" --hosts 2
record threads callbacks stamps $calls threads --ranks "$ranks"
record killed trace host $calls flood --ranks "$ranks" --kill-rank 1 --kill-after 50000
logged ddp trace stamps $train --nproc-per-node "$ranks" bench/gpu/ddp_densenet.py --steps 55
logged ddp_nodestroy trace host $train --nproc-per-node "$ranks" bench/gpu/ddp_densenet.py --steps 30 \
    --no-destroy
logged ddp_hosts trace stamps $train --nproc-per-node "$ranks" bench/gpu/ddp_densenet.py --hosts 2 --steps 20
logged ddp_killed trace host $train --nproc-per-node "$ranks" bench/gpu/ddp_densenet.py --kill-rank 1 \
    --kill-step 20

echo "overhead: median µs per operation (least, most) of 5 alternated runs"
for i in 1 2 3 4 5; do
    $calls overhead --ranks "$ranks" >"$out/overhead.$i.none.json" 2>/dev/null
    for timing in host stamps; do
        "$scope" run -o "$out/overhead.$i.$timing" --timing $timing -- $calls overhead --ranks "$ranks" \
            >"$out/overhead.$i.$timing.json" 2>/dev/null
    done
done
python3 - "$out" <<'P'
import glob, json, statistics, sys
figures = {}
for file in sorted(glob.glob(sys.argv[1] + "/overhead.*.json")):
    run = json.loads([line for line in open(file) if line.startswith("{")][-1])["rank0"]["overhead"]
    for what, value in run.items():
        figures.setdefault(what, {}).setdefault(file.split(".")[-2], []).append(value["median"])
for what, runs in figures.items():
    print(" ", what, {how: (statistics.median(v), min(v), max(v)) for how, v in runs.items()})
P

#!/usr/bin/env bash
# Whether counts and times are right with other releases of NCCL, also under torch, and with a client of RAS:
#
#     bench/gpu/releases.sh OUT NCCL…      # each a libnccl.so.2, or one packed as .so.xz
#
# Per release: calls of every kind (`nccl_calls.py mix`) beside what was recorded; a training job of torch
# beside NCCL's own log, with kernel windows; times of calls (`held`), for accuracy.py; all events of two
# hosts; and a client of RAS that takes the profiler's events away for three seconds (2.31 or newer).
# Needs two GPUs, torch, and `make` first; a minute for each NCCL.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for captures}
shift
scope=${NCCLSCOPE:-target/release/ncclscope}
unset NCCLSCOPE
export NCCL_NVLS_ENABLE=0 NCCL_SOCKET_IFNAME=lo NCCLSCOPE_QUIET=1
calls="python3 bench/gpu/nccl_calls.py"
mkdir -p "$out"

counts() { # NAME: what was recorded
    "$scope" report "$out/$1" --json 2>/dev/null | python3 -c '
import json, sys
report = json.load(sys.stdin)
c = report["completeness"]
print("  announced", c["announced"], "recorded", c["recorded"], "timed", c["timed"], "lost", c["lost"],
      "not timed", c["untimed"])
for note in report["notes"]:
    text = note if isinstance(note, str) else note.get("text", str(note))
    if any(word in text for word in ("indow", "mask", "CUPTI", "profiler")):
        print("   ", text[:200])'
}

# Asks RAS of one rank: the first lines of its answer.
ras() {
    exec 3<>/dev/tcp/127.0.0.1/28028 || return
    printf 'CLIENT PROTOCOL 2\n%s\n' "$1" >&3
    timeout 2 head -4 <&3 | sed "s/^/    RAS: /"
    exec 3>&-
}

for library in "$@"; do
    name=$(basename "${library%.xz}" .so)
    file=$($calls unpack --nccl "$library")
    echo "== $name"
    timeout 60 "$scope" run -o "$out/$name.mix" --mode callbacks -- $calls mix --ranks 2 --nccl "$file" \
        >"$out/$name.mix.out" 2>"$out/$name.mix.err" </dev/null
    echo "mix: the program made $(grep -o '"calls_all_ranks": [0-9]*' "$out/$name.mix.out")"
    counts "$name.mix"
    mkdir -p "$out/$name.truth"
    timeout 60 "$scope" run -o "$out/$name.held" -- $calls held --ranks 2 --nccl "$file" --iterations 20 \
        --max-bytes 33554432 --truth "$out/$name.truth" >"$out/$name.held.out" 2>&1 </dev/null
    echo "held"
    counts "$name.held"
    mkdir -p "$out/$name.log"
    NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL NCCL_DEBUG_FILE="$out/$name.log/nccl.%p" NCCLSCOPE_WINDOWS=on \
        LD_PRELOAD=$file timeout 70 "$scope" run -o "$out/$name.ddp" -- python3 bench/gpu/jobs.py ddp \
        --steps 200 --layers 8 --batch 6 >"$out/$name.ddp.out" 2>"$out/$name.ddp.err" </dev/null
    echo "torch, ddp: in NCCL's own log $(python3 bench/gpu/count_nccl_log.py "$out/$name.log"/nccl.* |
        grep -o '"total": [0-9]*')"
    counts "$name.ddp"
    NCCLSCOPE_EVENTS=all timeout 60 "$scope" run -o "$out/$name.hosts" --mode callbacks -- $calls mix \
        --ranks 2 --hosts 2 --parts fused --nccl "$file" >"$out/$name.hosts.out" 2>&1 </dev/null
    "$scope" export "$out/$name.hosts" --to jsonl 2>/dev/null | grep '"startEvent"' |
        grep -o '"type": *"[A-Za-z]*"' | sort | uniq -c | tr '\n' ' '
    echo
    LD_PRELOAD=$file timeout 60 "$scope" run -o "$out/$name.ras" -- python3 bench/gpu/jobs.py ddp \
        --steps 900 --layers 8 --batch 6 >"$out/$name.ras.out" 2>"$out/$name.ras.err" </dev/null &
    sleep 16
    ras 'CONTROL PROFILER_MASK none'
    sleep 3
    ras 'CONTROL PROFILER_MASK all'
    wait $!
    echo "RAS: $(grep -o '"wall_s": [0-9.]*' "$out/$name.ras.out")"
    counts "$name.ras"
done

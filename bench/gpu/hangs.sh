#!/usr/bin/env bash
# Jobs that hang in a known way, several at a time, and what `ncclscope hang` says of each while it stands and
# after it was killed.
#
#     bench/gpu/hangs.sh OUT [WRONG…]   # about a minute; needs two GPUs and `make` first
#
# Two ranks have a GPU of their own each, and the last rank goes wrong. Four jobs at a time share the GPUs.
# RANKS=8 plays as many ranks, each as a host of its own, until step STEP. With JOBS=1, one job runs at a
# time.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for captures}
shift
scope=${NCCLSCOPE:-target/release/ncclscope}
unset NCCLSCOPE
export NCCL_NVLS_ENABLE=0 NCCLSCOPE_QUIET=1
[ $# -gt 0 ] || set -- stopped killed left loop kernel full size order crossed sends skip graph group
ranks=${RANKS:-2}
[ "$ranks" -gt 2 ] && hosts=$ranks || hosts=1
mkdir -p "$out"

play() { # NAME WRONG RANK
    local name=$1 wrong=$2 rank=$3
    # The job is in a process group of its own, to be killed whole.
    setsid timeout -s KILL 90 "$scope" run -o "$out/$name" -- python3 bench/gpu/jobs.py ddp --layers 2 \
        --ranks "$ranks" --hosts "$hosts" --width 256 --tokens 128 --batch 2 --steps 100000 --sync-every 10 \
        --wrong "$wrong" --wrong-rank "$rank" --wrong-step "${STEP:-200}" >"$out/$name.out" \
        2>"$out/$name.err" </dev/null &
    local job=$! waited=0
    "$scope" hang "$out/$name" --watch 2>"$out/$name.watch.err" </dev/null \
        | while IFS= read -r line; do echo "$(date +%s.%N) $line"; done >"$out/$name.watch" &
    until grep -q "goes wrong now" "$out/$name.err" || ((++waited > 900)); do sleep 0.05; done
    local wrong_at
    wrong_at=$(date +%s.%N)
    sleep 12
    "$scope" hang "$out/$name" >"$out/$name.live" 2>&1
    local status=$?
    kill -9 -- "-$job" 2>/dev/null
    pkill -KILL -f "[-]o $out/$name " 2>/dev/null
    wait $job 2>/dev/null # The shell's own words on a killed job are noise.
    "$scope" collect "$out/$name" >/dev/null 2>&1
    "$scope" hang "$out/$name" >"$out/$name.dead" 2>&1
    {
        echo "$name: rank $rank goes wrong ($wrong)"
        awk -v at="$wrong_at" \
            '{ printf "  watch, %.1f s after: %s\n", $1 - at, substr($0, length($1) + 22, 150) }' \
            "$out/$name.watch" | head -3
        echo "  live (status $status): $(head -2 "$out/$name.live" | cut -c1-260 | paste -sd' ')"
        echo "  dead: $(head -2 "$out/$name.dead" | cut -c1-260 | paste -sd' ')"
    } >"$out/$name.said"
    cat "$out/$name.said"
}

running=0
for wrong in "$@"; do
    play "$wrong" "$wrong" $((ranks - 1)) &
    ((++running % ${JOBS:-4})) || wait
done
wait

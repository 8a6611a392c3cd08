#!/usr/bin/env bash
# What recording costs the steps of jobs, and what `ncclscope top` and `serve` beside it cost: runs in turns.
#
#     bench/gpu/cost.sh OUT [SECONDS]   # below ten minutes; needs two GPUs and `make` first
#
# A round plays one shape in each mode of MODES, in an order that is drawn: `plain` without ncclscope,
# `recorded` under `ncclscope run`, `watched` with `top --json` and `serve` beside that, asked once a second.
# JOBS is a file instead of the list below: in each line options of jobs.py. Rounds go on until the time is
# over; then come the ratios of the median steps, with 95 % intervals. With SIDES=1, the modes of a round run
# at once, each on its own share of the GPUs, which is drawn too: twice as many rounds of two modes, and both
# see the same moods of the machine.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for captures}
end=$((SECONDS + ${2:-580}))
scope=${NCCLSCOPE:-target/release/ncclscope}
read -ra modes <<<"${MODES:-plain recorded watched}"
unset NCCLSCOPE
export NCCL_NVLS_ENABLE=0 NCCLSCOPE_QUIET=1
mkdir -p "$out"

watch() { # CAPTURE: until it is killed
    local capture=$1 watchers=()
    until ls "$capture" >/dev/null 2>&1; do sleep 0.2; done
    "$scope" top "$capture" --json >"$capture.top" 2>&1 &
    watchers+=($!)
    "$scope" serve "$capture" --listen 127.0.0.1:9477 >"$capture.serve" 2>&1 &
    watchers+=($!)
    # shellcheck disable=SC2064 # Which processes they are is known now.
    trap "kill ${watchers[*]} 2>/dev/null; exit" TERM
    while sleep 1; do
        curl -s -m 2 http://127.0.0.1:9477/metrics >"$capture.asked" &&
            mv "$capture.asked" "$capture.metrics"
        for pid in "${watchers[@]}"; do
            awk '{print ($14 + $15) / 100}' "/proc/$pid/stat" 2>/dev/null
        done >"$capture.cpu"
    done
}

play() { # NAME MODE OPTIONS…
    local name=$1 mode=$2 recorder=() watcher=
    shift 2
    [ "$mode" = plain ] || recorder=("$scope" run -o "$out/$name" --)
    [ "$mode" = watched ] && { watch "$out/$name" & watcher=$!; }
    timeout 90 "${recorder[@]}" python3 bench/gpu/jobs.py "$@" 2>"$out/$name.err" </dev/null |
        grep wall_s | tail -1 >"$out/$name.json"
    [ "$watcher" ] && { kill "$watcher"; wait "$watcher"; } 2>/dev/null
}

mapfile -t jobs < <(cat "${JOBS:-/dev/stdin}" <<'LIST'
tensor --steps 20000 --batch 32 --width 2048
fsdp2 --steps 400 --layers 12 --batch 6
ddp --steps 400 --layers 12 --batch 6
LIST
)
gpus=$(nvidia-smi -L | grep -c '^GPU') longest=0
for round in $(seq 1000); do
    for number in "${!jobs[@]}"; do
        share=0
        for mode in $(shuf -e "${modes[@]}"); do
            ((share == 0)) && began=$SECONDS
            ((began + longest + 5 > end)) && break 3
            on=()
            if [ "${SIDES:-}" ]; then
                each=$((gpus / ${#modes[@]}))
                on=(--gpus "$(seq -s, $((share * each)) $(((share + 1) * each - 1)))")
            fi
            # shellcheck disable=SC2086 # The options are words.
            play "$number.$mode.$round" "$mode" ${jobs[number]} "${on[@]}" &
            share=$((share + 1))
            [ "${SIDES:-}" ] && ((share < ${#modes[@]})) && continue
            wait
            [ "${SIDES:-}" ] || share=0
            ((SECONDS - began > longest)) && longest=$((SECONDS - began))
        done
        for mode in "${modes[@]}"; do
            rm -rf "${out:?}/$number.$mode.$((round - 1))"
        done
    done
done
printf '%s\n' "${jobs[@]}" | python3 bench/gpu/cost.py "$out" "${modes[@]}"

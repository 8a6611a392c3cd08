#!/usr/bin/env bash
# Jobs of several shapes: each healthy, then with a late host, then with a busier GPU, and what line 1 of the
# report says of each beside the truth.
#
#     bench/gpu/shapes.sh OUT [SECONDS]   # below ten minutes; needs two GPUs and `make` first
#
# The truth is on the line of each run: `slow_rank`, `slow_on`, and its `wall_s` less that of the healthy run.
# SHAPES is a file instead of the list below: in each line a shape, the milliseconds of a late host and of a
# busier GPU, and options. HOST_RANK and GPU_RANK are who has them. Captures stay in OUT.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for captures}
end=$((SECONDS + ${2:-580}))
scope=${NCCLSCOPE:-target/release/ncclscope}
unset NCCLSCOPE
export NCCL_NVLS_ENABLE=0 NCCLSCOPE_QUIET=1
mkdir -p "$out"

job() { # NAME SHAPE OPTIONS…
    local name=$1 line
    shift
    line=$(timeout 50 "$scope" run -o "$out/$name" -- python3 bench/gpu/jobs.py "$@" 2>"$out/$name.err" |
        grep wall_s | tail -1)
    echo "$name: $*"
    echo "  $line" | cut -c1-420
    "$scope" report "$out/$name" 2>/dev/null | head -3 | cut -c1-250 | sed 's/^/  /'
}

number=0
while read -r shape late busier options; do
    number=$((number + 1))
    for kind in healthy host gpu; do
        ((SECONDS + 25 > end)) && break 2
        slow=()
        [ $kind = host ] && slow=(--slow-rank "${HOST_RANK:-0}" --slow-ms "$late")
        [ $kind = gpu ] && slow=(--slow-rank "${GPU_RANK:-1}" --slow-on gpu --slow-ms "$busier")
        # shellcheck disable=SC2086 # The options are words.
        job "$number.$shape.$kind" "$shape" $options "${slow[@]}" </dev/null
    done
done < <(cat "${SHAPES:-/dev/stdin}" <<'EOF'
fsdp2 25 12 --steps 90 --batch 12 --layers 10
pipeline 20 12 --steps 110 --layers 8
ddp 12 8 --steps 300 --layers 8 --batch 4
experts 15 10 --steps 130 --layers 8
grid 3 2 --steps 1400
tensor 2 1 --steps 4000 --batch 64 --width 2048
ring 10 8 --steps 220 --layers 8
accumulation 30 10 --steps 120 --layers 16 --sync-every 5
EOF
)

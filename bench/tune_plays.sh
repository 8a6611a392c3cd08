#!/usr/bin/env bash
# Plays tuning experiments whose truth is known, without a GPU: how often is the ranking right, and how often
# does an experiment without a difference name a winner?
#
#     bench/tune_plays.sh [PLAYS] [FOLDER_OF_THE_BUILT_PROGRAMS]
#
# Each play is a whole `ncclscope tune` over fake-nccl, with its own noise, beside whatever this machine does.
set -u
cd "$(dirname "$0")/.."
plays=${1:-100}
export PATH="$PWD/${2:-target/debug}:$PATH"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 2

job() {
    echo "ranks 2"
    echo "choice RING SIMPLE x1 ; choice RING LL x$1 ; choice TREE SIMPLE x$2 ; noise 3%"
    echo "repeat 24 { sleep 1ms ; all_reduce 4MiB time=3ms ; all_reduce 1KiB time=10us ; sync }"
}

job 1.2 0.8 >different
job 1 1 >equal
right=0 named=0
for play in $(seq "$plays"); do
    for kind in different equal; do
        ncclscope tune --rounds 4 --json -o "$kind-$play" --setting NCCL_PROTO=LL --setting NCCL_ALGO=Tree \
            -- fake-nccl play "$kind" >"$kind.json" 2>/dev/null
        status=$?
        if [ "$kind" = equal ]; then
            [ $status = 0 ] && named=$((named + 1))
        else
            order=$(jq -r '[.settings[].name] | join(" ")' "$kind.json")
            [ "$status $order" = "0 NCCL_ALGO=Tree default NCCL_PROTO=LL" ] && right=$((right + 1))
        fi
        rm -rf "$kind-$play"
    done
done
echo "with differences: the right winner and order in $right of $plays plays"
echo "without a difference: a winner in $named of $plays plays"

#!/usr/bin/env bash
# Plays tuning experiments whose truth is known, without a GPU: how often is the ranking right, and how often
# does an experiment without a difference name a winner?
#
#     bench/tune_plays.sh [PLAYS] [FOLDER_OF_THE_BUILT_PROGRAMS] [NUMBER_OF_THE_FIRST_PLAY]
#
# Each play is a whole `ncclscope tune` over fake-nccl, between runs and within one run, with noise of its
# own. The plays are in virtual time, so what else this machine does moves nothing: a number gives the same
# play on every machine. Exit status 1 if a ranking was wrong, or if more than 5 of 100 plays named a winner.
set -u
cd "$(dirname "$0")/.."
plays=${1:-100}
first=${3:-1}
export PATH="$PWD/${2:-target/debug}:$PATH"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 2

# job STEPS FACTOR_OF_LL FACTOR_OF_TREE
job() {
    echo "ranks 2"
    echo "virtual_time"
    echo "choice RING SIMPLE x1 ; choice RING LL x$2 ; choice TREE SIMPLE x$3 ; noise 5%"
    echo "repeat $1 { sleep 1ms ; all_reduce 4MiB time=3ms ; all_reduce 1KiB time=10us ; sync }"
}
job 24 1.2 0.8 >runs-different
job 24 1 1 >runs-equal
job 400 1.2 0.8 >blocks-different
job 400 1 1 >blocks-equal
# The runs of a play differ, too: `runs` counts them.
cat >play <<'PLAY'
#!/bin/sh
n=$(cat runs)
echo $((n + 1)) >runs
FAKE_NCCL_SEED=$((PLAY * 1000 + n)) exec fake-nccl play "$1"
PLAY
chmod +x play

declare -A right named
failed=0
for play in $(seq "$first" $((first + plays - 1))); do
    for way in runs blocks; do
        options=(--rounds 4)
        [ $way = blocks ] && options=(--within --block 20)
        for kind in different equal; do
            echo 0 >runs
            PLAY=$play ncclscope tune "${options[@]}" --seed "$play" --json -o out --setting NCCL_PROTO=LL \
                --setting NCCL_ALGO=Tree -- ./play $way-$kind >answer 2>errors
            status=$?
            order=$(jq -r '[.settings[].name] | join(" ")' answer)
            rm -rf out
            if [ -z "$order" ]; then
                cat errors
                failed=1
            elif [ $kind = equal ]; then
                [ $status = 2 ] || named[$way]=$((${named[$way]:-0} + 1))
            elif [ "$status $order" = "0 NCCL_ALGO=Tree default NCCL_PROTO=LL" ]; then
                right[$way]=$((${right[$way]:-0} + 1))
            fi
        done
    done
done
for way in runs blocks; do
    echo "$way, with differences: the right winner and order in ${right[$way]:-0} of $plays plays"
    echo "$way, without a difference: a winner in ${named[$way]:-0} of $plays plays"
    [ "${right[$way]:-0}" = "$plays" ] && [ $((${named[$way]:-0} * 20)) -le "$plays" ] || failed=1
done
exit $failed

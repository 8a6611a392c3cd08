#!/usr/bin/env bash
# What `ncclscope hostbench` measures on a host with two GPUs, and whether it finds a difference of the host
# with itself.
#
#     bench/gpu/hostbench.sh OUT
#
# Asks: do launches, events, allocations, registrations, IPC handles, NVML's calls and copies have figures,
# are copies between GPUs as fast as NVLink, does a second run differ from the first (no is wanted), and how
# long do two runs take. Needs two GPUs and a release build; 40 s.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for figures}
scope=${NCCLSCOPE:-target/release/ncclscope}
mkdir -p "$out"

start=$SECONDS
for run in a b; do
    timeout 100 "$scope" hostbench --starts 7 --only clocks,locks,calls,gpu --json "$out/$run.json" \
        >"$out/$run.txt"
    echo "run $run: exit status $?"
done
echo "seconds of two runs: $((SECONDS - start))"
sed -n '/^GPU/,$p' "$out/a.txt"
"$scope" hostbench diff "$out/a.json" "$out/b.json" --html "$out/diff.html"
echo "differs from itself (0 wanted): $?"

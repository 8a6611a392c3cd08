#!/usr/bin/env bash
# Exposed communication by stream waits beside that by kernel windows, of the same jobs; and what seeing waits
# costs.
#
#   bench/gpu/stream_waits.sh OUT # needs GPUs, python3 with torch, and `make` first; RANKS, STEPS, ROUNDS,
#   SHAPES
#
# First each job once with both: a table by rank. Then, without windows, each job with waits and without
# (NCCLSCOPE_WAITS=off) and without a profiler, ROUNDS times in random order: the time of a step by that of
# the same round without a profiler.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for captures}
scope=${NCCLSCOPE:-target/release/ncclscope}
ranks=${RANKS:-$(nvidia-smi -L | grep -c '^GPU')}
export NCCL_NVLS_ENABLE=0 NCCL_SOCKET_IFNAME=lo OMP_NUM_THREADS=8
mkdir -p "$out"

job() { # NAME WAY SHAPE: a run in one way; its line of JSON is left in OUT/NAME.run
    local under=
    case $2 in
        none) ;;
        both) under="$scope run -o $out/$1 --" ;;
        waits) under="env NCCLSCOPE_WINDOWS=off $scope run -o $out/$1 --" ;;
        no_waits) under="env NCCLSCOPE_WINDOWS=off NCCLSCOPE_WAITS=off $scope run -o $out/$1 --" ;;
    esac
    timeout "${LIMIT:-120}" $under python3 bench/gpu/jobs.py "$3" --ranks "$ranks" --steps "${STEPS:-200}" \
        --warm-up 5 \
        >"$out/$1.run" 2>"$out/$1.err" </dev/null
}

shapes=${SHAPES:-ddp fsdp2 grid eager}
for shape in $shapes; do
    job "both.$shape" both "$shape"
    "$scope" report "$out/both.$shape" --all >"$out/both.$shape.txt" 2>&1
    "$scope" report "$out/both.$shape" --json >"$out/both.$shape.json"
done
for round in $(seq "${ROUNDS:-3}"); do
    for shape in $shapes; do
        for way in $(printf '%s\n' none waits no_waits | shuf); do
            job "$way.$shape.$round" "$way" "$shape"
        done
    done
done
python3 - "$out" "${ROUNDS:-3}" $shapes <<'P'
import json, statistics, sys
out, rounds, shapes = sys.argv[1], int(sys.argv[2]), sys.argv[3:]

def read(name):
    try:
        return json.load(open(f"{out}/{name}"))
    except (OSError, ValueError):
        return None

def share(of):
    if of is None:
        return "-"
    low, high = of["interval"] or (of["share"], of["share"])
    return f"{100 * of['share']:.2f}±{50 * (high - low):.2f}"

print("Exposed communication, % of the time ± 95 % (before: of it, before the call began)")
print(f"{'job':8} {'rank':>4} {'waits':>12} {'before':>7} {'at most':>8} {'windows':>12} {'difference':>10} "
      f"{'known/calls':>14} {'waited':>7} {'untimed':>7}")
for shape in shapes:
    report = read(f"both.{shape}.json")
    waits = report and report["stream_waits"]
    if not waits:
        windows = (report or {}).get("streams") or {}
        told = " ".join(share(rank["exposed"]) for rank in windows.get("ranks", []))
        print(f"{shape:8} no stream was seen to wait; windows: {told or 'none'}")
        continue
    for rank in waits["ranks"]:
        difference = rank["difference"]
        told = "-" if difference is None else f"{100 * difference:+.2f}"
        before = 100 * rank["before_us"] / rank["active_us"]
        known = f"{rank['known']}/{rank['calls']}"
        print(
            f"{shape:8} {str(rank['rank']):>4} {share(rank['share']):>12} {before:>7.2f} "
            f"{100 * rank['at_most']:>8.2f} "
            f"{share(rank['by_windows']):>12} {told:>10} {known:>14} {rank['waited']:>7} {rank['untimed']:>7}"
        )
print("\nTime of a step by that without a profiler, by round (windows off)")
for shape in shapes:
    for way in "waits", "no_waits":
        ratios = []
        for number in range(1, rounds + 1):
            alone, with_us = read(f"none.{shape}.{number}.run"), read(f"{way}.{shape}.{number}.run")
            if alone and with_us:
                ratios.append(with_us["step_ms"] / alone["step_ms"])
        if ratios:
            all_of_them = " ".join(f"{r:.4f}" for r in ratios)
            print(f"{shape:8} {way:9} median {statistics.median(ratios):.4f}  {all_of_them}")
P

#!/usr/bin/env bash
# What timing costs and how right it is: the defaults (auto), events, stamps and host times against no
# profiler, on loaded streams.
#
#   bench/gpu/timing.sh OUT [NCCL_2_30 [NCCL_2_32]]     # needs GPUs, python3, and `make` first; RANKS, ROUNDS
#
# WAYS (none auto stamps) may have `inspector`, another profiler, which is loaded from INSPECTOR with the
# settings in INSPECTOR_ENV. Every round runs each way once, in random order; the ratio to no profiler is that
# of the round. Captures and truths of the accuracy runs are left in OUT for bench/gpu/accuracy.py.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for captures}; nccl230=${2:-}; nccl232=${3:-}
scope=${NCCLSCOPE:-target/release/ncclscope}
ranks=${RANKS:-$(nvidia-smi -L | grep -c '^GPU')}
export NCCL_NVLS_ENABLE=0 NCCL_SOCKET_IFNAME=lo OMP_NUM_THREADS=8
calls="python3 bench/gpu/nccl_calls.py"
mkdir -p "$out"

for release in 228: 230:$nccl230 232:$nccl232; do
    tag=${release%%:*}; library=${release#*:}
    [ "$tag" = 228 ] || [ -n "$library" ] || continue
    with=${library:+--nccl $library}
    for round in $(seq "${ROUNDS:-5}"); do
        for timing in $(printf '%s\n' ${WAYS:-none auto stamps} | shuf); do
            under=
            case $timing in
                none) ;;
                inspector) under="env NCCL_PROFILER_PLUGIN=$INSPECTOR ${INSPECTOR_ENV:-}" ;;
                *) under="$scope run -o $out/cost$tag.$round.$timing --timing $timing --" ;;
            esac
            timeout 40 $under $calls overhead --ranks "$ranks" $with --calls "${CALLS:-8000}" --repeats 3 \
                --timeout 35 \
                >"$out/cost$tag.$round.$timing.json" 2>"$out/cost$tag.$round.$timing.err" </dev/null
        done
    done
    for timing in ${ACCURACY-events stamps}; do
        mkdir -p "$out/truth$tag.$timing"
        timeout 60 "$scope" run -o "$out/held$tag.$timing" --timing $timing -- $calls held --ranks "$ranks" \
            $with --iterations "${ITERATIONS:-20}" \
            --timeout 50 --truth "$out/truth$tag.$timing" >/dev/null 2>"$out/held$tag.$timing.err" ||
            tail -2 "$out/held$tag.$timing.err"
    done
done
python3 - "$out" "$scope" <<'P'
import glob, json, os, random, statistics, subprocess, sys
out, scope = sys.argv[1:3]
figures, shares = {}, {}
for file in sorted(glob.glob(out + "/cost*.json")):
    tag, turn, timing, _ = os.path.basename(file).split(".")
    lines = [line for line in open(file) if line.startswith("{")]
    if not lines:
        print("no figures in", file)
        continue
    for what, value in json.loads(lines[-1])["rank0"]["overhead"].items():
        figures.setdefault((tag, what), {}).setdefault(timing, {})[turn] = value["median"]
    if timing not in ("none", "inspector"):
        command = [scope, "report", file.removesuffix(".json"), "--json"]
        text = subprocess.run(command, capture_output=True, text=True).stdout
        c = json.loads(text)["completeness"]
        share = c["announced"], c["recorded"], c["timed"], c["untimed"], c["lost"]
        shares.setdefault((tag, timing), []).append(share)

def interval(ratios):
    draws = sorted(statistics.fmean(random.choices(ratios, k=len(ratios))) for _ in range(4000))
    return draws[100], draws[-101]

random.seed(1)
for (tag, what), ways in sorted(figures.items()):
    base = ways.pop("none", {})
    line = [f"{statistics.median(base.values()):.2f}" if base else "-"]
    for timing, runs in sorted(ways.items()):
        ratios = [runs[t] / base[t] for t in runs if t in base]
        if ratios:
            low, high = interval(ratios)
            line.append(f"{timing} {statistics.fmean(ratios):.3f} [{low:.3f}, {high:.3f}]")
    print(tag, what, *line, sep="  ")
for key, rows in sorted(shares.items()):
    print(*key, rows[0])
P

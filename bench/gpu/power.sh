#!/usr/bin/env bash
# Holds the power that NVML tells against the GPUs' energy counters, over 30 s of load on two GPUs:
#
#     bench/gpu/power.sh OUT
#
# It prints, for each GPU, the energy by its counter, the power integrated over the same time, and the gap;
# then what the sampler cost. Needs python3 with torch, and `make` first; under a minute.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for the capture}
scope=${NCCLSCOPE:-target/release/ncclscope}
ranks=${RANKS:-$(nvidia-smi -L | wc -l)}
mkdir -p "$out"
rm -rf "$out/power"

timeout 90 "$scope" run -o "$out/power" -- \
    python3 -m torch.distributed.run --nproc-per-node "$ranks" bench/gpu/power.py "${SECONDS_OF_LOAD:-30}" \
    >"$out/power.out" 2>"$out/power.err"
echo "exit status $?: $(tail -1 "$out/power.out")"
"$scope" report "$out/power" --json >"$out/power.json"
python3 - "$out/power.json" <<'PYTHON'
import json, sys

nodes = json.load(open(sys.argv[1]))["nodes"]
if nodes["why_none"]:
    sys.exit(nodes["why_none"])
number = lambda value, digits=1: "null" if value is None else f"{value:.{digits}f}"
print("GPU                                        counter J  integrated J   gap %  mean W   max W  SM MHz")
for gpu in nodes["gpus"]:
    gap = None if gpu["gap"] is None else 100 * gpu["gap"]
    figures = [gpu["counter_j"], gpu["integrated_j"], gap, gpu["mean_w"], gpu["max_w"], gpu["sm_mhz"]]
    widths = [9, 13, 7, 7, 7, 7]
    print(f"{gpu['uuid']:42}", " ".join(f"{number(v):>{w}}" for v, w in zip(figures, widths)))
for row in nodes["rows"]:
    print(
        f"{row['host']}: {number(row['time_s'])} s, {row['gpus']} GPUs, why none: {row['why_no_gpu']}; "
        "sampler "
        f"{number(100 * (row['sampler_share'] or 0), 3)} % of a core, in NVML "
        f"{number(100 * (row['sampler_in_nvml_share'] or 0), 2)} % of the time, "
        f"{row['sampler_late_ticks']} ticks left out"
    )
print(json.dumps(nodes["energy"], indent=1))
PYTHON
"$scope" report "$out/power" | grep -iE 'energy|host' | head -5

#!/usr/bin/env bash
# Is it good? The links' peak by NVML, NCCL's graphs, and NCCL's own estimates beside the measurements:
#
#     bench/gpu/ceilings.sh OUT
#     RANKS=2 bench/gpu/ceilings.sh OUT
#
# Asks: does NVML tell how many NVLinks there are and how fast a line is, which peak follows from it (450 GB/s
# on H100 and H200), does NCCL load the library that records its table of costs, and how far are these costs
# from what the calls take? Does NCCL choose the same with the library as without? Needs python3 with torch,
# and `make` first (or NCCLSCOPE=target/debug/ncclscope); under a minute.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for the captures}
scope=${NCCLSCOPE:-target/release/ncclscope}
job=(python3 bench/gpu/nccl_calls.py paper --ranks "${RANKS:-2}" --iterations 10)
mkdir -p "$out"
rm -rf "$out/with" "$out/without"

for run in with without; do
    costs=
    [ $run = with ] && costs=on
    begin=$SECONDS
    NCCLSCOPE_COSTS=$costs NCCLSCOPE_TIMING=stamps "$scope" run -o "$out/$run" -- "${job[@]}" \
        >"$out/$run.txt" 2>&1
    echo "$run: exit status $?, $((SECONDS - begin)) s"
    tail -2 "$out/$run.txt" | cut -c 1-200
done
ls -l "$out"/with/costs-* | head -2
"$scope" report "$out/with" | head -4
"$scope" report "$out/with" --all | sed -n '/^Efficiency/,/^$/p' | head -24
"$scope" model "$out/with" --all | sed -n '/^[A-Z].*by size/,/^ *$/p' | grep -v '|\|+--\|axes' | head -70
for run in with without; do
    "$scope" report "$out/$run" --json >"$out/$run.json"
done
"$scope" topo "$out/with" --json >"$out/topo.json"
python3 - "$out" <<'PYTHON'
import json
import sys

def rows(run):
    report = json.load(open(f"{sys.argv[1]}/{run}.json"))
    return {
        (row["function"], row["bytes"]): (row["algorithm"], row["protocol"], row["nccl_us"], row["host_us"])
        for row in report["operations"]
    }

for host in json.load(open(f"{sys.argv[1]}/topo.json"))["hosts"]:
    for device in host["devices"][:2]:
        keys = ("name", "nvlinks", "nvlink_gb_per_s", "pcie_generation", "pcie_lanes")
        print({key: device[key] for key in keys})
with_costs, without = rows("with"), rows("without")
differ = [key for key in with_costs if key in without and with_costs[key][:2] != without[key][:2]]
known = [row for row in with_costs.values() if row[2] is not None]
print(len(known), "of", len(with_costs), "kinds of calls have NCCL's estimate")
print(len(differ), "are chosen otherwise than without the library", differ[:5])
host = lambda rows: sorted(row[3]["p50"] for row in rows.values() if row[3])
for name, rows_ in (("with", with_costs), ("without", without)):
    times = host(rows_)
    print("host time of the median kind of call,", name, times[len(times) // 2] if times else None, "us")
PYTHON

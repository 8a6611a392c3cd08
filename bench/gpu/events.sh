#!/usr/bin/env bash
# Records every event of jobs in which NCCL's network proxy has the most to tell, for data/:
#
#     bench/gpu/events.sh OUT
#
# `shared`: a split and a shrunk communicator use the proxy threads of their parent. `all_one_host`: the same
# with kernel events. Needs two GPUs with NVLink, python3, `make` first; one minute.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for captures}
scope=${SCOPE:-target/release/ncclscope}
export NCCL_NVLS_ENABLE=0 NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1
calls="python3 bench/gpu/nccl_calls.py mix --ranks 4"
mkdir -p "$out"

record() { # NAME COMMAND…
    local name=$1; shift
    timeout 110 "$scope" run -o "$out/$name" --mode callbacks --timing host -- "$@" >"$out/$name.out" \
        2>"$out/$name.err"
    echo "$name: exit status $?, $(grep -c '"verdict": "ok"' "$out/$name.out") ok"
    grep -v 'recording to' "$out/$name.err" | tail -5
    "$scope" export "$out/$name" --to jsonl | python3 -c '
import collections, json, sys
starts, foreign, pids = collections.Counter(), 0, {}
for line in map(json.loads, sys.stdin):
    pids.setdefault((line["host"], line["global_rank"]), line["pid"])
    if line["callback"] != "startEvent":
        continue
    starts[line["type"]] += 1
    if line["type"] == "ProxyOp":
        origin = (line.get("fields") or {}).get("origin_pid", line["pid"])
        foreign += origin != pids[line["host"], line["global_rank"]]
print("  ", dict(starts), "; ProxyOps for other processes:", foreign)'
}

record shared $calls --hosts 2 --parts shared
NCCLSCOPE_EVENTS=all record all_one_host python3 bench/gpu/nccl_calls.py mix --ranks 2 --parts fused,shared
for name in shared all_one_host; do
    command -v zstd >/dev/null && find "$out/$name" -name '*.trace' -exec zstd -q -19 --rm {} +
done
du -sh "$out"/*/

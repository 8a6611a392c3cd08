#!/usr/bin/env bash
# Records every event of jobs in which NCCL has the most to tell, for data/:
#
#     bench/gpu/events.sh OUT [NCCL]      # NCCL: 2.32's libnccl.so.2, or packed as .so.xz
#
# `shared`: a split and a shrunk communicator use the proxy threads of their parent. `all_one_host`: the same
# with kernel events. `pxn`: an attempt at work for another process (PXN), which does not succeed: two
# simulated hosts, where a file of topology puts the network beside a host's second GPU. `phases`: symmetric
# kernels of NCCL 2.32, with the phases of each, in which all ranks wait for rank 1.
# Needs four GPUs with NVLink, python3, `make` first; two minutes.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for captures}
nccl=${2:-}
scope=${NCCLSCOPE:-target/release/ncclscope}
unset NCCLSCOPE
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

# The machine's topology with the interface `lo` moved into a switch that it shares with the second GPU. The
# first one could send through that GPU's process. But NCCL leads the way of a GPU without GPU Direct RDMA
# past the CPU after that (`ncclTopoComputePaths` of 2.28.9), and sockets have none: its log says PHB.
NCCL_TOPO_DUMP_FILE=$out/machine.xml $calls --parts fused >/dev/null 2>&1
python3 - "$out/machine.xml" "$out/pxn.xml" <<'P'
import sys
import xml.etree.ElementTree as tree

document = tree.parse(sys.argv[1])
root = document.getroot()
parents = {child: node for node in root.iter() for child in node}
gpu = [node for node in root.iter("pci") if node.find("gpu") is not None][1]
network = root.find(".//net")
nic = parents.get(network)
if nic is None:
    sys.exit("NCCL's topology has no network")
parents[nic].remove(nic)
above = parents[gpu]
above.remove(gpu)
link = {"link_speed": "32.0 GT/s PCIe", "link_width": "16"}
switch = tree.SubElement(above, "pci", {"busid": "0000:f0:00.0", "class": "0x060400", **link})
switch.append(gpu)
card = tree.SubElement(switch, "pci", {"busid": "0000:f1:00.0", "class": "0x020000", **link})
card.append(nic)
document.write(sys.argv[2])
P
NCCL_TOPO_FILE=$out/pxn.xml NCCL_P2P_PXN_LEVEL=2 NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET,P2P \
    NCCL_DEBUG_FILE=$out/pxn.%p.log record pxn $calls --hosts 2 --parts fused,ring,alltoall
grep -h 'GPU/.*:GPU/.*NET/' "$out"/pxn.*.log | sed 's/.*NCCL INFO//' | sort | uniq -c
if [ "$nccl" ]; then
    NCCLSCOPE_EVENTS=all record phases python3 bench/gpu/nccl_calls.py mix --ranks 4 --parts symmetric \
        --nccl "$nccl"
fi
for name in shared all_one_host pxn phases; do
    command -v zstd >/dev/null && find "$out/$name" -name '*.trace' -exec zstd -q -19 --rm {} +
done
du -sh "$out"/*/

#!/usr/bin/env bash
# Attaches to a training job that already runs, if the machine allows probes.
#
#     bench/gpu/attach.sh OUT
#
# Says which privileges there are, and what `ncclscope attach` makes of them. A refusal is a result, too. If
# it works: calls by rank, report, what it cost the job. Then once more with everything that can be asked for,
# from before the job's start, and with NCCL on TCP: scheduler, connections, steps inside NCCL's init. Needs
# two GPUs, python3 with torch, `make`; 50 s.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for captures and logs}
scope=${NCCLSCOPE:-target/release/ncclscope}
mkdir -p "$out"

echo "kernel $(uname -r), $(id -un), $(grep CapEff /proc/self/status | tr '\t' ' ')"
echo "unprivileged_bpf_disabled $(cat /proc/sys/kernel/unprivileged_bpf_disabled 2>&1)," \
    "perf_event_paranoid $(cat /proc/sys/kernel/perf_event_paranoid 2>&1)," \
    "lockdown $(cat /sys/kernel/security/lockdown 2>&1)"
"$scope" doctor 2>&1 | grep -i -A2 attach

timeout 60 python3 bench/gpu/jobs.py ddp --steps 300 >"$out/job.json" 2>"$out/job.err" &
job=$!
sleep 9
timeout 30 "$scope" attach $job --for 6s -o "$out/capture" >"$out/attach.txt" 2>"$out/attach.err"
echo "attach: exit status $?"
cat "$out/attach.err" "$out/attach.txt"
wait $job
echo "the job's exit status: $? (0 wanted)"
cat "$out/job.json"
if [ -d "$out/capture" ]; then
    "$scope" report "$out/capture" | tee "$out/report.txt"
    "$scope" hang "$out/capture"
fi
NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_NET=Socket \
    timeout 60 python3 bench/gpu/jobs.py ddp --steps 100 >"$out/job2.json" 2>"$out/job2.err" &
job=$!
timeout 40 "$scope" attach $job --for 16s --sched --net --init --json -o "$out/all" \
    >"$out/all.json" 2>"$out/all.err"
echo "attach --sched --net --init: exit status $?"
cat "$out/all.err"
wait $job
echo "the job's exit status: $? (0 wanted)"
python3 - "$out/all.json" <<'END'
import json, sys
found = json.load(open(sys.argv[1]))
print("call costs, ns", found["call_cost_ns"])
for process in found["processes"]:
    calls = sum(c["calls"] for c in process["calls"])
    print("process", process["pid"], "rank", process["rank"], "calls", calls, "lost", process["lost"])
    for call in (process["sched"] or {"longest": []})["longest"][:3]:
        print("  long", {k: v for k, v in call.items() if k != "began_ns"})
    for steps in process["inits"][:1]:
        for step in steps:
            indent, took = "  " * step["depth"], round(step["took_us"], 1)
            print("  init", indent, step["function"], step["calls"], took, "us")
for c in (found["net"] or {"connections": []})["connections"][:8]:
    print("tcp rank", c["rank"], "to", c["peer_rank"] or c["remote"], "sent", c["sent_bytes"], "resent",
          c["retransmits"], "rtt us", c["rtt_us"], "queue", c["most_send_queue_bytes"], "calls", c["calls"])
print("ports", (found["net"] or {}).get("rdma_ports"))
END
"$scope" report --all "$out/all" >"$out/all.txt" && grep -i -A8 "took long" "$out/all.txt"
command -v bpftool >/dev/null && echo "programs left (0 wanted): $(bpftool prog | grep -c ncclscope)"
exit 0

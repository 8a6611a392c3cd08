#!/usr/bin/env bash
# Attaches to a training job that already runs, if the machine allows probes.
#
#     bench/gpu/attach.sh OUT
#
# Says which privileges there are, and what `ncclscope attach` makes of them. A refusal is a result, too. If
# it works: calls by rank, report, what it cost the job. Needs two GPUs, python3 with torch, `make`; 30 s.
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
command -v bpftool >/dev/null && echo "programs left (0 wanted): $(bpftool prog | grep -c ncclscope)"
exit 0

#!/usr/bin/env bash
# How long `ncclscope report` takes and how much memory: bench/report.sh [RUNS [MILLION CALLS...]]
#
# Writes captures of so many calls into a temporary folder (BENCH_FOLDER, 18 bytes a call), each with host
# times and with GPU stamps, of 8 ranks and of 1, and prints the best of the runs and the range of all.
set -euo pipefail
cd "$(dirname "$0")/.."

runs=${1:-5}
shift || true
sizes=("${@:-10}")
target=${CARGO_TARGET_DIR:-target}/release
folder=$(mktemp -d "${BENCH_FOLDER:-${TMPDIR:-/tmp}}/ncclscope-report.XXXXXX")
trap 'rm -rf "$folder"' EXIT

cargo build --quiet --release -p ncclscope -p ncclscope-tables --bins --examples >&2
printf '%-28s %12s %22s %16s %10s\n' capture calls 'seconds (all runs)' 'CPU seconds' 'peak MiB'
for millions in "${sizes[@]}"; do
    for timing in host stamps; do
        for ranks in 8 1; do
            calls=$((millions * 1000000 / ranks))
            "$target/examples/synthesize" "$folder/capture" "$ranks" "$calls" "$timing"
            python3 - "$runs" "$millions M calls, $ranks ranks, $timing" $((calls * ranks)) \
                "$target/ncclscope" report --json "$folder/capture" <<'PYTHON'
import os, subprocess, sys, time

runs, name, calls, *command = sys.argv[1:]
seen = []
for _ in range(int(runs)):
    start = time.monotonic()
    with open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen(command, stdout=nowhere)
        _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command[0]} failed")
    seen.append((time.monotonic() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024))
wall, cpu, peak = zip(*seen)
span = f"{min(wall):.2f} ({min(wall):.2f} to {max(wall):.2f})"
print(f"{name:<28} {calls:>12} {span:>22} {min(cpu):>16.2f} {max(peak):>10.0f}", flush=True)
PYTHON
            rm -r "$folder/capture"
        done
    done
done

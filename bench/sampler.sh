#!/usr/bin/env bash
# What the node sampler costs beside 8 GPUs (a stub of NVML) and 800 threads in 8 processes:
#
#     bench/sampler.sh [SECONDS]
#
# It prints the sampler's CPU time as a share of one core, as the sampler itself counts it. Needs python3 and
# `cargo build --release --workspace --examples`, but no GPU. NCCLSCOPE names the command, NVML the stub, and
# FAKE_NCCL the program that plays a job, if they lie elsewhere.
set -u
cd "$(dirname "$0")/.."
seconds=${1:-30}
target=${CARGO_TARGET_DIR:-target}
scope=${NCCLSCOPE:-$target/release/ncclscope}
stub=${NVML:-$target/release/examples/libfake_nvml.so}
fake=${FAKE_NCCL:-$target/release/fake-nccl}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
printf 'ranks 2\nall_reduce 1MiB x3\n' >"$out/job"
export NCCLSCOPE_NVML=$stub FAKE_NVML_GPUS=8
"$scope" run -o "$out/capture" -- sh -c "'$fake' play '$out/job' >/dev/null
    exec python3 bench/sampler.py 8 100 $seconds" 2>"$out/err" || cat "$out/err"
"$scope" report "$out/capture" --json >"$out/report.json"
python3 - "$out/report.json" <<'PYTHON'
import json, sys

for row in json.load(open(sys.argv[1]))["nodes"]["rows"]:
    share, nvml = 100 * row["sampler_share"], 100 * row["sampler_in_nvml_share"]
    print(f"{row['gpus']} GPUs, {row['time_s']:.1f} s: {share:.2f} % of one core, {nvml:.2f} % of the time "
          f"in NVML, {row['sampler_late_ticks']} ticks left out")
PYTHON
ls -l "$out"/capture/*/*.samples | awk '{print $5, "bytes of samples"}'

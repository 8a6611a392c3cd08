#!/usr/bin/env bash
# The page of `ncclscope judge` over `ncclscope bench` on this machine's GPUs, with other profilers:
#
#   PROFILERS=FOLDER bench/gpu/judge_page.sh OUT      # OUT/judge.html, .json and .txt
#
# FOLDER has what was built of libnccl-profiler-inspector.so (NCCL Inspector), libcomma.so (CoMMA) and
# libncclsee.so; what is not there is left out. docs/reference/judge.md says what their variables are for.
# The first lines of the report say why, if one of them left no record.
# STEP is a training step's command, whose times are compared too, as the paper does with DenseNet:
#
#   STEP='python3 -m torch.distributed.run --nproc-per-node 2 bench/gpu/ddp_densenet.py'
#
# Needs GPUs and `make` first. A run takes some 2.5 s, most of it the start of NCCL; with three of them and 3
# rounds there are 18 runs.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:?folder for the report}
scope=${NCCLSCOPE:-target/release/ncclscope}
ranks=${RANKS:-$(nvidia-smi -L | grep -c '^GPU')}
profilers=$(realpath "${PROFILERS:-.gpu/profilers}")
mkdir -p "$out"
# NVLink multicast is left alone: calls must be the same on every machine.
export NCCL_NVLS_ENABLE=0
# CUPTI and CUDA's runtime, which the plugins are linked with: where Python's packages have them, in one
# folder or in two, and where a toolkit has them. What is in LD_LIBRARY_PATH stays there.
cuda=$(python3 -c '
import glob, os, site, sys
paths = [*site.getsitepackages(), *sys.path]
files = [f for path in paths for f in glob.glob(path + "/nvidia/*/lib/libcu[pd][ta]*.so.1?")]
folders = dict.fromkeys(os.path.dirname(f) for f in files)
print(":".join([*folders, "/usr/local/cuda/lib64", "/usr/local/cuda/extras/CUPTI/lib64"]))')
export LD_LIBRARY_PATH=$cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

plugins=()
add() { # add FILE NAME,VARIABLES
    if [ -e "$profilers/$1" ]; then
        plugins+=(--plugin "${2%%,*}=$profilers/$1${2#"${2%%,*}"}")
    else
        echo "$profilers/$1 is not there: ${2%%,*} is left out" >&2
    fi
}
add libnccl-profiler-inspector.so "inspector,NCCL_INSPECTOR_ENABLE=1,\
NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS=500,NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES=0"
add libcomma.so "comma,NCCL_PROFILER_USE_GPUVIZ=false,NCCL_PROFILER_SKIP_SMALL_COLLECTIVE=false,\
NCCL_PROFILER_TRACK_PROXYOP=true,NCCL_PROFILER_P2P_RECV_SAMPLE_RATE=1.0,\
NCCL_PROFILER_LATENCY_FILE={out}/comma-%p.json"
add libncclsee.so "ncclsee"

"$scope" judge --work bench --pairs "${PAIRS:-3}" --case single --seed 1 --timeout 30 \
    ${STEP:+--step "$STEP"} --json "$out/judge.json" --html "$out/judge.html" "${plugins[@]}" \
    -- "${FUNCTIONS:-all_reduce,all_gather,reduce_scatter,broadcast,reduce}" --sizes "${SIZES:-1K,1M}" \
    --gpus "$ranks" -n "${CALLS:-200}" -w 20 | tee "$out/judge.txt"

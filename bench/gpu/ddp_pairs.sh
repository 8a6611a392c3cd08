#!/usr/bin/env bash
# What the defaults cost a training step: DenseNet-121 under DDP, pairs of runs with and without the profiler.
#
#   bench/gpu/ddp_pairs.sh OUT # needs an even number of GPUs, python3 with torch and torchvision, and `make`
#   first
#
# The runs of a pair go side by side, each on half of the GPUs; which half has the profiler is drawn for every
# pair. Prints the ratio of the median steps (profiled to not) over all pairs with its 95 % interval. PAIRS
# (20), STEPS (40), TIMING (auto).
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for captures}
scope=${NCCLSCOPE:-target/release/ncclscope}
gpus=$(nvidia-smi -L | grep -c '^GPU'); half=$((gpus / 2))
export NCCL_NVLS_ENABLE=0 NCCL_SOCKET_IFNAME=lo OMP_NUM_THREADS=4
low=$(seq -s, 0 $((half - 1))); high=$(seq -s, $half $((gpus - 1)))
mkdir -p "$out"

job() { # GPUS PORT NAME [WRAPPER…]
    local devices=$1 port=$2 name=$3; shift 3
    CUDA_VISIBLE_DEVICES=$devices timeout 60 "$@" python3 -m torch.distributed.run --nnodes 1 --master-addr \
        127.0.0.1 --master-port "$port" \
        --nproc-per-node $half bench/gpu/ddp_densenet.py --steps "${STEPS:-40}" >"$out/$name.out" \
        2>"$out/$name.err"
}
for pair in $(seq "${PAIRS:-20}"); do
    if [ $((RANDOM % 2)) = 0 ]; then first=$low second=$high; else first=$high second=$low; fi
    job "$first" 29511 "$pair.none" env &
    job "$second" 29512 "$pair.scope" "$scope" run -o "$out/$pair" --timing "${TIMING:-auto}" -- &
    wait
done
python3 - "$out" "$scope" <<'P'
import glob, json, os, random, re, statistics, subprocess, sys
out, scope = sys.argv[1:3]
step = lambda file: float(re.search(r"median step ([0-9.]+)", open(file).read()).group(1))
pairs = []
for file in glob.glob(out + "/*.none.out"):
    number = os.path.basename(file).split(".")[0]
    try:
        pairs.append((step(file), step(f"{out}/{number}.scope.out"), number))
    except AttributeError:
        print("pair", number, "has no figure")
ratios = [b / a for a, b, _ in pairs]
random.seed(1)
draws = sorted(statistics.fmean(random.choices(ratios, k=len(ratios))) for _ in range(10000))
print(f"{len(ratios)} pairs: ratio {statistics.fmean(ratios):.4f} [{draws[250]:.4f}, {draws[-251]:.4f}],"
      f" median {statistics.median(ratios):.4f};"
      f" step without {statistics.median(a for a, _, _ in pairs):.2f} ms")
command = [scope, "report", f"{out}/{pairs[0][2]}", "--json"]
text = subprocess.run(command, capture_output=True, text=True).stdout
c = json.loads(text)["completeness"]
print("of one run:", {k: c[k] for k in ("announced", "recorded", "timed", "untimed", "lost")})
P

#!/usr/bin/env bash
# ncclscope bench beside nccl-tests on this machine's GPUs: back to back, in alternated rounds, and the ratio
# of their mean times with its 95 % interval (Wilcoxon's, of the logarithms over rounds: a start that gets a
# slow core counts as one).
#
#   bench/gpu/bench.sh [OUT] # RANKS=4 ROUNDS=7 ITERS=2000 LARGE_ITERS=50 NCCL_TESTS=…/nccl-tests/build
#   NCCL=…/libnccl.so.2
#
# Calls of 1 KiB are made in CUDA graphs of 100 too: there no host is in the way, which otherwise takes up to
# twice as long in one start as in another.
#
# FUNCTIONS and WARMUP are what is called, in which order, after how many calls. APART=1 runs each of our
# functions in a process of its own, as nccl-tests does, and not one after the other in one.
#
# Needs GPUs, python3 and `make` first. NCCL_TESTS is a folder with nccl-tests' programs, which must find the
# same NCCL (its folder is put in front of LD_LIBRARY_PATH if NCCL names it); without it only our figures are
# taken. MPIRUN starts one process of it for each GPU ("mpirun -np 4"), where it was built with MPI; without
# it there is one process with a thread for each GPU. All is bound to one hardware thread of a core each,
# twice as many cores as GPUs, as neighbours on a core change what a call of 7 us takes. Below 4 minutes on
# 4 GPUs. NVLink multicast is off.
set -u
cd "$(dirname "$0")/../.."
out=${1:-bench-out}; rounds=${ROUNDS:-7}; iters=${ITERS:-2000}; large=${LARGE_ITERS:-50}
scope=${NCCLSCOPE:-target/release/ncclscope}
ranks=${RANKS:-$(nvidia-smi -L | grep -c '^GPU')}
tests=${NCCL_TESTS:-}; nccl=${NCCL:-}
cores=$(lscpu -p=CPU,CORE | grep -v '^#' | sort -t, -k2,2n -u | cut -d, -f1)
pin="taskset -c $(head -n $((2 * ranks)) <<< "$cores" | paste -sd,)"
# Threads of one process would reach into each other's buffers where processes go through NCCL's own; without
# that both take the same way. It says nothing to processes, so ours have it too.
export NCCL_NVLS_ENABLE=0 NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo} NCCL_P2P_DIRECT_DISABLE=1
[ -z "$nccl" ] || export LD_LIBRARY_PATH="$(dirname "$nccl")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
functions=${FUNCTIONS:-all_reduce all_gather reduce_scatter broadcast reduce sendrecv alltoall}
warmup=${WARMUP:-20}
mkdir -p "$out"
rm -f "$out"/ours.* "$out"/theirs.*

graph=100
ours() { # ROUND FROM TO ITERS [graph]: data are checked in the first round
    local check=0 how= function each="${functions// /,}"
    [ "$1" != 1 ] || check=1
    [ -z "${5:-}" ] || how="--graph $graph"
    [ -z "${APART:-}" ] || each=$functions
    for function in $each; do
        local to="$out/ours.$1.$2${5:-}.${function//,/+}"
        timeout 100 $pin "$scope" bench "$function" -b "$2" -e "$3" -f 1024 --mode back-to-back -n "$4" $how \
            -w "$warmup" -c $check \
            --gpus "$ranks" ${nccl:+--nccl "$nccl"} --json "$to.json" >"$to.txt" 2>"$to.err" ||
            { echo "round $1: bench ended with $?"; cat "$to.err"; }
    done
}
theirs() { # ROUND FROM TO ITERS [graph]
    local function how="-t $ranks" calls="-n $4"
    [ -n "$tests" ] || return
    [ -z "${MPIRUN:-}" ] || how=
    [ -z "${5:-}" ] || calls="-n $graph -G $4"
    for function in $functions; do
        timeout 60 $pin ${MPIRUN:-} "$tests/${function}_perf" -b "$2" -e "$3" -f 1024 $calls -w "$warmup" -c \
            0 $how -g 1 \
            >"$out/theirs.$1.$2${5:-}.$function.txt" 2>"$out/theirs.$1.$2${5:-}.$function.err" ||
            echo "round $1: ${function}_perf ended with $?"
    done
}

for round in $(seq "$rounds"); do
    for part in "1K 1M $iters" "1K 1K $((iters / 25)) graph" "1G 1G $large"; do
        if [ $((round % 2)) = 1 ]; then ours $round $part; theirs $round $part; else theirs $round $part; \
            ours $round $part; fi
    done
done
echo "single calls, $ranks GPUs: each by itself"
timeout 100 "$scope" bench "${functions// /,}" -b 1K -e 1M -f 1024 -n 1000 --gpus "$ranks" ${nccl:+--nccl \
    "$nccl"} \
    --json "$out/single.json" --parquet "$out/single.parquet"

# nccl-tests' text is read by ncclscope, so both come in one form.
for text in "$out"/theirs.*.txt; do
    [ -e "$text" ] || continue
    function=${text%.txt}
    # Older versions of nccl-tests don't say which test it is.
    grep -q "Collective test starting" "$text" || sed -i \
        "1i # Collective test starting: ${function##*.}_perf" "$text"
    "$scope" bench --read "$text" --json "${text%.txt}.json" >/dev/null
done
python3 - "$out" <<'P'
import glob, json, math, os, statistics, sys

# By number of rounds, how many of the least averages of two rounds lie outside of the interval.
OUTSIDE = {6: 0, 7: 2, 8: 3, 9: 5, 10: 8, 11: 10, 12: 13, 13: 17, 14: 21, 15: 25, 16: 29}

def rounds(pattern):
    found = {}
    for file in sorted(glob.glob(os.path.join(sys.argv[1], pattern))):
        number = int(os.path.basename(file).split(".")[1])
        how = " in graphs" if "graph." in file else ""
        for row in json.load(open(file))["results"]:
            for side in ("out_of_place", "in_place"):
                if row[side] and row[side]["time"]:
                    # Older releases of nccl-tests don't say which test they are.
                    name = row["experiment_name"] or os.path.basename(file).split(".")[3]
                    key = name + how, row["size"], side
                    found.setdefault(key, {})[number] = row[side]["time"]
    return found

ours, theirs = rounds("ours.*.json"), rounds("theirs.*.json")
print("back to back: us per call, median over rounds; ours / nccl-tests with its 95 % interval over rounds")
for key in ours:
    paired = [math.log(ours[key][n] / theirs[key][n]) for n in ours[key] if n in theirs.get(key, {})]
    text = f"  {key[0]:24} {key[1]:>11} {key[2]:13} {statistics.median(ours[key].values()):10.2f}"
    outside = OUTSIDE.get(len(paired))
    if outside is not None:
        walsh = sorted((a + b) / 2 for i, a in enumerate(paired) for b in paired[i:])
        low, high = math.exp(walsh[outside]), math.exp(walsh[-1 - outside])
        ratio = math.exp(statistics.median(walsh))
        text += f" {statistics.median(theirs[key].values()):10.2f}"
        text += f"  {ratio:.4f} [{low:.4f}, {high:.4f}] n={len(paired)}"
        text += "" if 0.98 <= low and high <= 1.02 else "  beyond 2 %"
    print(text)
P

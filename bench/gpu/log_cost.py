#!/usr/bin/env python3
"""What NCCL's log costs a start: the same short job with `NCCLSCOPE_NCCL_LOG` off and on, in turns.

Each start makes two communicators of two ranks, calls AllReduce for the first time on each, and then 3000
times back to back. It prints medians, and the ratio on/off with its 95 % interval over the pairs of starts.
Under 1.01 at the upper end, the log can be on by default.

    bench/gpu/log_cost.py --scope target/release/ncclscope [--pairs 8] [--out FOLDER]

Needs two GPUs; some 5 s a pair.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from ctypes import byref, c_size_t, c_void_p

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nccl_calls import FLOAT32, SUM, Cuda, Nccl, find_cudart, find_nccl  # noqa: E402

CALLS = 3000
# Student's t for 95 %, by degrees of freedom.
T = [0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13]


def rank(opts):
    me = int(os.environ["RANK"])
    cuda, nccl = Cuda(find_cudart(None)), Nccl(find_nccl(None))
    cuda.SetDevice(me)
    stream, buffer = cuda.stream(), c_void_p(cuda.malloc(1 << 20))
    cuda.DeviceSynchronize()
    took = {}

    def timed(name, act):
        begin = time.perf_counter()
        act()
        cuda.StreamSynchronize(stream)
        took[name] = time.perf_counter() - begin

    def all_reduce(comm):
        nccl.call("ncclAllReduce", buffer, buffer, c_size_t(256), FLOAT32, SUM, comm, stream)

    for name in ("first", "second"):
        comm, of = c_void_p(), nccl.unique_id(os.path.join(opts.folder, name), me == 0)
        timed(f"init of the {name}", lambda c=comm, i=of: nccl.call("ncclCommInitRank", byref(c), 2, i, me))
        timed(f"first call on the {name}", lambda c=comm: all_reduce(c))
    for comm_calls in ("warm", "call"):
        begin = time.perf_counter()
        for _ in range(CALLS):
            all_reduce(comm)
        cuda.StreamSynchronize(stream)
        took[comm_calls] = (time.perf_counter() - begin) / CALLS
    took.pop("warm")
    with open(os.path.join(opts.folder, f"took.{me}"), "w") as file:
        json.dump(took, file)


def parent_of_ranks(opts):
    folder = tempfile.mkdtemp(prefix="log-cost-")
    command = [sys.executable, os.path.abspath(__file__), "--folder", folder]
    env = {"NCCL_NVLS_ENABLE": "0", "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", **os.environ}
    ranks = [subprocess.Popen(command, env={**env, "RANK": str(r), "WORLD_SIZE": "2"}) for r in range(2)]
    try:
        status = max(abs(process.wait(60)) for process in ranks)
    finally:
        for process in ranks:
            process.kill()
    took = [json.load(open(os.path.join(folder, f"took.{r}"))) for r in range(2)]
    with open(opts.result, "w") as file:
        json.dump({name: max(t[name] for t in took) for name in took[0]}, file)
    return status


def start(opts, log, number):
    folder = tempfile.mkdtemp(prefix="start-", dir=opts.out)
    result = os.path.join(folder, "result.json")
    capture = os.path.join(folder, f"capture-{log}-{number}")
    begin = time.perf_counter()
    command = [opts.scope, "run", "-o", capture, "--", sys.executable, os.path.abspath(__file__)]
    done = subprocess.run(
        [*command, "--result", result],
        env={**os.environ, "NCCLSCOPE_NCCL_LOG": log},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        sys.exit(f"a start failed ({done.returncode}): {done.stderr[-800:]}")
    took = json.load(open(result))
    took["whole process"] = time.perf_counter() - begin
    return took


def interval(ratios):
    logs = [math.log(r) for r in ratios]
    mean, n = statistics.fmean(logs), len(logs)
    half = T[min(n - 1, len(T) - 1)] * statistics.stdev(logs) / math.sqrt(n)
    return [math.exp(mean), math.exp(mean - half), math.exp(mean + half)]


def main():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--scope", default=os.environ.get("NCCLSCOPE", "target/release/ncclscope"))
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--out", default=tempfile.gettempdir())
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--result", help=argparse.SUPPRESS)
    opts = parser.parse_args()
    if opts.folder:
        return rank(opts)
    if opts.result:
        return parent_of_ranks(opts)
    os.makedirs(opts.out, exist_ok=True)
    start(opts, "off", -1)  # caches of files
    pairs = []
    for number in range(opts.pairs):
        order = ("off", "on") if number % 2 == 0 else ("on", "off")
        pair = {log: start(opts, log, number) for log in order}
        pairs.append(pair)
    print(f"{opts.pairs} pairs; ratio: on/off, geometric mean and 95 % interval")
    print(f"{'what':<26}{'off':>12}{'on':>12}{'ratio':>9}   interval")
    for name in pairs[0]["off"]:
        off, on = ([pair[log][name] for pair in pairs] for log in ("off", "on"))
        unit, scale = ("us", 1e6) if name == "call" else ("ms", 1e3)
        ratio, low, high = interval([b / a for a, b in zip(off, on, strict=True)])
        a, b = (f"{statistics.median(times) * scale:.2f} {unit}" for times in (off, on))
        print(f"{name:<26}{a:>12}{b:>12}{ratio:>9.3f}   [{low:.3f}, {high:.3f}]")
    return 0


if __name__ == "__main__":
    sys.exit(main())

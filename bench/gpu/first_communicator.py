#!/usr/bin/env python3
"""What the first communicator of a process takes of the GPU's memory beyond NCCL's buffers.

In processes of their own for each way, two ranks make two communicators. Another thread asks for the GPU's
free memory all the time, so it is seen when it falls, and by how much. NCCL's log has its allocations beside
it. The ways: as it is; with all kernels of all libraries loaded at the start (`CUDA_MODULE_LOADING=EAGER`);
and with a stack of 1 KiB for each of the GPU's threads set before, of 4 KiB, or chosen by NCCL.

    bench/gpu/first_communicator.py [--nccl libnccl.so.2]

Needs two GPUs; 30 s.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from ctypes import CDLL, byref, c_int, c_size_t, c_void_p

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nccl_calls import FLOAT32, MIB, SUM, Cuda, Nccl, find_cudart, find_nccl  # noqa: E402

STACK = 0  # CU_LIMIT_STACK_SIZE
SEEN = re.compile(r"Cu(?:da|mem).* Size (\d+) pointer 0x([0-9a-f]+)")


class Watch(threading.Thread):
    """Free memory whenever it changed."""

    def __init__(self, cuda, device):
        super().__init__(daemon=True)
        self.cuda, self.device, self.points, self.ended = cuda, device, [], False

    def run(self):
        self.cuda.SetDevice(self.device)
        while not self.ended:
            free, total = c_size_t(), c_size_t()
            self.cuda.lib.cudaMemGetInfo(byref(free), byref(total))
            if not self.points or self.points[-1][1] != free.value:
                self.points.append((time.time(), free.value))
            time.sleep(0.0002)


def rank(opts):
    me = int(os.environ["RANK"])
    driver = CDLL("libcuda.so.1")
    cuda = Cuda(find_cudart(None))
    cuda.SetDevice(me)
    stack = c_size_t()

    def stack_size():
        driver.cuCtxGetLimit(byref(stack), STACK)
        return stack.value

    stream, buffer = cuda.stream(), c_void_p(cuda.malloc(MIB))
    cuda.DeviceSynchronize()
    before_stack = stack_size()
    if opts.stack:
        driver.cuCtxSetLimit(STACK, c_size_t(opts.stack))
    free, total = c_size_t(), c_size_t()
    cuda.lib.cudaMemGetInfo(byref(free), byref(total))
    context = total.value - free.value
    nccl = Nccl(find_nccl(opts.nccl))
    watch = Watch(cuda, me)
    watch.start()
    time.sleep(0.05)
    moments, comms = [], []
    for name in ("first", "second"):
        of = nccl.unique_id(os.path.join(opts.folder, name), me == 0)
        comm = c_void_p()
        moments.append((f"{name} begins", time.time()))
        nccl.call("ncclCommInitRank", byref(comm), 2, of, me)
        moments.append((f"{name} is made", time.time()))
        nccl.call("ncclAllReduce", buffer, buffer, c_size_t(256), FLOAT32, SUM, comm, stream)
        cuda.DeviceSynchronize()
        moments.append((f"{name} has called", time.time()))
        comms.append(comm)
        time.sleep(0.05)
    watch.ended = True
    watch.join()
    if me == 0:
        say(opts, watch.points, moments, (context, before_stack, stack_size()))
    for comm in reversed(comms):
        nccl.call("ncclCommDestroy", comm)


def allocations(folder):
    """Times and bytes of GPU memory that NCCL's log of this process has."""
    found, places = [], set()
    for name in os.listdir(folder):
        if not name.endswith(f".{os.getpid()}"):
            continue
        with open(os.path.join(folder, name), errors="replace") as file:
            for line in file:
                stamp, sized = re.match(r"\[(\d+\.\d+)\]", line), SEEN.search(line)
                if stamp and sized and "Host" not in line and sized[2] not in places:
                    places.add(sized[2])
                    bytes_, granule = int(sized[1]), 2 * MIB
                    if int(sized[2], 16) % granule == 0:
                        bytes_ = -(-bytes_ // granule) * granule
                    found.append((float(stamp[1]), bytes_))
    return found


def say(opts, points, moments, facts):
    context, before, after = facts
    print(f"context and 1 MiB: {context / MIB:.0f} MiB; stack of a thread: {before} B, behind: {after} B")
    said = allocations(opts.folder)
    for (_, start), (name, end) in zip(moments, moments[1:], strict=False):
        inside = [p for p in points if start <= p[0] <= end]
        earlier = [p for p in points if p[0] < start]
        if not earlier:
            continue
        last = earlier[-1][1]
        fell = last - (inside[-1][1] if inside else last)
        of_nccl = sum(size for at, size in said if start <= at <= end)
        first = min((at for at, _ in said if start <= at <= end), default=end)
        ahead = [p for p in inside if p[0] < first]
        early = last - (ahead[-1][1] if ahead else last)
        falls = [(b[0] - start, a[1] - b[1]) for a, b in zip([earlier[-1], *inside], inside, strict=False)]
        large = ", ".join(f"{1e3 * at:.0f} ms: {size / MIB:.0f}" for at, size in falls if size >= 16 * MIB)
        print(
            f"  until {name:<18}{1e3 * (end - start):7.0f} ms  fell {fell / MIB:6.0f} MiB, NCCL's buffers "
            f"{of_nccl / MIB:6.0f}, rest {(fell - of_nccl) / MIB:6.0f} (before the first buffer "
            f"{early / MIB:.0f}); large falls at {large or '-'}"
        )


def way(opts, title, env, stack):
    folder = tempfile.mkdtemp(prefix="first-communicator-")
    print(title, flush=True)
    command = [sys.executable, os.path.abspath(__file__), "--folder", folder, "--stack", str(stack)]
    command += ["--nccl", opts.nccl] if opts.nccl else []
    env = {
        "NCCL_NVLS_ENABLE": "0",
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_IB_DISABLE": "1",
        **os.environ,
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,ALLOC",
        "NCCL_DEBUG_FILE": os.path.join(folder, "log.%p"),
        "NCCL_DEBUG_TIMESTAMP_LEVELS": "INFO",
        "NCCL_DEBUG_TIMESTAMP_FORMAT": "[%s.%6f]_",
        **env,
    }
    ranks = [subprocess.Popen(command, env={**env, "RANK": str(r), "WORLD_SIZE": "2"}) for r in range(2)]
    try:
        return max(abs(process.wait(60)) for process in ranks)
    finally:
        for process in ranks:
            process.kill()


def main():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--nccl", help="libnccl.so.2 to call")
    parser.add_argument("--stack", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    opts = parser.parse_args()
    if opts.folder:
        return rank(opts)
    ways = [
        ("as it is", {}, 0),
        ("CUDA_MODULE_LOADING=EAGER", {"CUDA_MODULE_LOADING": "EAGER"}, 0),
        ("a stack of 1 KiB set before", {}, 1 << 10),
        ("a stack of 4 KiB set before", {}, 4 << 10),
        ("NCCL_SET_STACK_SIZE=1", {"NCCL_SET_STACK_SIZE": "1"}, 0),
    ]
    return max(way(opts, *each) for each in ways)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What communicators cost in GPU memory, by three witnesses: the driver, NCCL's own count, and ncclscope.

Each of two ranks makes two communicators one after the other. After each init, after the first AllReduce and
after the first send and receive, it prints by how much the GPU's free memory fell since the step before
(`cudaMemGetInfo`), and what `ncclCommMemStats` counts for the communicator (NCCL 2.29.7 and later). Run it
under `NCCLSCOPE_NCCL_LOG=on ncclscope run`, then `ncclscope memory DIR` has the third column.

    bench/gpu/memory.py --ranks 2 [--nccl libnccl.so.2]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nccl_calls import FLOAT32, MIB, SUM, Cuda, Nccl, find_cudart, find_nccl  # noqa: E402

TOTAL = 3  # ncclStatGpuMemTotal


class Rank:
    def __init__(self, opts):
        self.opts, self.rank = opts, int(os.environ["RANK"])
        self.cuda, self.nccl = Cuda(find_cudart(None)), Nccl(find_nccl(opts.nccl))
        gpus = c_int()
        self.cuda.GetDeviceCount(byref(gpus))
        self.cuda.SetDevice(self.rank % gpus.value)
        self.stream, self.buffer = self.cuda.stream(), self.cuda.malloc(2 * MIB)
        self.cuda.DeviceSynchronize()
        self.free = self.now()

    def now(self):
        free, total = c_size_t(), c_size_t()
        if self.cuda.lib.cudaMemGetInfo(byref(free), byref(total)):
            sys.exit("cudaMemGetInfo failed")
        return free.value

    def say(self, what, comm):
        self.cuda.DeviceSynchronize()
        time.sleep(0.3)  # for ncclscope's sampler, which looks ten times a second
        self.meet(what)
        free, counted = self.now(), c_uint64()
        stats = "-"
        if self.nccl.has("ncclCommMemStats"):
            rc = self.nccl.lib.ncclCommMemStats(comm, TOTAL, byref(counted))
            stats = f"{counted.value / MIB:.1f}" if rc == 0 else f"error {rc}"
        fell = (self.free - free) / MIB
        line = f"rank {self.rank}  {what:<22} free memory fell {fell:8.1f} MiB  NCCL counts {stats} MiB"
        print(line, flush=True)
        self.meet(what + " said")
        self.free = free

    def meet(self, name):
        path = os.path.join(self.opts.folder, name.replace(" ", "-"))
        open(f"{path}.{self.rank}", "w").close()
        while not all(os.path.exists(f"{path}.{r}") for r in range(self.opts.ranks)):
            time.sleep(0.001)

    def unique_id(self, name):
        return self.nccl.unique_id(os.path.join(self.opts.folder, f"id-{name}"), self.rank == 0)

    def work(self, name):
        comm, n = c_void_p(), c_size_t(MIB // 4)
        self.nccl.call("ncclCommInitRank", byref(comm), self.opts.ranks, self.unique_id(name), self.rank)
        self.say(f"{name} init", comm)
        buffer, stream = c_void_p(self.buffer), self.stream
        self.nccl.call("ncclAllReduce", buffer, buffer, n, FLOAT32, SUM, comm, stream)
        self.say(f"{name} AllReduce", comm)
        there = c_void_p(self.buffer + MIB)
        self.nccl.call("ncclGroupStart")
        for peer in range(self.opts.ranks):
            if peer != self.rank:
                self.nccl.call("ncclSend", buffer, n, FLOAT32, peer, comm, stream)
                self.nccl.call("ncclRecv", there, n, FLOAT32, peer, comm, stream)
        self.nccl.call("ncclGroupEnd")
        self.say(f"{name} send and receive", comm)
        return comm


def main():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--nccl", help="libnccl.so.2 to call")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    opts = parser.parse_args()
    if opts.folder:
        rank = Rank(opts)
        if rank.rank == 0:
            print(f"NCCL {rank.nccl.version}", flush=True)
        first, second = rank.work("first"), rank.work("second")
        rank.nccl.call("ncclCommDestroy", second)
        rank.nccl.call("ncclCommDestroy", first)
        return 0
    opts.folder = tempfile.mkdtemp(prefix="memory-")
    command = [sys.executable, os.path.abspath(__file__), "--ranks", str(opts.ranks), "--folder", opts.folder]
    command += ["--nccl", opts.nccl] if opts.nccl else []
    env = {"NCCL_NVLS_ENABLE": "0", "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", **os.environ}
    ranks = [
        subprocess.Popen(command, env={**env, "RANK": str(rank), "WORLD_SIZE": str(opts.ranks)})
        for rank in range(opts.ranks)
    ]
    try:
        return max(abs(process.wait(60)) for process in ranks)
    finally:
        for process in ranks:
            process.kill()


if __name__ == "__main__":
    sys.exit(main())

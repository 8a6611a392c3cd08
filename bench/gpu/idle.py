#!/usr/bin/env python3
"""A data-parallel job with a known reason for idle GPUs: torchrun ... bench/gpu/idle.py CAUSE SECONDS

CAUSE is what the host does for 5 ms of each step, while its GPU has nothing to do: `busy` runs Python,
`sleep` sleeps, `hog` runs Python on a CPU that it shares with a program that never sleeps, `mpi` is in
MPI_Barrier of the library in the folder of MPI_STUB, and `none` does nothing.
"""

import ctypes
import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist

os.environ["NCCL_NVLS_ENABLE"] = "0"  # multicast can take a shared host down
cause, seconds = sys.argv[1], float(sys.argv[2])
dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank)
hog = None
if cause == "hog":
    cpu = sorted(os.sched_getaffinity(0))[rank]
    os.sched_setaffinity(0, {cpu})
    hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
if cause == "mpi":
    program = ctypes.CDLL(os.path.join(os.environ["MPI_STUB"], "libprogram.so"))
matrix = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
gradient = torch.zeros(16 << 20, device="cuda")
over = torch.zeros(1, device="cuda")
end = time.monotonic() + seconds
steps = 0
while not over.item():
    for _ in range(8):
        matrix = torch.nn.functional.normalize(matrix @ matrix)
    dist.all_reduce(gradient)
    over.fill_(float(time.monotonic() > end))
    dist.all_reduce(over)
    torch.cuda.synchronize()
    if cause == "sleep":
        time.sleep(0.005)
    elif cause == "mpi":
        program.barrier(ctypes.c_long(5000))
    elif cause != "none":
        stop = time.thread_time() + 0.005
        while time.thread_time() < stop:
            pass
    steps += 1
if hog:
    hog.kill()
if rank == 0:
    print(f"{cause}: {steps} steps, {1e3 * seconds / steps:.2f} ms each")
dist.destroy_process_group()

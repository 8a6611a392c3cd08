#!/usr/bin/env python3
"""A torch job of two ranks with known calls of the driver, to hold ncclscope's counters against.

Each of 60 steps launches 20 kernels, calls AllReduce 4 times, waits for one event and one stream, and replays
one CUDA graph of 5 kernels. Under torchrun:

    ncclscope run -o DIR -- torchrun --nproc-per-node 2 bench/gpu/counts_job.py
    ncclscope report --all DIR        # Calls of the CUDA driver
"""

import os
import time

import torch
import torch.distributed as dist

STEPS, KERNELS, CALLS = 60, 20, 4


def main():
    rank = int(os.environ["LOCAL_RANK"])
    # Two ranks may share a GPU, with NCCL_MULTI_RANK_GPU_ENABLE=1.
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    data = torch.zeros(1 << 20, device="cuda")
    sums = [torch.zeros(1 << 16, device="cuda") for _ in range(CALLS)]
    event = torch.cuda.Event()
    graph = torch.cuda.CUDAGraph()
    data.add_(1)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(5):
            data.mul_(0.5)
    for part in sums:
        dist.all_reduce(part)
    torch.cuda.synchronize()
    for _ in range(STEPS):
        for _ in range(KERNELS):
            data.add_(1)
        for part in sums:
            dist.all_reduce(part)
        graph.replay()
        event.record()
        event.synchronize()
        torch.cuda.current_stream().synchronize()
        time.sleep(0.05)
    if rank == 0:
        expected = f"{KERNELS} kernels, 1 graph, 1 event and 1 stream synchronisation by the program"
        print(f"truth per step and rank: {expected}; {CALLS} kernels by NCCL", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A training job of a few seconds that has something to show in every section of a report.

    NCCLSCOPE_NCCL_LOG=on ncclscope run --stacks -o DIR -- mpiexec -n 2 python3 bench/gpu/everything.py

One process per GPU, started by MPI (MPICH and mpi4py from PyPI). Each step is a small model whose gradients
are reduced in buckets beside the backward pass; every tenth step, ranks also agree on a number over MPI, and
rank 0 writes a checkpoint. Rank 1 has more work on its GPU. Prints one JSON line.
"""

import json
import os
import tempfile
import time

os.environ["NCCL_NVLS_ENABLE"] = "0"  # multicast can take a shared host down

from mpi4py import MPI  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

STEPS, WIDTH, SLOW_MATRICES = 120, 2048, 12


def train(rank, world, device):
    model = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(12)]).to(device)
    model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=20)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    data = torch.randn(16384, WIDTH, device=device)
    matrix = torch.randn(4096, 4096, device=device, dtype=torch.bfloat16)
    began = time.perf_counter()
    for step in range(STEPS):
        optimizer.zero_grad()
        if rank == 1:
            for _ in range(SLOW_MATRICES):
                torch.mm(matrix, matrix)
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(data).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            MPI.COMM_WORLD.allreduce(loss.item())
            if rank == 0:
                with tempfile.TemporaryFile() as file:
                    torch.save(model.state_dict(), file)
            MPI.COMM_WORLD.Barrier()
    torch.cuda.synchronize()
    return time.perf_counter() - began


def main():
    comm = MPI.COMM_WORLD
    rank, world = comm.rank, comm.size
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29555")
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", rank=rank, world_size=world, device_id=device)
    wall = train(rank, world, device)
    if rank == 0:
        print(json.dumps({"steps": STEPS, "wall_s": round(wall, 3), "step_ms": round(1e3 * wall / STEPS, 2)}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A load whose power is steady: matrix products and an AllReduce in each step, on every rank, for SECONDS.

    torchrun --nproc-per-node 2 bench/gpu/power.py 30
"""

import os
import sys
import time

import torch
import torch.distributed as dist

seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
device = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=torch.device("cuda", device))
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
b = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
data = torch.ones(64 << 20, device="cuda", dtype=torch.bfloat16)
go_on = torch.ones(1, device="cuda")
steps, begin = 0, time.monotonic()
while True:
    for _ in range(40):
        c = a @ b
    dist.all_reduce(data)
    steps += 1
    # All ranks end with the same step.
    if steps % 10 == 0:
        go_on.fill_(float(time.monotonic() - begin < seconds))
        dist.all_reduce(go_on, op=dist.ReduceOp.MIN)
        if go_on.item() == 0:
            break
torch.cuda.synchronize()
if dist.get_rank() == 0:
    print(f"{steps} steps in {time.monotonic() - begin:.1f} s")
dist.destroy_process_group()

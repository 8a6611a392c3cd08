"""A hang of two ranks of torch.distributed on CPUs: rank 1 leaves out the last AllReduce.

Each rank writes its dump of PyTorch's flight recorder as a pickle and as JSON, in the middle of the hang. The
files beside this one are of torch 2.11.0, made so for ranks 0 and 1 at the same time:

    MASTER_ADDR=127.0.0.1 MASTER_PORT=29611 WORLD_SIZE=2 RANK=0 GLOO_SOCKET_IFNAME=lo \\
        TORCH_FR_BUFFER_SIZE=2000 python hang.py .
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json

rank = int(os.environ["RANK"])
out = Path(sys.argv[1])


def dump() -> None:
    """Writes both dumps, and ends the process after the other rank has done so."""
    time.sleep(5)
    (out / "pickle" / f"gloo_trace_rank_{rank}").write_bytes(_dump_fr_trace())
    (out / "json" / f"gloo_trace_rank_{rank}.json").write_bytes(_dump_fr_trace_json())
    time.sleep(5)
    os._exit(0)


dist.init_process_group("gloo")
pair = dist.new_group([0, 1], group_desc="pair")
data = torch.ones(1 << 16)
for _ in range(3):
    dist.all_reduce(data)
    dist.broadcast(data, 0)
dist.all_reduce(data[:1024], group=pair)
# Gloo's sends and receives are not in the dumps.
if rank == 0:
    dist.send(data[:16], 1)
else:
    dist.recv(data[:16], 0)
dist.barrier()
threading.Thread(target=dump).start()
if rank == 0:
    dist.all_reduce(data)
time.sleep(60)

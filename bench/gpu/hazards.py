#!/usr/bin/env python3
"""What may go wrong around CUDA events in a real program, under torchrun: prints one line of JSON on rank 0.

torchrun … hazards.py capture      # one thread captures CUDA graphs in global mode, another calls NCCL
torchrun … hazards.py sticky       # an error of the program's own kernel: it must see that, and nothing else
torchrun … hazards.py no-destroy   # ends without destroying the process group, work still under way
"""

import json
import os
import sys
import threading

import torch
import torch.distributed as dist


def captured(stop, counts, device):
    torch.cuda.set_device(device)
    a = torch.ones(1 << 16, device=device)
    while not stop.is_set():
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, capture_error_mode="global"):
                b = a * 2 + 1
            graph.replay()
            torch.cuda.current_stream().synchronize()
            counts["graphs"] += 1
            if counts["graphs"] % 20 == 0 and not torch.equal(b, torch.full_like(b, 3)):
                counts["wrong"] += 1
        except Exception as error:  # what a profiler must not cause
            counts["failed"] += 1
            counts["error"] = str(error).splitlines()[0]


def main():
    case = sys.argv[1]
    rank, device = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=torch.device("cuda", device) if case != "capture" else None)
    x = torch.ones(1 << 18, device=device)
    said = {"case": case, "calls": 0}
    if case == "capture":
        dist.all_reduce(x)
        torch.cuda.synchronize()
        counts, stop = {"graphs": 0, "failed": 0, "wrong": 0}, threading.Event()
        thread = threading.Thread(target=captured, args=(stop, counts, device))
        thread.start()
        for _ in range(3000):
            dist.all_reduce(x)
            said["calls"] += 1
        stop.set()
        thread.join()
        torch.cuda.synchronize()
        said.update(counts, calls=said["calls"] + 1)
    elif case == "sticky":
        for _ in range(100):
            dist.all_reduce(x)
            said["calls"] += 1
        torch.cuda.synchronize()
        try:
            index = torch.tensor([1 << 30], device=device)
            x[index] = 1.0
            torch.cuda.synchronize()
            said["error"] = "none"
        except Exception as error:
            said["error"] = str(error).splitlines()[0]
        print(json.dumps(said), flush=True)
        os._exit(3)
    else:
        for _ in range(2000):
            dist.all_reduce(x)
            said["calls"] += 1
        print(json.dumps(said), flush=True)
        sys.exit(0)
    if rank == 0:
        print(json.dumps(said), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

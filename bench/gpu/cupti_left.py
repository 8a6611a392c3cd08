#!/usr/bin/env python3
"""What CUPTI costs the host before, in and after kernel windows: µs of a call, least and median of 7 rounds.

    cc -O1 -shared -fPIC -o libcupti_left.so cupti_left.c -ldl && cupti_left.py   # one GPU

Each way runs in a process of its own. `launch` is torch's x.add_(1) of 64 floats, `replay` the launch of a
CUDA graph of ten of them, `record` an event's record, `copy` a copy on the device. The host is never far
ahead.
"""

import ctypes
import glob
import os
import statistics
import sys
import time

import torch

LIBRARY = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libcupti_left.so"))
KERNEL = 10


def cupti():
    import nvidia

    found = [path for folder in nvidia.__path__ for path in glob.glob(folder + "/*/lib/libcupti.so.*")]
    return (found[0] if found else "libcupti.so.13").encode()


def play(way):
    x, y = torch.zeros(64, device="cuda"), torch.zeros(64, device="cuda")
    event, graph = torch.cuda.Event(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            y.add_(1)
    calls = {
        "launch": (lambda: x.add_(1), 20_000),
        "record": (event.record, 5_000),
        "copy": (lambda: x.copy_(y), 5_000),
        "replay": (graph.replay, 1_000),
    }

    def measure(call, n):
        rounds = []
        for _ in range(7):
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(n):
                call()
            rounds.append((time.perf_counter() - began) / n * 1e6)
        torch.cuda.synchronize()
        return f"{min(rounds):.2f}/{statistics.median(rounds):.2f}"

    def show(what):
        figures = " ".join(f"{name} {measure(*call)}" for name, call in calls.items())
        print(f"{way:10} {what:14} {figures} records {LIBRARY.recorded()}", flush=True)

    measure(*calls["launch"])
    show("before")
    if way == "nothing":
        return show("again")
    LIBRARY.load(cupti())
    if way == "loaded":
        return show("loaded")
    LIBRARY.begin()
    if way == "registered":
        return show("registered")
    LIBRARY.on(KERNEL)
    show("on")
    LIBRARY.off(KERNEL)
    show("off")
    LIBRARY.flushed()
    show("off, flushed")
    if way == "finalized":
        # The next launch of a graph would fail.
        LIBRARY.finalized()
        print(f"{way:10} {'finalized':14} launch {measure(*calls['launch'])}", flush=True)


def main():
    for way in ["nothing", "loaded", "registered", "window", "finalized"]:
        child = os.fork()
        if child == 0:
            play(way)
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()

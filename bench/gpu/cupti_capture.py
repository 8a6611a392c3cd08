#!/usr/bin/env python3
"""Whether CUPTI, switched on or off by one thread, breaks the CUDA graphs that another thread captures.

    cc -O1 -shared -fPIC -o libcupti_left.so cupti_left.c -ldl && cupti_capture.py   # two GPUs

Each way runs with two ranks of its own, and prints what became of their captures. A graph has 20 AllReduces
of 16 KiB and 40 small kernels; each rank captures, launches and drops one after the other, for two seconds,
or until a capture fails. What a way does to CUPTI:

    nothing     is what its name says
    idle        on and off once before the first capture
    on          on before the first capture, and never off
    register    only registers its callbacks, once, half a second after the first capture
    kernel      the same, and then switches records of kernels on
    all         the same, with copies and fills
    later       on and off once before the first capture; on and off every 20 ms while there are captures
    flush       as `on`, and flushes every 20 ms while there are captures
    free        as `later`, but only while no capture is under way
    free-all    as `all`, but only while no capture is under way
"""

import ctypes
import os
import signal
import socket
import sys
import threading
import time

import torch
import torch.distributed as dist

from cupti_left import LIBRARY, cupti

KERNEL, COPY, FILL = 10, 1, 2
RELAXED = 2
# Under it while a graph is captured.
CAPTURING = threading.Lock()


def switch_on(kinds=(KERNEL, COPY, FILL)):
    return [LIBRARY.begin()] + [LIBRARY.on(kind) for kind in kinds]


def switch_off():
    return [LIBRARY.off(kind) for kind in (KERNEL, COPY, FILL)] + [LIBRARY.flushed()]


def act(way, stop):
    """In a thread of its own, beside captures; returns how often it acted."""
    mode = ctypes.c_int(RELAXED)
    ctypes.CDLL("libcuda.so.1").cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
    time.sleep(0.5)
    if way == "register":
        LIBRARY.begin()
    elif way == "kernel":
        switch_on((KERNEL,))
    elif way == "all":
        switch_on()
    elif way == "free-all":
        with CAPTURING:
            switch_on()
    while way in ("later", "flush", "free") and not stop.is_set():
        time.sleep(0.02)
        if way == "later":
            switch_on()
            time.sleep(0.02)
            switch_off()
        elif way == "free":
            with CAPTURING:
                switch_on()
            time.sleep(0.02)
            with CAPTURING:
                switch_off()
        else:
            LIBRARY.flushed()


def play(way, rank, port):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    x, y = torch.zeros(8192, dtype=torch.bfloat16, device="cuda"), torch.zeros(64, device="cuda")
    for _ in range(20):
        dist.all_reduce(x)
    y.add_(1)
    torch.cuda.synchronize()
    LIBRARY.load(cupti())
    if way in ("idle", "on", "later", "flush", "free"):
        switch_on()
        if way not in ("on", "flush"):
            switch_off()
    side, stop, good, error = torch.cuda.Stream(), threading.Event(), 0, ""
    actor = threading.Thread(target=act, args=(way, stop), daemon=True)
    actor.start()
    until = time.monotonic() + 2
    over = torch.zeros(1, device="cuda")
    while not over.item():
        try:
            graph = torch.cuda.CUDAGraph()
            with CAPTURING, torch.cuda.graph(graph, stream=side):
                for _ in range(20):
                    y.add_(1)
                    dist.all_reduce(x)
                    y.mul_(2)
            graph.replay()
            good += 1
            over.fill_(time.monotonic() > until)
            dist.all_reduce(over)
            torch.cuda.synchronize()
        except Exception as failed:
            error = str(failed).splitlines()[0]
            break
    stop.set()
    print(f"{way:10} rank {rank}: {good} good, {error or 'none failed'}", flush=True)
    os._exit(1 if error else 0)


def main():
    ways = sys.argv[1:] or "nothing idle on register kernel all later flush free free-all".split()
    for way in ways:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        children = set()
        for rank in range(2):
            child = os.fork()
            if child == 0:
                play(way, rank, port)
            children.add(child)
        while children:
            child, status = os.wait()
            children.discard(child)
            if status and children:
                time.sleep(1)
                for other in children:
                    os.kill(other, signal.SIGKILL)


if __name__ == "__main__":
    main()

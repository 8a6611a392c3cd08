#!/usr/bin/env python3
"""How long launches take on the host, with room in the stream's queue and without: prints one line each.

    bench/gpu/launch_times.py   # ten seconds; needs one GPU and torch

A launch that waits for room takes as long as the GPU needs to make room. The recorder tells it from one that
does not wait by its length (`capture::windows::WAITED_NS`).
"""

import time

import torch

LEAST_US = 16


def cycles(us):
    """For a kernel of so many microseconds: cycles of the GPU's clock."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(100_000_000)
    begin.record()
    torch.cuda._sleep(100_000_000)
    end.record()
    end.synchronize()
    return int(us * 100_000_000 / (1e3 * begin.elapsed_time(end)))


def launch(us, ahead, n):
    """Times of n launches of such kernels, us. `ahead`: the host waits for its GPU after so many; 0 never."""
    clocks, times = cycles(us), []
    torch.cuda.synchronize()
    for i in range(n):
        if ahead and i % ahead == 0:
            torch.cuda.synchronize()
        began = time.perf_counter_ns()
        torch.cuda._sleep(clocks)
        times.append((time.perf_counter_ns() - began) / 1e3)
    torch.cuda.synchronize()
    return sorted(times[n // 10 :])


for us in (5, 10, 20, 50, 100, 200):
    for name, ahead in (("room", 200), ("full", 0)):
        times = launch(us, ahead, n=max(4000, min(20_000, 1_000_000 // us)))
        long = [t for t in times if t > LEAST_US]
        shares = [times[int(len(times) * share)] for share in (0.1, 0.5, 0.9, 0.99)]
        print(
            f"kernels of {us:3} us, {name}: launches of {shares[0]:.1f} {shares[1]:.1f} {shares[2]:.1f}",
            f"{shares[3]:.1f} us (10, 50, 90, 99 %); over {LEAST_US} us: {len(long) / len(times):.3f}",
            f"of them, {sum(long) / sum(times):.3f} of their time; shortest {min(long, default=0):.0f} us",
        )

#!/usr/bin/env python3
"""Trains a small model on one GPU while CUPTI's kernel records are switched on and off four times a second.

    cupti_threads.py [SECONDS] [GPU] [--always]

There is no NCCL and no recorder in it: it shows whether CUPTI itself survives that. PyTorch launches from two
threads, the program's and autograd's. `--always` leaves the records on. Needs `cc`. Another CUPTI is tried by
`LD_PRELOAD=/path/libcupti.so.13`. Prints one line at its end; a crash is the status of a signal, 139.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
import time

import torch

words = [word for word in sys.argv[1:] if not word.startswith("-")]
seconds = float(words[0]) if words else 160.0
torch.cuda.set_device(int(words[1]) if len(words) > 1 else 0)
with tempfile.TemporaryDirectory() as folder:
    built = os.path.join(folder, "libcupti_threads.so")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cupti_threads.c")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", built, source, "-ldl", "-lpthread"], check=True)
    windows = ctypes.CDLL(built)
windows.switched.restype = windows.recorded.restype = ctypes.c_long

WIDTH = 512
layers = [
    torch.nn.Sequential(torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU())
    for _ in range(12)
]
net = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.AdamW(net.parameters(), fused=True)
side, copied = torch.cuda.Stream(), torch.cuda.Event()
data = torch.randn(512, WIDTH, device="cuda")
other = torch.randn(1 << 18, device="cuda")
copy = torch.empty_like(other)

loaded = {line.split()[-1] for line in open("/proc/self/maps") if "libcupti.so" in line}
preloaded = os.environ.get("LD_PRELOAD", "")
path = preloaded if "libcupti.so" in preloaded else sorted(loaded)[0]
assert windows.start(path.encode(), int("--always" in sys.argv)) == 0, path
end, steps = time.time() + seconds, 0
while time.time() < end:
    with torch.cuda.stream(side):
        copy.copy_(other)
        other.mul_(1.0)
        copied.record()
    result = net(data)
    torch.cuda.current_stream().wait_event(copied)
    result.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    steps += 1
    if steps % 20 == 0:
        torch.cuda.synchronize()
print(f"{steps} steps, switched {windows.switched()} times, {windows.recorded()} records", flush=True)
os._exit(0)

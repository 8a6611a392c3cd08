"""What `run --steps torch` costs for each step of an optimizer: an optimizer that does nothing, with the two
hooks and without. Needs PyTorch, and no GPU.

    ncclscope run --steps torch -- python bench/torch_steps.py
"""

import statistics
import sys
import time

import torch
from torch.optim import optimizer as optimizers

ROUNDS, STEPS = 10, 5_000


class Nothing(torch.optim.Optimizer):
    def step(self):
        pass


def made():
    return Nothing([torch.nn.Parameter(torch.zeros(1))], {})


def ns(optimizer):
    """CPU time of a step, ns: other programs on the machine take no part in it."""
    step = optimizer.step
    begin = time.thread_time_ns()
    for _ in range(STEPS):
        step()
    return (time.thread_time_ns() - begin) / STEPS


if "_ncclscope_torch_steps" not in sys.modules:
    sys.exit("run it under `ncclscope run --steps torch`")
hooks = (optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks)
kept = [dict(of) for of in hooks]
counts, other = made(), made()
counts.step()
# One that steps between others is not taken for the program's.
sys.modules["_ncclscope_torch_steps"]._ALONE = 1 << 60
found = {"the optimizer that counts": [], "another one": [], "without hooks": []}
for _ in range(ROUNDS):
    found["the optimizer that counts"].append(ns(counts))
    found["another one"].append(ns(other))
    for of in hooks:
        of.clear()
    found["without hooks"].append(ns(counts))
    for of, had in zip(hooks, kept):
        of.update(had)
base = statistics.median(found["without hooks"])
for name, values in found.items():
    print(
        f"{name}: {statistics.median(values):.0f} ns for a step, {min(values):.0f} to {max(values):.0f};"
        f" {statistics.median(values) - base:+.0f} ns"
    )

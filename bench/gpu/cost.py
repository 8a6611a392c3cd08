#!/usr/bin/env python3
"""The ratios of what `cost.sh` played: `cost.py OUT MODE MODE…`, with the jobs on standard input.

Each mode is divided by the one before it, round by round; only rounds that have both count. The interval is
that of the mean of the logarithms, by Student's t.
"""

import glob
import json
import math
import os
import statistics
import sys

# Two-sided 95 % of Student's t, by degrees of freedom from 1 on.
T = [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228]


def steps(out, number, mode):
    """Median step in ms, by round."""
    found = {}
    for path in glob.glob(os.path.join(out, f"{number}.{mode}.*.json")):
        text = open(path).read().strip()
        if text:
            found[int(path.split(".")[-2])] = json.loads(text)["gpu_ms"][1]
    return found


def ratio(above, below):
    logs = [math.log(above[i] / below[i]) for i in sorted(above.keys() & below.keys())]
    if len(logs) < 2:
        return f"{len(logs)} round(s)" + "".join(f", {math.exp(x):.4f}" for x in logs)
    half = T[min(len(logs) - 2, len(T) - 1)] * statistics.stdev(logs) / math.sqrt(len(logs))
    low, middle, high = (math.exp(statistics.mean(logs) + x) for x in (-half, 0, half))
    return f"{middle:.4f} [{low:.4f}, {high:.4f}] in {len(logs)} rounds"


out, modes = sys.argv[1], sys.argv[2:]
for number, job in enumerate(sys.stdin.read().splitlines()):
    times = {mode: steps(out, number, mode) for mode in modes}
    print(job)
    for mode in modes:
        if times[mode]:
            print(f"  {mode}: median step {statistics.median(times[mode].values()):.4f} ms")
    for below, above in zip(modes, modes[1:]):
        print(f"  {above} / {below}: {ratio(times[above], times[below])}")
    for path in sorted(glob.glob(os.path.join(out, f"{number}.watched.*.cpu"))):
        print(f"  CPU time of top and serve: {' s, '.join(open(path).read().split())} s")

#!/usr/bin/env python3
"""Steps that ncclscope finds, by torch's optimizers and by calls alone, beside those of the program.

    steps.py OUT SECONDS < LIST     # needs two GPUs and `make` first

Each line of LIST is a shape of jobs.py with its options, or `trainers.py KIND` with those of it. `--steps`
must be among them. Each job is played twice: with `run --steps torch` and without.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

here = pathlib.Path(__file__).resolve().parent
scope = os.environ.pop("NCCLSCOPE", str(here.parent.parent / "target/release/ncclscope"))
os.environ.update(NCCL_NVLS_ENABLE="0", NCCLSCOPE_QUIET="1")  # multicast can take a shared host down
out, end = pathlib.Path(sys.argv[1]), time.monotonic() + float(sys.argv[2])
out.mkdir(parents=True, exist_ok=True)


def play(name, words, how):
    """One job, recorded; prints what it says of its steps, and what the report says."""
    script = words[0] if words[0].endswith(".py") else "jobs.py"
    program = ["python3", str(here / script), *(words[1:] if script == words[0] else words)]
    with open(out / f"{name}.err", "w") as errors:
        ran = subprocess.run(
            [scope, "run", *how, "-o", str(out / name), "--", *program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    said = [line for line in ran.stdout.splitlines() if "wall_s" in line]
    if not said:
        print(f"{name}: status {ran.returncode}, see {name}.err")
        return
    steps = int(words[words.index("--steps") + 1])
    print(f"{name}: {steps} steps of {json.loads(said[-1])['wall_s'] / steps * 1e3:.2f} ms")
    report = subprocess.run([scope, "report", str(out / name), "--json"], stdout=subprocess.PIPE, text=True)
    found = json.loads(report.stdout)["steps"]
    if not found:
        print("  no steps")
        return
    for row in found["rows"]:
        times = row["step_us"] or {"mean": float("nan"), "p50": float("nan")}
        print(
            f"  rank {row['rank']}: {row['steps']} by the {row['source']}, mean {times['mean'] / 1e3:.2f} ms,"
            f" p50 {times['p50'] / 1e3:.2f} ms; {row['equal_parts']} parts,"
            f" times repeat {row['times_repeat']}"
        )


for number, line in enumerate(filter(str.strip, sys.stdin)):
    for source, how in {"torch": ["--steps", "torch"], "calls": []}.items():
        if time.monotonic() + 45 > end:
            sys.exit("no more time")
        play(f"{number}.{source}", line.split(), how)
        sys.stdout.flush()

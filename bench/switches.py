#!/usr/bin/env python3
"""What records of context switches cost a thread that the node sampler watches:

    bench/switches.py [ROUNDS]

Two processes on one CPU pass a byte to and fro, so each round trip has two switches away and back. It prints
the 5th percentile and the median of batches of 500 round trips, with records and without. NCCLSCOPE names the
command. Needs taskset; no GPU.
"""

import os
import subprocess
import sys
import tempfile
import time

BATCH = 500


def passes(rounds: int) -> None:
    """Prints microseconds per round trip: 5th percentile and median of batches, the first second left out."""
    (to_child, out), (back, to_parent) = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(out)
        while byte := os.read(to_child, 1):
            os.write(to_parent, byte)
        os._exit(0)
    batches = []
    begin = time.perf_counter()
    for _ in range(rounds // BATCH):
        start = time.perf_counter()
        for _ in range(BATCH):
            os.write(out, b"x")
            os.read(back, 1)
        end = time.perf_counter()
        if start > begin + 1:
            batches.append((end - start) / BATCH * 1e6)
    batches.sort()
    low, middle = batches[len(batches) // 20], batches[len(batches) // 2]
    print(f"{low:.2f} {middle:.2f} us per round trip (5th percentile, median)")


def main() -> None:
    rounds = sys.argv[1] if len(sys.argv) > 1 else "500000"
    if "PASSES" in os.environ:
        return passes(int(rounds))
    scope = os.path.abspath(os.environ.get("NCCLSCOPE", "target/release/ncclscope"))
    for switches in ["on", "off"] * 3:
        itself = [sys.executable, os.path.abspath(__file__), rounds]
        command = [scope, "run", "--", "taskset", "-c", "0", *itself]
        environment = {**os.environ, "PASSES": "1", "NCCLSCOPE_SWITCHES": switches}
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
        print(f"records {switches:3}: {done.stdout.strip() or done.stderr.strip()}")


main()

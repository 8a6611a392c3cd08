#!/usr/bin/env python3
"""A program whose heap is used up calls NCCL: does the recorder end it by an allocation that fails?"""

import os
import subprocess
import sys
from pathlib import Path

BIN, WORK = sys.argv[1:3]
source = Path(__file__).parent / "memory_used_up.c"
driver = ["cc", "-DDRIVER", "-shared", "-fPIC", "-w", "-o", WORK + "/libcuda.so.1", str(source)]
subprocess.run(driver, check=True)

failed = []
kinds = ["init", "captured", "communicators", "end", *(f"left {mib << 10}" for mib in (8, 16, 32, 64, 96))]
for kind in kinds:
    capture = f"{WORK}/{kind}"
    env = dict(os.environ, NCCL_PROFILER_PLUGIN=BIN + "/libnccl-profiler-ncclscope.so",
               NCCLSCOPE_OUT=capture, NCCLSCOPE_TIMING="host", LD_LIBRARY_PATH=WORK)
    done = subprocess.run([WORK + "/memory_used_up", *kind.split()], env=env, capture_output=True, text=True)
    said = (done.stdout + done.stderr).strip().splitlines()
    if done.returncode or "survived" not in done.stdout:
        failed.append(f"{kind}: status {done.returncode}, {said[-1] if said else 'nothing said'}")
        continue
    report = subprocess.run([BIN + "/ncclscope", "report", capture], capture_output=True, text=True)
    if report.returncode:
        failed.append(f"{kind}: what was recorded can't be read: {report.stderr.strip()}")
for line in failed:
    print(line)
print(f"{len(kinds) - len(failed)} of {len(kinds)} jobs went on without memory")
sys.exit(bool(failed))

#!/usr/bin/env python3
"""The program takes a number of the recorder's between `open` and the first look: is its own file safe?"""

import os
import subprocess
import sys

BIN, WORK = sys.argv[1:3]
plugin = BIN + "/libnccl-profiler-ncclscope.so"

failed = []
kinds = [(ending, when) for ending in (".trace", ".snap") for when in ("first", "again")]
kinds.append((".live", "first"))
for ending, when in kinds:
    place = f"{WORK}/{ending[1:]}-{when}"
    os.mkdir(place)
    env = dict(os.environ, NCCL_PROFILER_PLUGIN=plugin, NCCLSCOPE_OUT=place + "/capture",
               NCCLSCOPE_FLUSH="0.05", NCCLSCOPE_TIMING="host", TMPDIR=place)
    # As attacks.rs compiles it: number_taken.c
    command = [WORK + "/number_taken", ending, when, place]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        failed.append(f"{ending} {when}: status {done.returncode}, {said[-1] if said else 'nothing said'}")
        continue
    command = [BIN + "/ncclscope", "report", place + "/capture"]
    report = subprocess.run(command, capture_output=True, text=True)
    if report.returncode:
        failed.append(f"{ending} {when}: report: {report.stderr.strip()}")
for line in failed:
    print(line)
print(f"{len(kinds) - len(failed)} of {len(kinds)} moments: the program's file and number stayed its own")
sys.exit(bool(failed))

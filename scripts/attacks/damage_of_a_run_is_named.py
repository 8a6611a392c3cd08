#!/usr/bin/env python3
"""After a run, somebody cuts or deletes a node sampler's file, or flips bits of capture.json.

A report of each damaged capture must name the damage, also if the sampler is not that of the run that made
the capture, as on the other nodes of a job. damage... BIN WORK
"""

import glob
import json
import os
import random
import shutil
import subprocess
import sys

BIN, WORK = sys.argv[1:3]
CUTS, FLIPS = 20, 60
whole, damaged = WORK + "/whole", WORK + "/damaged"


def ncclscope(*args, **more):
    env = {name: value for name, value in os.environ.items() if not name.startswith("NCCL")}
    env.update(NCCLSCOPE_TIMING="host", NCCLSCOPE_QUIET="1", **more)
    return subprocess.run([BIN + "/ncclscope", *args], env=env, capture_output=True, text=True)


def problems(capture):
    done = ncclscope("report", capture, "--json")
    assert done.returncode == 0, done
    return json.loads(done.stdout)["problems"]


def play(what, damage, of=whole):
    shutil.rmtree(damaged, ignore_errors=True)
    shutil.copytree(of, damaged)
    damage()
    assert problems(damaged), f"{what}: nothing was said"


with open(WORK + "/job", "w") as file:
    file.write("ranks 2\nall_reduce 1KiB x200\n")
PLAY = [BIN + "/fake-nccl", "play", WORK + "/job", "--fast"]
done = ncclscope("run", "-o", whole, "--", *PLAY)
assert done.returncode == 0, done
# Two tasks of a job: the first makes the capture, and the second samples.
joined, rolls = WORK + "/joined", random.Random()
job = dict(SLURM_JOB_ID="7", SLURM_STEP_ID="0", SLURM_NTASKS="2", SLURM_NNODES="2")
for rank, sampler in (("0", "off"), ("1", "on")):
    who = dict(job, SLURM_PROCID=rank, SLURM_NODEID=rank, SLURM_LOCALID="0", NCCLSCOPE_SAMPLER=sampler)
    done = ncclscope("run", "-o", joined, "--", *PLAY, **who)
    assert done.returncode == 0, done

for of in (whole, joined):
    assert problems(of) == [], problems(of)
    (samples,) = glob.glob(of + "/*/*.samples")
    name = os.path.relpath(samples, of)
    size = os.path.getsize(samples)
    play("deleted", lambda: os.remove(f"{damaged}/{name}"), of)
    for cut in [0, 1, 39, 40, size - 1] + [rolls.randrange(size) for _ in range(CUTS - 5)]:
        play(f"cut to {cut} of {size}", lambda: os.truncate(f"{damaged}/{name}", cut), of)
mark = open(whole + "/capture.json", "rb").read()
for _ in range(FLIPS):
    at, bit = rolls.randrange(len(mark)), rolls.randrange(8)

    def flip():
        data = bytearray(mark)
        data[at] ^= 1 << bit
        with open(damaged + "/capture.json", "wb") as file:
            file.write(data)

    play(f"bit {bit} of byte {at} of capture.json", flip)
print(f"2 deleted files, {2 * CUTS} cuts and {FLIPS} flips were named")

#!/usr/bin/env python3
"""After a run, somebody cuts or deletes the node sampler's file, or flips bits of capture.json.

A report of each damaged capture must name the damage. damage... BIN WORK
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


def ncclscope(*args):
    env = {name: value for name, value in os.environ.items() if not name.startswith("NCCL")}
    env.update(NCCLSCOPE_TIMING="host", NCCLSCOPE_QUIET="1")
    return subprocess.run([BIN + "/ncclscope", *args], env=env, capture_output=True, text=True)


def problems(capture):
    done = ncclscope("report", capture, "--json")
    assert done.returncode == 0, done
    return json.loads(done.stdout)["problems"]


def play(what, damage):
    shutil.rmtree(damaged, ignore_errors=True)
    shutil.copytree(whole, damaged)
    damage()
    assert problems(damaged), f"{what}: nothing was said"


with open(WORK + "/job", "w") as file:
    file.write("ranks 2\nall_reduce 1KiB x200\n")
done = ncclscope("run", "-o", whole, "--", BIN + "/fake-nccl", "play", WORK + "/job", "--fast")
assert done.returncode == 0, done
assert problems(whole) == [], problems(whole)
(samples,) = glob.glob(whole + "/*/*.samples")
name = os.path.relpath(samples, whole)
size, rolls = os.path.getsize(samples), random.Random()

play("deleted", lambda: os.remove(f"{damaged}/{name}"))
for cut in [0, 1, 39, 40, size - 1] + [rolls.randrange(size) for _ in range(CUTS - 5)]:
    play(f"cut to {cut} of {size}", lambda: os.truncate(f"{damaged}/{name}", cut))
mark = open(whole + "/capture.json", "rb").read()
# A flip in the name of the checksum makes the file one of an older version, and changes nothing else.
end = mark.rindex(b'\n  "crc32"') - 1
for _ in range(FLIPS):
    at, bit = rolls.randrange(end), rolls.randrange(8)

    def flip():
        data = bytearray(mark)
        data[at] ^= 1 << bit
        with open(damaged + "/capture.json", "wb") as file:
            file.write(data)

    play(f"bit {bit} of byte {at} of capture.json", flip)
print(f"a deleted file, {CUTS} cuts and {FLIPS} flips were named")

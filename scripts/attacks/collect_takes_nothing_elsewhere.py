#!/usr/bin/env python3
"""A capture that somebody else prepared names a live part of ours, or a file in another capture of ours.

`collect` of the prepared capture must not take, copy or remove that file, and with --into neither. Nor may a
copy of our capture take what belongs to the capture. collect... BIN WORK
"""

import glob
import itertools
import json
import os
import shutil
import struct
import subprocess
import sys
import zlib

BIN, WORK = sys.argv[1:3]


def env(out):
    return dict(os.environ, NCCLSCOPE_OUT=out, NCCLSCOPE_QUIET="1", NCCLSCOPE_TIMING="host")


def ncclscope(*args):
    return subprocess.run([BIN + "/ncclscope", *args], capture_output=True, text=True)


INTO = itertools.count()


def collect(capture):
    """Collects it in place, then into another folder; returns both runs, and the live parts in either."""
    into = f"{WORK}/into-{next(INTO)}"
    runs = ncclscope("collect", capture), ncclscope("collect", capture, "--into", into)
    assert all(run.returncode in (0, 1) for run in runs), runs
    return runs, glob.glob(capture + "/*/*.live") + glob.glob(into + "/*/*.live")


def killed(out):
    """A job of ours whose processes kill themselves; one live part of it, named by its trace file."""
    job = WORK + "/job"
    with open(job, "w") as file:
        file.write("ranks 2\nall_reduce 1KiB x200\nrank 0..1 kill\n")
    plugin = BIN + "/libnccl-profiler-ncclscope.so"
    subprocess.run(
        [BIN + "/fake-nccl", "play", job, "--fast", "--plugin", plugin], env=env(out), capture_output=True
    )
    trace = sorted(glob.glob(out + "/*/*.trace"))[0]
    data = open(trace, "rb").read()
    begin = data.index(b"live=") + 5
    return trace, data, data[begin : data.index(b"\n", begin)].decode()


def block(kind, payload, data):
    head = b"NCSB" + struct.pack("<HHII", kind, struct.unpack_from("<H", data, 8)[0], 0, len(payload))
    head += struct.pack("<I", zlib.crc32(payload))
    head += struct.pack("<I", zlib.crc32(head))
    whole = head + payload
    return whole + b"\0" * (-len(whole) % 8)


def recorded(capture):
    return json.loads(ncclscope("report", capture, "--json").stdout)["completeness"]["recorded"]


def prepare(name, header, live, data):
    host = f"{WORK}/{name}/host"
    os.makedirs(host)
    trace = host + "/r0-p1-aaaaaaaa.trace"
    boot = open("/proc/sys/kernel/random/boot_id").read().strip()
    space = os.stat("/proc/self/ns/pid").st_ino
    facts = (
        f"ncclscope=0.1.0\nhost=host\nboot_id={boot}\npid=1\npid_start=1\npid_namespace={space}\n"
        f"live={live}\ntrace={trace}\n"
    )
    with open(trace, "wb") as file:
        file.write(header + block(1, facts.encode(), data))
    return f"{WORK}/{name}"


_, data, part = killed(WORK + "/mine")
before = recorded(WORK + "/mine")
other = data[:16] + os.urandom(8) + data[24:32]
other += struct.pack("<I", zlib.crc32(other)) + bytes(4)
headers = {
    "another id": other,
    "a damaged header": b"NCSTRACE" + b"\xff" * 32,
    "a header of zeros": bytes(40),
    "our own header": data[:40],
    "no header": b"",
}
link = WORK + "/ncclscope-%d" % os.geteuid()
os.symlink(os.path.dirname(part), link)
for number, (name, header) in enumerate(headers.items()):
    for place in (part, link + "/" + os.path.basename(part)):
        capture = prepare(f"evil-{number}-{place == part}", header, place, data)
        runs, taken = collect(capture)
        assert os.path.exists(part) and not taken, f"{name}: {runs}"

shutil.copytree(WORK + "/mine", WORK + "/copy")
runs, taken = collect(WORK + "/copy")
assert os.path.exists(part) and not taken and recorded(WORK + "/mine") == before, runs

done = ncclscope("collect", WORK + "/mine")
assert done.returncode == 0, done
adopted = sorted(glob.glob(WORK + "/mine/*/*.live"))
assert len(adopted) == 2 and recorded(WORK + "/mine") == before, (done, before)
for number, (name, header) in enumerate(headers.items()):
    capture = prepare(f"thief-{number}", header, adopted[0], data)
    runs, taken = collect(capture)
    assert os.path.exists(adopted[0]) and not taken, f"{name}: {runs}"
assert recorded(WORK + "/mine") == before
print(f"15 prepared captures and a copy took nothing from another, which still has all of its {before} calls")

#!/usr/bin/env python3
"""A user whose files and variables are made to harm who looks at them, beside a job that root attaches to.

One process of that user has mapped 300 files that say that they are NCCL, with a table of symbols of 100 MiB
each: to read them takes minutes. Another one cuts its file and lets it grow again all the time, so that a
reader by memory dies. A third one has line ends and escapes in names of its variables and loads a library
that has NCCL's functions. `attach --all` must record the job and end when it is told to, by --for and by
SIGTERM, and what the variables forge must not be in the capture. attach... BIN WORK
"""

import glob
import json
import mmap
import multiprocessing
import os
import shutil
import signal
import struct
import subprocess
import sys
import time

BIN, WORK = sys.argv[1:3]
if os.geteuid() != 0:
    print("needs root, to be two users and to attach")
    sys.exit(77)
HOSTILE = 200_000 + 2 * (os.getpid() % 1_000_000)
EXAMPLES = os.path.dirname(os.path.realpath(BIN + "/ncclscope")) + "/examples"
FILES = 300

FORGED = {
    "NCCL_A\nhost": "forged-host",
    "NCCL_B\nrank": "5",
    "NCCL_C\nlive": "/dev/shm/forged.live",
    "NCCL_D\ncommand": "forged-command",
    "NCCL_E": "\x1b[31mred",
}
started = []


def hostile(tells, folder, files, cut):
    """As another user: maps files that say that they are NCCL as code, until it is killed."""
    os.setgroups([])
    os.setgid(HOSTILE)
    os.setuid(HOSTILE)
    size = (100 << 20) // 24 * 24
    table, symbols = 4096, 1 << 20
    strings = symbols + size
    total = strings + 4096
    section = lambda name, kind, at, size, link, entry: struct.pack(
        "<IIQQQQIIQQ", name, kind, 0, 0, at, size, link, 1 if kind == 2 else 0, 8, entry
    )
    kept = []
    for number in range(files):
        os.mkdir(f"{folder}/{number}")
        fd = os.open(f"{folder}/{number}/libnccl.so.2", os.O_RDWR | os.O_CREAT, 0o755)
        head = b"\x7fELF" + bytes([2, 1, 1, 0]) + bytes(8)
        head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, table, 0, 64, 56, 1, 64, 4, 3)
        os.pwrite(fd, head, 0)
        os.pwrite(fd, struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 4096, 4096, 4096), 64)
        sections = section(1, 2, symbols, size, 2, 24) + section(9, 3, strings, 4096, 0, 0)
        os.pwrite(fd, bytes(64) + sections + section(17, 3, strings, 4096, 0, 0), table)
        names = b"\0.symtab\0.strtab\0.shstrtab\0ncclAllReduce\0NCCL version 2.32.3\0"
        os.pwrite(fd, names, strings)
        os.ftruncate(fd, total)
        code = mmap.PROT_READ | mmap.PROT_EXEC
        kept.append(mmap.mmap(fd, 4096, prot=code, flags=mmap.MAP_PRIVATE))
        if not cut:
            os.close(fd)
    tells.send("mapped")
    while cut:
        os.ftruncate(fd, 1 << 20)
        time.sleep(0.002)
        os.ftruncate(fd, total)
        time.sleep(0.01)
    time.sleep(3600)


def start(command, who=None, **more):
    user = dict(user=who, group=who, extra_groups=[]) if who else {}
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    started.append(subprocess.Popen(command, cwd=WORK, **user, **pipes, **more))
    return started[-1]


def tell(job, line):
    job.stdin.write(line + "\n")
    job.stdin.flush()
    return job.stdout.readline()


def attach(out, *arguments):
    command = [BIN + "/ncclscope", "attach", "--all", "--json", "-o", out, *arguments]
    return subprocess.Popen(command, cwd=WORK, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(out):
    until = time.monotonic() + 120
    while not any(name.endswith(".trace") for name in glob.glob(out + "/*/*")):
        if time.monotonic() > until:
            return
        tell(job, "loop 1 10")
        time.sleep(0.1)


try:
    for folder in (os.path.dirname(WORK), WORK):
        os.chmod(folder, 0o711)
    for name in ("many", "cut"):
        os.mkdir(name)
        os.chown(name, HOSTILE, HOSTILE)
    for name in ("honest", "forged"):
        os.mkdir(name)
        shutil.copy(EXAMPLES + "/libfake_nccl.so", name + "/libnccl.so.2")
    shutil.copy(EXAMPLES + "/fake_job", "fake_job")
    os.chmod("fake_job", 0o755)
    for arguments in (("many", FILES, False), ("cut", 1, True)):
        # Forked, because another user may not be able to start this Python.
        told, tells = multiprocessing.Pipe(duplex=False)
        started.append(multiprocessing.get_context("fork").Process(target=hostile, args=(tells, *arguments)))
        started[-1].start()
        assert told.recv() == "mapped"
    forger = start(["./fake_job", "forged/libnccl.so.2"], HOSTILE + 1, env={**os.environ, **FORGED})
    job = start(["./fake_job", "honest/libnccl.so.2"], env={**os.environ, "RANK": "0"})
    assert tell(job, "load").startswith("done") and tell(forger, "load").startswith("done")

    seen = attach("ended", "--for", "4s")
    wait_for("ended")
    tell(forger, "loop 1 10")
    text, said = seen.communicate(timeout=300)
    if seen.returncode == 2:
        print(f"no probes here: {said.splitlines()[-1]}")
        sys.exit(77)
    result = json.loads(text)
    calls = {p["pid"]: p for p in result["processes"]}
    assert job.pid in calls, f"the job is not recorded: {result} {said}"
    assert "were not read until now" in said, said
    assert "\x1b" not in text + said, repr(text + said)
    for name in glob.glob("ended/*/*.trace"):
        lines = open(name, "rb").read().split(b"\n")
        forged = [line for line in lines if line.startswith((b"host=forged", b"command=forged", b"live="))]
        assert not forged, forged

    told = attach("told")
    wait_for("told")
    told.send_signal(signal.SIGTERM)
    text, said = told.communicate(timeout=300)
    assert told.returncode == 0, (told.returncode, said)
    assert job.pid in {p["pid"] for p in json.loads(text)["processes"]}, text
    print(f"attach recorded the job beside {FILES} endless files, a file that is cut, and forged names")
finally:
    for process in started:
        process.kill()

#!/usr/bin/env python3
"""Another user of the machine takes names that a recording will need, before it begins.

These are the folders of live parts in /dev/shm and in TMPDIR, as folders, files and links, and the abstract
socket of the node sampler. All calls must be recorded, the line on stderr and doctor must say whose the name
is, nothing may be written into the other user's folder, and the node must be sampled. names... BIN WORK
"""

import glob
import json
import os
import shutil
import socket
import subprocess
import sys

BIN, WORK = sys.argv[1:3]
if os.geteuid() != 0:
    print("needs root, to be two users")
    sys.exit(77)
VICTIM = 200_000 + 2 * (os.getpid() % 1_000_000)
OTHER = VICTIM + 1
NAME = f"ncclscope-{VICTIM}"
TEMPORARY, TRAP = WORK + "/tmp", WORK + "/trap"
PLACES = ["/dev/shm/" + NAME, TEMPORARY + "/" + NAME]

# Both users come to the programs and to the work folder.
for folder in (os.path.dirname(WORK), WORK):
    os.chmod(folder, 0o711)
for folder in (TEMPORARY, WORK + "/out"):
    os.mkdir(folder)
    os.chmod(folder, 0o1777)
with open(WORK + "/job", "w") as file:
    file.write("ranks 2\nall_reduce 1KiB x200\n")


def victim(*command, **more):
    env = {name: value for name, value in os.environ.items() if not name.startswith("NCCL")}
    env.update(TMPDIR=TEMPORARY, HOME=TEMPORARY, NCCLSCOPE_TIMING="host", **more)
    who = dict(user=VICTIM, group=VICTIM, extra_groups=[])
    return subprocess.run(command, cwd=TEMPORARY, env=env, **who, capture_output=True, text=True)


def recorded(what, out, command=None):
    play = [BIN + "/fake-nccl", "play", WORK + "/job", "--fast"]
    done = victim(BIN + "/ncclscope", "run", "-o", out, "--", *(command or play), NCCLSCOPE_QUIET="1")
    assert done.returncode == 0, f"{what}: {done}"
    report = victim(BIN + "/ncclscope", "report", out, "--json")
    account = json.loads(report.stdout)["completeness"]
    assert (account["announced"], account["recorded"]) == (400, 400), f"{what}: {account} {done.stderr}"
    return done


def clear():
    for path in glob.glob("/dev/shm/" + NAME + "*") + glob.glob(TEMPORARY + "/" + NAME + "*"):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.remove(path)


def folder(path):
    os.mkdir(path)
    os.chmod(path, 0o777)


def file_(path):
    open(path, "w").close()


def link(path):
    os.symlink(TRAP, path)


try:
    os.mkdir(TRAP)
    os.chmod(TRAP, 0o777)
    os.chown(TRAP, OTHER, OTHER)
    done = recorded("nothing taken", WORK + "/out/free")
    assert "belongs to" not in done.stderr, done
    plays = 1
    for make in (folder, file_, link):
        for taken in (PLACES[:1], PLACES):
            clear()
            for path in taken:
                make(path)
                os.lchown(path, OTHER, OTHER)
            plays += 1
            what = f"{make.__name__} at {taken}"
            done = recorded(what, f"{WORK}/out/{plays}")
            assert f"belongs to another user (uid {OTHER})" in done.stderr, f"{what}: {done.stderr}"
            inside = [name for path in taken + [TRAP] if os.path.isdir(path) for name in os.listdir(path)]
            assert not inside, f"{what}: {inside}"
            doctor = victim(BIN + "/ncclscope", "doctor", "--json").stdout
            assert doctor.count(f"(uid {OTHER})") == len(taken), f"{what}: {doctor}"
    clear()

    # The sampler's name is that of the folder, so the same folder again has the same.
    out = WORK + "/out/sampled"
    names = f"grep -ao 'ncclscope-sampler-{VICTIM}-[0-9a-f]*' /proc/net/unix"
    play = f"{BIN}/fake-nccl play {WORK}/job --fast; {names}"
    name = recorded("to learn the name", out, ["sh", "-c", play]).stdout.split()[-1]
    assert name.startswith("ncclscope-sampler-"), name
    for listens in (True, False):
        shutil.rmtree(out)
        os.seteuid(OTHER)
        taken = socket.socket(socket.AF_UNIX)
        taken.bind("\0" + name)
        if listens:
            taken.listen(1)
        os.seteuid(0)
        recorded(f"its name is taken, {listens}", out)
        assert glob.glob(out + "/*/*.samples"), f"not sampled: {os.listdir(out)}"
        taken.close()
        plays += 1
    print(f"{plays} recordings lost none of 400 calls, and said whose the name was")
finally:
    clear()

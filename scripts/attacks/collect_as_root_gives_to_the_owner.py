#!/usr/bin/env python3
"""Root collects a user's capture, as in the epilog of a batch system. BIN WORK

What is adopted belongs to the user, who sees every call. And what the user prepares makes root change nothing
elsewhere. Needs root, and a machine on which other users can run the programs.
"""

import glob
import json
import os
import signal
import subprocess
import sys

BIN, WORK = sys.argv[1:3]
USER = 61_234

if os.geteuid() != 0:
    print("skipped: only root can collect for others")
    sys.exit(77)
os.chmod(WORK, 0o755)
os.chmod(os.path.dirname(WORK), 0o755)
home = WORK + "/home"
os.mkdir(home)
os.chown(home, USER, USER)


def as_user(*command, **more):
    return subprocess.run(
        command, user=USER, group=USER, extra_groups=[], cwd=home, capture_output=True, text=True, **more
    )


try:
    able = as_user(BIN + "/ncclscope", "--version").returncode == 0
except PermissionError:
    able = False
if not able:
    print("skipped: other users can't run the programs in this checkout")
    sys.exit(77)


def play(out):
    with open(home + "/job", "w") as file:
        file.write("ranks 2\nall_reduce 1KiB x30\nrank 0..1 kill\n")
    plugin = BIN + "/libnccl-profiler-ncclscope.so"
    settings = dict(NCCLSCOPE_OUT=out, NCCLSCOPE_QUIET="1", NCCLSCOPE_TIMING="host", NCCLSCOPE_FLUSH="3600")
    command = [BIN + "/fake-nccl", "play", home + "/job", "--fast", "--plugin", plugin]
    return as_user(*command, env=dict(os.environ, **settings))


def counts(user):
    command = [BIN + "/ncclscope", "report", home + "/c", "--json"]
    done = as_user(*command) if user else subprocess.run(command, capture_output=True, text=True)
    found = json.loads(done.stdout)["completeness"]
    return found["announced"], found["recorded"]


played = play(home + "/c")
assert len(glob.glob(home + "/c/*/*.trace")) == 2, played
done = subprocess.run([BIN + "/ncclscope", "collect", home + "/c"], capture_output=True, text=True)
adopted = glob.glob(home + "/c/*/*.live")
assert done.returncode == 0 and len(adopted) == 2, done
for file in adopted + glob.glob(home + "/c/*"):
    assert os.stat(file).st_uid == USER, f"{file} belongs to {os.stat(file).st_uid}"
assert counts(user=True) == counts(user=False) == (60, 60), (counts(True), counts(False))
again = as_user(BIN + "/ncclscope", "collect", home + "/c")
assert (again.returncode, again.stdout) == (0, ""), again

# Into a folder that only root may write to: nothing comes there with the user's rights, and a line says why.
os.mkdir(WORK + "/only-root", 0o700)
into = [BIN + "/ncclscope", "collect", home + "/c", "--into", WORK + "/only-root/c"]
done = subprocess.run(into, capture_output=True, text=True)
assert done.returncode == 1 and f"belongs to user {USER}" in done.stderr, done
assert os.listdir(WORK + "/only-root") == [], done

# A part that cannot be read is an error, and nothing says that there was no call.
for file in adopted:
    os.chown(file, 0, 0)
for file in glob.glob(home + "/c/*/*.snap"):
    os.remove(file)
refused = as_user(BIN + "/ncclscope", "collect", home + "/c")
assert refused.returncode == 1 and "can't be read" in refused.stderr, refused
report = as_user(BIN + "/ncclscope", "report", home + "/c").stdout
assert "made no NCCL call" not in report and "not known" in report, report

# The host's folder is a link into root's own.
play(home + "/d")
host = glob.glob(home + "/d/*/")[0].rstrip("/")
elsewhere = WORK + "/of-root"
os.mkdir(elsewhere, 0o700)
os.rename(host, home + "/moved")
as_user("ln", "-s", elsewhere, host)
done = subprocess.run([BIN + "/ncclscope", "collect", home + "/d"], capture_output=True, text=True)
assert os.listdir(elsewhere) == [], (os.listdir(elsewhere), done)
for file in glob.glob(f"/dev/shm/ncclscope-{USER}/*"):
    os.remove(file)
os.rmdir(f"/dev/shm/ncclscope-{USER}")
print("60 of 60 calls for the owner and for root, 2 adopted parts are the owner's, nothing is root's")

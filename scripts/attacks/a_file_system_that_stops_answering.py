#!/usr/bin/env python3
"""A file system stops answering: the capture folder's while a job runs, and that of a library in a process
that root attaches to.

The job's own thread must come to its end in either case, with every call in the capture once the file system
answers. Jobs into other folders must not notice, also if a killed job has left something there. `attach`
must record a job that begins later, and end when it is told to. The file system is bindfs, which is stopped
and goes on. a_file_system... BIN WORK
"""

import glob
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

BIN, WORK = sys.argv[1:3]
if os.geteuid() != 0 or not shutil.which("bindfs") or not os.path.exists("/dev/fuse"):
    print("needs root, bindfs and /dev/fuse")
    sys.exit(77)
EXAMPLES = os.path.dirname(os.path.realpath(BIN + "/ncclscope")) + "/examples"
ROUNDS, RANKS, CALLS = 4, 2, 3000
SCRIPT = f"nccl 2.28.9\nranks {RANKS}\nrepeat {CALLS} {{ all_reduce 1KiB\n sleep 1ms }}\n"
started = []


def start(command, **more):
    started.append(subprocess.Popen(command, cwd=WORK, text=True, **more))
    return started[-1]


def until(done, seconds=60):
    """Whether this came true."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def state(pid):
    """The letter for what a process's first thread does; none if the process is gone."""
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1][0]
    except OSError:
        return ""


def below(pid):
    tasks = glob.glob(f"/proc/{pid}/task/*/children")
    found = [int(child) for task in tasks for child in open(task).read().split()]
    return found + [further for child in found for further in below(child)]


def mount():
    for name in ("behind", "mounted"):
        os.mkdir(name)
    server = start(["bindfs", "-f", "behind", "mounted"])
    assert until(lambda: os.path.ismount("mounted")), "bindfs did not mount"
    return server


def stop(server):
    server.send_signal(signal.SIGSTOP)
    assert until(lambda: state(server.pid) == "T"), "bindfs goes on"


def play_into(out):
    """A job that records into this folder, once each of its ranks has begun to."""
    environment = {
        **os.environ,
        "NCCLSCOPE_OUT": f"{WORK}/{out}",
        "NCCL_PROFILER_PLUGIN": BIN + "/libnccl-profiler-ncclscope.so",
    }
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    job = start([BIN + "/fake-nccl", "play", "-"], env=environment, **pipes)
    job.stdin.write(SCRIPT)
    job.stdin.close()
    assert until(lambda: len(glob.glob(out + "/*/*.trace")) == RANKS), "the job made no trace"
    return job


def jobs_end(server):
    """Plays jobs into the file system; how many ranks were kept as zombies until it answered."""
    kept = 0
    for number in range(ROUNDS):
        out = f"mounted/{number}"
        job = play_into(out)
        ranks = below(job.pid)
        time.sleep(random.random())
        stop(server)
        ended = until(lambda: all(state(pid) in ("", "Z") for pid in ranks), 120)
        left = [pid for pid in ranks if state(pid)]
        kept += len(left)
        assert ended, f"a rank goes on for ever: {[(pid, state(pid)) for pid in left]}"
        server.send_signal(signal.SIGCONT)
        assert until(lambda: job.poll() is not None), "the job is there after the file system answered"
        assert job.returncode == 0, job.returncode
        report = subprocess.run(
            [BIN + "/ncclscope", "report", out, "--json"], capture_output=True, text=True, check=True
        )
        told = json.loads(report.stdout)["completeness"]
        figures = told["announced"], told["recorded"], sum(told["lost"].values())
        assert figures == (RANKS * CALLS, RANKS * CALLS, 0), figures
    return kept


def others_go_on(server):
    """A job is killed, and its file system stops: jobs into other folders must not wait for it."""
    job = play_into("mounted/killed")
    for pid in [job.pid, *below(job.pid)]:
        os.kill(pid, signal.SIGKILL)
    job.wait()
    stop(server)
    os.mkdir("local")
    for command in (["run", "-o", "local", "--", "true"], ["collect", "local"]):
        other = start([BIN + "/ncclscope", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if not until(lambda: other.poll() is not None):
            other.kill()
            raise AssertionError(f"`ncclscope {command[0]}` waits for the file system of another job")
    server.send_signal(signal.SIGCONT)


def attach_ends(server):
    """Attaches beside a process whose library can't be read."""
    os.mkdir("behind/library")
    os.mkdir("library")
    for folder in ("behind/library", "library"):
        shutil.copy(EXAMPLES + "/libfake_nccl.so", folder + "/libnccl.so.2")
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def tell(job, line):
        job.stdin.write(line + "\n")
        job.stdin.flush()
        return job.stdout.readline()

    program = EXAMPLES + "/fake_job"
    silent = start([program, "mounted/library/libnccl.so.2"], **pipes)
    assert tell(silent, "load").startswith("done")
    stop(server)
    command = [BIN + "/ncclscope", "attach", "--all", "--json", "-o", "attached"]
    seen = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(3)
    if seen.poll() == 2:
        return f"attach has no probes here ({seen.stderr.read().splitlines()[-1]})"
    job = start([program, "library/libnccl.so.2"], **pipes)
    assert tell(job, "load").startswith("done")

    def is_recorded():
        tell(job, "loop 1 10")
        return bool(glob.glob("attached/*/*.trace"))

    recorded = until(is_recorded, 120)
    seen.send_signal(signal.SIGTERM)
    ended = until(lambda: state(seen.pid) in ("", "Z"), 120)
    server.send_signal(signal.SIGCONT)
    text, said = seen.communicate(timeout=60)
    assert ended, "attach does not end while the file system does not answer"
    assert recorded and job.pid in {p["pid"] for p in json.loads(text)["processes"]}, (text, said)
    # What was asked for before may have been read, if the kernel had it in memory.
    unread = [line for line in said.splitlines() if "wait for these" in line]
    assert len(unread) <= 1, said
    return "attach recorded a job beside a library that could not be read"


server = None
try:
    server = mount()
    kept = jobs_end(server)
    others_go_on(server)
    attached = attach_ends(server)
    print(
        f"{ROUNDS * RANKS} ranks came to their ends, {kept} stayed as zombies until the file system "
        f"answered, no call is missing; another job did not wait for it; {attached}"
    )
finally:
    for process in started:
        if process is not server:
            process.kill()
    if server:
        server.send_signal(signal.SIGCONT)
        subprocess.run(["umount", "-l", "mounted"], cwd=WORK)
        server.kill()

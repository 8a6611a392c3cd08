#!/usr/bin/env python3
"""Captures with very many communicators, graphs, names, kinds of calls, and ranks: each of two sizes.

Of twice as many things, readers may need twice the memory and processor time: with squares, a small capture
would fill the machine. captures... BIN WORK
"""

import os
import resource
import subprocess
import sys

BIN, WORK = sys.argv[1:3]
# Readers that need time in proportion need four times as much of four times as many, and with squares
# sixteen times. Between the two is enough room for a busy machine, because this is processor time.
MORE, MOST = 4, 9.0


def lines(n, line):
    return "".join(line.format(n=n) for n in range(n))


KINDS = {
    "communicators": (
        700,
        lambda n: f"ranks 2\ncomm a ranks 0..1\nrepeat {n} {{ all_reduce 1KiB comm=a ; reinit a }}\n",
    ),
    "names of communicators": (
        200,
        lambda n: "ranks 2\n"
        + lines(n, 'comm c{n} ranks 0..1 name "group {n}"\n')
        + lines(n, "all_reduce 1KiB comm=c{n}\n"),
    ),
    "graphs": (
        200,
        lambda n: "ranks 2\n" + lines(n, "graph g{n} {{ all_reduce 1KiB x3 }}\nreplay g{n} x2\n"),
    ),
    "sizes": (700, lambda n: "ranks 2\n" + lines(n, "all_reduce {n}4B\n")),
    "ranks": (60, lambda n: f"ranks {n}\nall_reduce 1KiB x20\n"),
}


def spent(command):
    """Processor time of a command in seconds, and its memory at most in KiB."""
    output = subprocess.DEVNULL
    child = subprocess.Popen(command, env=ENV, stdout=output, stderr=subprocess.PIPE)
    said = child.stderr.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode in (0, 2), f"{command}: {child.returncode} {said}"
    return used.ru_utime + used.ru_stime, used.ru_maxrss


ENV = {name: value for name, value in os.environ.items() if not name.startswith("NCCL")}
ENV.update(NCCLSCOPE_TIMING="stamps", NCCLSCOPE_QUIET="1")
resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
said = []
for number, (kind, (n, script)) in enumerate(KINDS.items()):
    figures = []
    for size in (n, MORE * n):
        job, out = f"{WORK}/{number}.{size}.job", f"{WORK}/{number}.{size}"
        with open(job, "w") as file:
            file.write(script(size))
        play = [BIN + "/fake-nccl", "play", job, "--fast", "--ranks-in-process"]
        play += ["--plugin", BIN + "/libnccl-profiler-ncclscope.so"]
        done = subprocess.run(play, env={**ENV, "NCCLSCOPE_OUT": out}, capture_output=True, text=True)
        assert done.returncode == 0, f"{size} {kind}: {done}"
        verbs = {
            "report": ["report", out],
            "page": ["report", out, "--html", f"{out}.html"],
            "hang": ["hang", out],
            "export": ["export", out, "--to", "chrome", "-o", f"{out}.json.gz"],
        }
        figures.append({verb: spent([BIN + "/ncclscope", *words]) for verb, words in verbs.items()})
    for verb in figures[0]:
        (small, memory), (large, more) = figures[0][verb], figures[1][verb]
        growth = (large / max(small, 0.05), more / memory)
        assert max(growth) < MOST, f"{verb} of {n} and {MORE * n} {kind}: {figures}"
        said.append((max(growth), f"{verb} of {MORE * n} {kind}"))
most, what = max(said)
print(f"of {MORE} times as many things, {len(said)} readings took {most:.1f} times as much at most ({what})")

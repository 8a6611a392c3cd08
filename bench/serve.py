#!/usr/bin/env python3
"""What `ncclscope serve` costs beside a job of many ranks: bench/serve.py [RANKS [SECONDS [RATE]]]

Plays a job with a process for each rank on this machine, each with so many calls a second, and serves it
with the release build. Scrapes the metrics each second, as Prometheus would. Prints how long a scrape takes,
how large a page is and how many series it has, and which CPU time and memory `serve` took. `BUILD=debug`
takes the debug build.
"""

from __future__ import annotations

import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILT = ROOT / "target" / os.environ.get("BUILD", "release")


def spread(values: list[float], digits: int = 1) -> str:
    """Median, least and most."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def cpu_s(pid: int) -> float:
    """CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid: int) -> float:
    """The most memory that a process had."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found.group(1)) / 1024 if found else 0.0


def main() -> None:
    ranks, seconds, rate = (int(a) for a in [*sys.argv[1:], *["1000", "60", "10"][len(sys.argv) - 1 :]])
    plugins = [BUILT / name for name in ("libnccl-profiler-ncclscope.so", "libnccl_profiler_ncclscope.so")]
    plugin = next(path for path in plugins if path.exists())
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_FOLDER")) as place:
        script, capture = Path(place, "job"), Path(place, "capture")
        calls = "repeat 100000 { all_reduce 64MiB x4 ; all_gather 1MiB x4 ; broadcast 64B }"
        script.write_text(f"ranks {ranks}\nrate {rate}/s\n{calls}\n")
        env = {**os.environ, "NCCLSCOPE_OUT": str(capture), "NCCLSCOPE_QUIET": "1"}
        job = subprocess.Popen(
            [BUILT / "fake-nccl", "play", script, "--plugin", plugin],
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        serve = None
        try:
            while len(list(capture.glob("*/*.trace"))) < ranks:
                assert job.poll() is None, "the job has ended"
                time.sleep(0.5)
            command = [BUILT / "ncclscope", "serve", capture, "--listen", "127.0.0.1:0"]
            serve = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            assert serve.stderr is not None
            address = re.search(r"http://\S+", serve.stderr.readline())
            assert address, "it does not serve"
            took, sizes, series = [], [], []
            begun, used = time.monotonic(), cpu_s(serve.pid)
            while time.monotonic() - begun < seconds:
                before = time.monotonic()
                with urllib.request.urlopen(address.group()) as answer:
                    page = answer.read()
                took.append((time.monotonic() - before) * 1e3)
                sizes.append(len(page) / (1 << 20))
                series.append(sum(not line.startswith(b"#") for line in page.splitlines()))
                time.sleep(max(0.0, 1.0 - (time.monotonic() - before)))
            wall, used = time.monotonic() - begun, cpu_s(serve.pid) - used
            print(f"{ranks} ranks with {rate} calls a second each, {len(took)} scrapes in {wall:.0f} s")
            print(f"a scrape: {spread(took)} ms, {spread(sizes, 2)} MiB, {max(series)} samples")
            print(f"serve: {100 * used / wall:.1f} % of one CPU, {peak_mib(serve.pid):.0f} MiB at most")
        finally:
            if serve:
                serve.kill()
                serve.wait()
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()


main()

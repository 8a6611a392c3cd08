#!/usr/bin/env python3
"""How much time and memory each reader takes, by ranks and by calls.

    cargo build --release -p ncclscope -p ncclscope-tables --bins --examples
    bench/readers.py                          # all; 2 GB of disk, and more than an hour
    bench/readers.py --sizes 100x1000 1000x1000 --verbs report hang

Captures are made up (`synthesize`), without a GPU: RANKSxCALLS, with host times or with GPU stamps. `read` is
what the process read from files, and `written` its output. Two runs each: the faster one, and the largest
peak. A verb that fails, or takes more than --limit seconds, says so.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
SIZES = ["100x1000", "1000x1000", "10000x1000", "8x1250000", "8x12500000"]


def verbs(capture, out):
    """Command lines by name. What they write goes into the folder `out`."""
    scope = str(BUILT / "ncclscope")
    return {
        "report": [scope, "report", capture],
        "json": [scope, "report", "--json", capture],
        "html": [scope, "report", "--html", f"{out}/page.html", capture],
        "hang": [scope, "hang", capture],
        "diff": [scope, "diff", capture, capture],
        "parquet": [scope, "export", "--to", "parquet", "-o", f"{out}/calls.parquet", capture],
        "perfetto": [scope, "export", "--to", "perfetto", "-o", f"{out}/trace.pftrace", capture],
    }


def run(command, limit):
    """Wall and CPU seconds, peak MiB, MiB read; or why there are none."""
    start = time.monotonic()
    with open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere)
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() - start > limit:
            process.kill()
            process.wait()
            return f"more than {limit} s"
        time.sleep(0.01)
    wall = time.monotonic() - start
    io = dict(line.split(": ") for line in Path(f"/proc/{process.pid}/io").read_text().splitlines())
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) < 0:
        return f"ended by signal {-os.waitstatus_to_exitcode(status)}"
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, int(io["rchar"]) / 2**20


def size_of(folder):
    """MiB of the files in a folder."""
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="RANKSxCALLS")
    parser.add_argument("--timing", nargs="+", default=["host", "stamps"], choices=["host", "stamps"])
    parser.add_argument("--verbs", nargs="+", default=list(verbs("", "")))
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=300)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    args = parser.parse_args()
    print("| capture | MiB | verb | wall s | CPU s | peak MiB | read MiB | written MiB |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="ncclscope-readers.", dir=args.folder) as folder:
        for size in args.sizes:
            ranks, calls = size.split("x")
            for timing in args.timing:
                capture, out = f"{folder}/capture", f"{folder}/out"
                subprocess.run([BUILT / "examples/synthesize", capture, ranks, calls, timing], check=True)
                for verb in args.verbs:
                    best = None
                    for _ in range(args.runs):
                        shutil.rmtree(out, ignore_errors=True)
                        os.mkdir(out)
                        found = run(verbs(capture, out)[verb], args.limit)
                        if isinstance(found, str):
                            best = found
                            break
                        peak = max(found[2], best[2]) if best else found[2]
                        best = min(found, best or found)
                        best = (*best[:2], peak, best[3])
                    name = f"{ranks} x {calls}, {timing} | {size_of(capture):.0f} | {verb}"
                    if isinstance(best, str):
                        print(f"| {name} | {best} | | | | |", flush=True)
                        continue
                    wall, cpu, peak, read = best
                    print(
                        f"| {name} | {wall:.2f} | {cpu:.2f} | {peak:.0f} | {read:.0f} | {size_of(out):.1f} |",
                        flush=True,
                    )
                shutil.rmtree(capture)


if __name__ == "__main__":
    sys.exit(main())

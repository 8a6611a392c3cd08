#!/usr/bin/env python3
"""All figures that need many ranks, on this host's GPUs: one table for each part, in Markdown.

    bench/gpu/eight.py OUT [PART…]       # parts: judge ends cost losses bench; default: all

    NCCLS       libnccl.so.2 of other releases, or packed as .so.xz, with colons between
    PROFILERS   folder with libnccl-profiler-inspector.so, if it shall be judged too
    NCCL_TESTS  nccl-tests' build folder, for `bench`
    RANKS       default: one per GPU. More share GPUs, with NCCL_MULTI_RANK_GPU_ENABLE=1 (NCCL 2.30 and later)
                and CUDA's MPS; `judge` and `bench` then have only the GPUs

judge   completeness, accuracy and overhead of ncclscope with host times, the default and stamps, and of NCCL
        Inspector, for each NCCL; floods of 1 KiB and 1 MiB, graphs, single calls; what each type of event
        costs under an empty plugin, on one host and on two simulated ones
ends    `kill -9` of one rank in a flood, and hangs of every kind: what `hang` says of each
cost    steps of DDP, FSDP2 and tensor × data parallel without a profiler, with the default and with stamps,
        in turns; beside that what the report itself says that recording cost
losses  a late host, a busier GPU and a slow link in six shapes: what reports tell beside the truth
bench   `ncclscope bench` beside nccl-tests

Needs torch, and `make` first. ROUNDS (2) is how often things alternate. NVLink multicast is off. A part ends
after LIMIT seconds (540), and says what it had no time for.
"""

import collections
import glob
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SCOPE = os.environ.get("NCCLSCOPE", os.path.join(ROOT, "target/release/ncclscope"))
ROUNDS = int(os.environ.get("ROUNDS", 2))
GPUS = len(glob.glob("/proc/driver/nvidia/gpus/*"))
RANKS = int(os.environ.get("RANKS", GPUS))
BEGAN = time.monotonic()
# Two-sided 97.5 % points of Student's t for 1 to 10 degrees of freedom.
STUDENT = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228]


def left():
    return float(os.environ.get("LIMIT", 540)) - (time.monotonic() - BEGAN)


def run(command, limit=90, environment=None, log=None):
    """Output and exit status of a command; it has no more time than there is."""
    limit = min(limit, max(1, left()))
    variables = os.environ | {"NCCL_NVLS_ENABLE": "0"} | (environment or {})
    done = subprocess.run(
        ["timeout", "-k", "5", str(limit), *map(str, command)],
        env=variables,
        stdout=subprocess.PIPE,
        stderr=open(log, "w") if log else subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
    )
    return done.stdout, done.returncode


def table(heads, rows):
    print("\n| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


def out_of_time(what):
    if left() > 30:
        return False
    print(f"\nno time was left for: {what}")
    return True


def jobs(out, lines, recorded):
    """Runs lines of a plan one by one, and returns the results by name. What `recorded` names has a capture
    in OUT/NAME, with these variables."""
    results = {}
    for name, words in lines:
        if out_of_time(name):
            break
        command = [sys.executable, os.path.join(HERE, "jobs.py"), *words.split(), "--ranks", str(RANKS)]
        if name in recorded:
            command = [SCOPE, "run", "-o", f"{out}/{name}", "--", *command]
        said, status = run(command, environment=recorded.get(name), log=f"{out}/{name}.err")
        try:
            results[name] = json.loads(said.strip().splitlines()[-1])
        except (ValueError, IndexError):
            print(f"\n{name} ended with {status}; see {out}/{name}.err")
    return results


def report(capture):
    said, _ = run([SCOPE, "report", "--json", capture])
    return json.loads(said) if said else {}


# ------------------------------------------------------------------------------------------------ parts


def judge(out):
    plugins = []
    for name, variables in ("host", "NCCLSCOPE_TIMING=host"), ("stamps", "NCCLSCOPE_TIMING=stamps"):
        plugins += ["--plugin", f"{name}=,{variables}"]
    inspector = os.path.join(os.environ.get("PROFILERS", ""), "libnccl-profiler-inspector.so")
    if os.path.exists(inspector):
        plugins += [
            "--plugin",
            f"inspector={os.path.abspath(inspector)},NCCL_INSPECTOR_ENABLE=1,"
            "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS=500,NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES=0",
        ]
    libraries = [None, *filter(None, os.environ.get("NCCLS", "").split(":"))]
    for library in libraries:
        if out_of_time(f"judge with {library}"):
            return
        which = []
        if library:
            path, _ = run([sys.executable, f"{HERE}/nccl_calls.py", "unpack", "--nccl", library])
            which = ["--nccl", path.strip()]
        name = os.path.basename(library or "default")
        print(f"\n## judge, NCCL {name}")
        said, _ = run(
            [SCOPE, "judge", "--work", "bench", "--pairs", ROUNDS, "--seed", 1, "--timeout", 60]
            + ["--case", "single,back-to-back,graph", "--json", f"{out}/judge.{name}.json", *plugins, "--"]
            + ["all_reduce,sendrecv", "--sizes", "1K,1M", "--gpus", GPUS, "-n", 200, "-w", 20, *which],
            limit=160,
            log=f"{out}/judge.{name}.err",
        )
        print(said)
    for hosts in 1, 2:
        if out_of_time(f"the cost of events on {hosts} hosts"):
            return
        print(f"\n## what each type of event costs, {hosts} host(s)")
        said, _ = run(
            [SCOPE, "judge", "--work", "bench", "--pairs", ROUNDS, "--seed", 1, "--case", "back-to-back"]
            + ["--mask-bits", "--", "sendrecv,all_reduce", "--sizes", "64", "--gpus", GPUS]
            + ["--hostid-per", GPUS // hosts, "-n", 2000, "-w", 20],
            limit=150,
            log=f"{out}/mask.{hosts}.err",
        )
        print(said)


def ends(out):
    print("\n## ends")
    rows = []
    killed = f"{out}/killed"
    run(
        [SCOPE, "run", "-o", killed, "--", sys.executable, f"{HERE}/nccl_calls.py", "flood"]
        + ["--ranks", RANKS, "--calls", 4000, "--kill-rank", RANKS - 1, "--kill-after", 3000],
        log=f"{killed}.err",
    )
    rows.append(["kill -9 in a flood", RANKS - 1, first(run([SCOPE, "hang", killed])[0])])
    for number, wrong in enumerate(
        ["stopped", "killed", "left", "loop", "kernel", "size", "order", "skip"]
    ):
        if out_of_time(f"the hang {wrong}"):
            break
        rank = (3 * number + 1) % RANKS
        capture, log = f"{out}/{wrong}", f"{out}/{wrong}.err"
        words = f"ddp --ranks {RANKS} --layers 4 --steps 100000 --wrong {wrong} --wrong-rank {rank}".split()
        job = subprocess.Popen(
            [SCOPE, "run", "-o", capture, "--", sys.executable, f"{HERE}/jobs.py", *words],
            env=os.environ | {"NCCL_NVLS_ENABLE": "0"},
            stdout=subprocess.DEVNULL,
            stderr=open(log, "w"),
            cwd=ROOT,
        )
        until = time.monotonic() + 60
        while "goes wrong now" not in open(log).read() and time.monotonic() < until:
            time.sleep(0.5)
        time.sleep(9)
        said, status = run([SCOPE, "hang", capture, "--after", "5s"], limit=20)
        rows.append([wrong, rank, f"{first(said)} (exit status {status})"])
        subprocess.run(["pkill", "-KILL", "-f", f"{HERE}/jobs.py"])
        job.wait()
    table(["what", "rank", "hang says"], rows)


def first(text):
    """The first sentence of a page."""
    return " ".join(text.split("\n\n")[0].split())[:300]


def cost(out):
    print("\n## cost of recording")
    shapes = {
        "ddp": "ddp --batch 16 --steps 60",
        "fsdp2": "fsdp2 --batch 16 --steps 50",
        "grid": "grid --steps 800",
    }
    how = {"none": None, "auto": {}, "stamps": {"NCCLSCOPE_TIMING": "stamps"}}
    lines, recorded = [], {}
    for turn in range(ROUNDS):
        for shape, words in shapes.items():
            # The order goes round, so that none is always the first.
            for kind in list(how)[turn % 3 :] + list(how)[: turn % 3]:
                lines.append((f"{shape}.{kind}.{turn}", words))
                if how[kind] is not None:
                    recorded[lines[-1][0]] = how[kind]
    results = jobs(out, lines, recorded)
    rows = []
    for shape in shapes:
        for kind in "auto", "stamps":
            ratios = [
                results[f"{shape}.{kind}.{turn}"]["step_ms"] / results[f"{shape}.none.{turn}"]["step_ms"]
                for turn in range(ROUNDS)
                if f"{shape}.{kind}.{turn}" in results and f"{shape}.none.{turn}" in results
            ]
            if not ratios:
                continue
            page, _ = run([SCOPE, "report", f"{out}/{shape}.{kind}.0"])
            told = re.search(r"Recording cost this job: (.*?)\.\n", page, re.DOTALL)
            told = " ".join(told[1].split()) if told else "-"
            rows.append([shape, kind, len(ratios), interval(ratios), told])
    table(["shape", "times", "pairs", "step, to that without", "the first report says"], rows)


def interval(ratios):
    """Geometric mean with its 95 % interval, by Student's t of the logarithms."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return f"{math.exp(mean):.4f}"
    half = STUDENT[min(len(logs), 11) - 2] * statistics.stdev(logs) / math.sqrt(len(logs))
    return f"{math.exp(mean):.4f} [{math.exp(mean - half):.4f}, {math.exp(mean + half):.4f}]"


def losses(out):
    print("\n## what a straggler costs")
    link = f"{out}/slow_link.so"
    run(["cc", "-O2", "-shared", "-fPIC", "-o", link, f"{HERE}/slow_link.c", "-ldl", "-lpthread"])
    shapes = {
        "ddp": ("ddp --batch 16 --steps 120", 8),
        "fsdp2": ("fsdp2 --batch 16 --steps 80", 12),
        "tensor": ("tensor --steps 5000 --width 2048", 0.2),
        "pipeline": ("pipeline --steps 60", 2),
        "grid": ("grid --steps 1000 --layers 8", 2),
        "compiled": ("compiled --steps 4000", 0.3),
    }
    lines = []
    for number, (shape, (words, slow)) in enumerate(shapes.items()):
        rank = (3 * number + 1) % RANKS
        lines.append((f"{shape}_plain", words))
        for on in "host", "gpu":
            lines.append((f"{shape}_{on}", f"{words} --slow-rank {rank} --slow-ms {slow} --slow-on {on}"))
    hosts = "ddp --batch 4 --steps 40 --hosts 2"
    lines += [("link_plain", hosts), ("link_slow", f"{hosts} --slow-link {link} --link-rank {RANKS - 1}")]
    recorded = collections.defaultdict(dict, {name: {} for name, _ in lines})
    recorded["link_slow"] = {"SLOW_LINK_MBPS": "300"}
    results = jobs(out, lines, recorded)
    with open(f"{out}/results", "w") as file:
        for name, result in results.items():
            print(name, json.dumps(result), file=file)
    said, _ = run([sys.executable, f"{ROOT}/bench/losses.py", f"{out}/results", out, SCOPE])
    print("\n" + said)
    if "link_slow" in results:
        verdict = first(run([SCOPE, "report", f"{out}/link_slow"])[0])
        lost = (results["link_slow"]["step_ms"] - results["link_plain"]["step_ms"]) * 45 / 1e3
        print(f"Slow link from rank {RANKS - 1}: {lost:.2f} s lost. {verdict}")


def bench(out):
    print("\n## bench beside nccl-tests")
    variables = {"RANKS": str(GPUS), "ROUNDS": str(max(6, ROUNDS)), "ITERS": "500", "LARGE_ITERS": "10"}
    said, _ = run(
        [f"{HERE}/bench.sh", f"{out}/bench"], limit=left(), environment=variables, log=f"{out}/bench.err"
    )
    print(said)


PARTS = {"judge": judge, "ends": ends, "cost": cost, "losses": losses, "bench": bench}


def main():
    global BEGAN
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    out, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:] or list(PARTS)
    if unknown := [part for part in wanted if part not in PARTS]:
        sys.exit(f"{unknown[0]}: expected one of {' '.join(PARTS)}")
    if not GPUS:
        sys.exit("there is no NVIDIA GPU here")
    print(f"{GPUS} GPUs, {RANKS} ranks, {ROUNDS} rounds")
    for part in wanted:
        BEGAN = time.monotonic()
        folder = os.path.join(out, part)
        os.makedirs(folder, exist_ok=True)
        PARTS[part](folder)


if __name__ == "__main__":
    main()

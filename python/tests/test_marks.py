"""The program's own steps and phases. Its process makes calls as NCCL does (``own_nccl.py``)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from conftest import run

import ncclscope

HERE = Path(__file__).parent

# Sixty steps of three or four calls in turn, and an evaluation after each twentieth.
LOOP = f"""
import os, signal, sys, time
sys.path.insert(0, {str(HERE)!r})
import ncclscope
from own_nccl import Nccl

nccl = Nccl(ncclscope.plugin_path(), rank=0)
def batch(number):
    for part in range(3 + number % 2):
        nccl.all_reduce(1000 * (part + 1))
        time.sleep(0.001)
def evaluate():
    for _ in range(5):
        nccl.all_reduce(77)
    time.sleep(0.02)
"""
TRAIN = """
for number in range(60):
    with ncclscope.step(1000 + number):
        batch(number)
    if number % 20 == 19:
        with ncclscope.phase("eval"):
            evaluate()
"""


def program(text: str, folder: Path, *, recorded: bool = True, status: int = 0) -> str:
    """Runs a program in `folder`, and returns what it prints."""
    others = ("NCCL_", "NCCLSCOPE_RUN", "NCCLSCOPE_OUT")
    env = {k: v for k, v in os.environ.items() if not k.startswith(others)}
    env |= {"NCCLSCOPE_QUIET": "1", "RANK": "0"}
    if recorded:
        env["NCCLSCOPE_OUT"] = str(folder / "capture")
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=folder, env=env, text=True, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (status, "")
    return done.stdout


def test_the_report_has_the_program_s_steps(tmp_path: Path) -> None:
    program(LOOP + TRAIN + "nccl.close()\n", tmp_path)
    report = ncclscope.open(tmp_path / "capture").report()
    steps = report.steps
    assert steps is not None and steps.source == "program"
    # By the calls alone there are 30 steps, of seven calls each.
    assert steps.rows[0].source == "program"
    assert (steps.rows[0].steps, steps.rows[0].calls) == (60, 4)
    assert [(phase.name, phase.longest_rank) for phase in report.phases] == [("eval", 0)]
    eval_ = report.phases[0]
    assert eval_.visits is not None and eval_.calls is not None and eval_.time_us is not None
    assert (eval_.visits.median, eval_.calls.median) == (3, 15)
    assert eval_.time_us.median >= 60_000
    # Nothing of an evaluation is in a step: the longest is not as long as one.
    assert steps.between_us is not None and steps.between_us.median >= 40_000
    text = str(report)
    assert "Steps (as the program marked them)" in text and "\n  60 steps of 4 calls on the only rank" in text
    assert "Phases (as the program marked them" in text
    assert report.problems == []


def test_steps_without_with_end_at_the_next(tmp_path: Path) -> None:
    train = "for number in range(20):\n    ncclscope.step()\n    batch(number)\n"
    program(LOOP + train + "nccl.close()\n", tmp_path)
    (file,) = (tmp_path / "capture").rglob("*.marks")
    marks = [json.loads(line) for line in file.read_text().splitlines()[1:]]
    assert [mark[:2] for mark in marks] == [["step", number] for number in range(20)]
    assert all(one[3] <= next_[2] for one, next_ in zip(marks, marks[1:]))
    assert (file.stat().st_mode & 0o777, file.with_suffix(".trace").exists()) == (0o600, True)


def test_a_killed_program_keeps_what_is_a_second_old(tmp_path: Path) -> None:
    kill = "time.sleep(1.5)\nncclscope.step()\nos.kill(os.getpid(), signal.SIGKILL)\n"
    program(LOOP + TRAIN + kill, tmp_path, status=-9)
    run("ncclscope", "collect", str(tmp_path / "capture"))
    steps = ncclscope.open(tmp_path / "capture").report().steps
    assert steps is not None and steps.source == "program" and steps.rows[0].steps == 60


def test_collect_brings_marks_along(tmp_path: Path) -> None:
    program(LOOP + TRAIN + "nccl.close()\n", tmp_path)
    run("ncclscope", "collect", str(tmp_path / "capture"), "--into", str(tmp_path / "shared"))
    assert len(list((tmp_path / "shared").rglob("*.marks"))) == 1


def test_a_program_that_is_not_recorded_has_no_thread_and_no_file(tmp_path: Path) -> None:
    out = program(
        "import ncclscope, threading\n"
        "for _ in range(10):\n    with ncclscope.step(), ncclscope.phase('x'): pass\n"
        "print(threading.active_count())\n",
        tmp_path,
        recorded=False,
    )
    assert (out, list(tmp_path.iterdir())) == ("1\n", [])


def test_a_forked_child_leaves_the_parent_s_marks_alone(tmp_path: Path) -> None:
    fork = """
batch(0); ncclscope.step(); batch(1); ncclscope.step()
time.sleep(1.2)
child = os.fork()
if child == 0:
    for _ in range(5): ncclscope.step()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
batch(2); ncclscope.step()
"""
    program(LOOP + fork + "nccl.close()\n", tmp_path)
    (file,) = (tmp_path / "capture").rglob("*.marks")
    numbers = [json.loads(line)[1] for line in file.read_text().splitlines()[1:]]
    assert numbers == [0, 1, 2]


def test_a_damaged_file_of_marks_is_no_error(tmp_path: Path) -> None:
    program(LOOP + TRAIN + "nccl.close()\n", tmp_path)
    (file,) = (tmp_path / "capture").rglob("*.marks")
    os.truncate(file, file.stat().st_size // 2)
    steps = ncclscope.open(tmp_path / "capture").report().steps
    assert steps is not None and steps.source == "program" and 20 < steps.rows[0].steps < 40
    file.write_bytes(b"\x00\xff nonsense\n" * 9)
    report = ncclscope.open(tmp_path / "capture").report()
    assert report.steps is not None and report.steps.source == "calls"
    assert [(p.expected, p.found) for p in report.problems] == [("marks of a program", "9 other lines")]


def test_a_full_disk_ends_the_marks_and_nothing_else(tmp_path: Path) -> None:
    # /dev/full stands for the disk.
    full = """
from ncclscope import _marks
_marks.os.open = lambda *_: os_open("/dev/full", os.O_WRONLY)
"""
    text = LOOP.replace("import ncclscope\n", "os_open = os.open\nimport ncclscope\n") + full + TRAIN
    done = subprocess.run(
        [sys.executable, "-c", text + "nccl.close()\nprint('done')\n"],
        env={**os.environ, "NCCLSCOPE_QUIET": "1", "NCCLSCOPE_OUT": str(tmp_path / "capture")},
        text=True,
        capture_output=True,
        check=True,
    )
    assert done.stdout == "done\n"
    said = "ncclscope: steps of the program are not recorded any more: [Errno 28] No space left on device\n"
    assert done.stderr == said

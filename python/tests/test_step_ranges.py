"""Steps from the program's NVTX ranges, with NVIDIA's own package, which has NVTX's real header in it. Its
process makes calls as NCCL does (``own_nccl.py``), under ``ncclscope run --steps nvtx``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import BIN

import ncclscope

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(find_spec("nvtx") is None, reason="needs NVIDIA's package nvtx")

LOOP = f"""
import sys, time
sys.path.insert(0, {str(HERE)!r})
import ncclscope, nvtx
from own_nccl import Nccl

nccl = Nccl(ncclscope.plugin_path(), rank=0)
def batch(number):
    # By the calls alone, a step has two of these.
    for part in range(3 + number % 2):
        with nvtx.annotate("part", domain="model"):
            nccl.all_reduce(1000 * (part + 1))
        time.sleep(0.001)
"""


def outside() -> dict[str, str]:
    """The environment without what the tests themselves run under."""
    others = ("NCCL", "NVTX_")
    return {k: v for k, v in os.environ.items() if not k.startswith(others)} | {"RANK": "0"}


def program(text: str, folder: Path, steps: str = "nvtx", **more: str) -> tuple[ncclscope.Report, str]:
    """Runs a program below `ncclscope run`; its report, and what the command said."""
    env = outside() | {"NCCLSCOPE_QUIET": "1", "NCCLSCOPE_PLUGIN": ncclscope.plugin_path(), **more}
    command = [str(BIN / "ncclscope"), "run", "-o", "capture", "--no-sampler", "--steps", steps, "--"]
    done = subprocess.run(
        [*command, sys.executable, "-c", LOOP + text + "nccl.close()\n"],
        cwd=folder,
        env=env,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return ncclscope.open(folder / "capture").report(), done.stderr


def steps_of(report: ncclscope.Report) -> tuple[str, int]:
    """Where they come from, and how many there are."""
    assert report.steps is not None
    return report.steps.source, report.steps.rows[0].steps


def test_ranges_that_frameworks_push_are_steps(tmp_path: Path) -> None:
    text = """
for number in range(40):
    with nvtx.annotate(f"ProfilerStep#{number}"):
        batch(number)
"""
    report, _ = program(text, tmp_path)
    assert steps_of(report) == ("program", 40)
    page = str(report)
    assert "Steps (as the program marked them)\n  40 steps of 4 calls" in page
    assert "Steps are those of the program's NVTX ranges `ProfilerStep#*`." in page
    assert report.problems == []


def test_a_range_of_another_domain_and_thread_by_its_name(tmp_path: Path) -> None:
    text = """
import threading
domain = nvtx.get_domain("trainer")
def train():
    for number in range(30):
        domain.push_range(domain.get_event_attributes(message=f"step {number}"))
        batch(number)
        domain.pop_range()
thread = threading.Thread(target=train)
thread.start()
thread.join()
"""
    report, _ = program(text, tmp_path, "nvtx:step *")
    assert steps_of(report) == ("program", 30)
    # Nothing says which ranges these are, because the user knows.
    assert "NVTX" not in str(report)


def test_the_end_of_an_optimizer_s_range_ends_a_step(tmp_path: Path) -> None:
    text = """
for number in range(30):
    batch(number)
    # As torch's `emit_nvtx` does, and DeepSpeed.
    with nvtx.annotate("Optimizer.step#AdamW.step, op_id = 58"):
        nccl.all_reduce(5)
"""
    report, _ = program(text, tmp_path)
    assert steps_of(report) == ("program", 29)


def test_marks_of_the_program_count_before_its_ranges(tmp_path: Path) -> None:
    text = """
for number in range(20):
    with ncclscope.step():
        for part in range(2):
            with nvtx.annotate("train"):
                batch(number)
"""
    report, _ = program(text, tmp_path, "nvtx:train")
    assert steps_of(report) == ("program", 20)
    assert any("`ncclscope.step()`, so its NVTX ranges do not count" in note for note in report.notes)
    assert len(list((tmp_path / "capture").rglob("*.marks"))) == 2


def test_without_ranges_of_a_step_the_report_says_so(tmp_path: Path) -> None:
    report, _ = program("for number in range(40): batch(number)\n", tmp_path)
    assert report.steps is not None and report.steps.source == "calls"
    assert any("NVTX ranges marked no steps: the program pushed" in note for note in report.notes)


def test_a_tool_that_has_the_slot_keeps_it(tmp_path: Path) -> None:
    variables = 'os.environ["NVTX_INJECTION64_PATH"], os.environ["NCCLSCOPE_STEPS"]'
    text = f"import os\nprint({variables}, file=sys.stderr)\n"
    tool = "/opt/nsight/libToolsInjection64.so"
    _, said = program(text, tmp_path, NVTX_INJECTION64_PATH=tool)
    lines = [line for line in said.splitlines() if tool in line]
    assert lines[0].startswith(f"ncclscope: note: NVTX_INJECTION64_PATH is `{tool}`, so another tool reads")
    assert lines[1:] == [f"{tool} off"]


def test_a_tool_that_takes_the_slot_later_is_named(tmp_path: Path) -> None:
    # As `ncclscope run --steps nvtx -- nsys profile python train.py`.
    text = "batch(0)\n"
    start = f"import os; os.environ['NVTX_INJECTION64_PATH'] = '/opt/nsys.so'\nexec({LOOP + text!r})\n"
    env = outside() | {"NCCLSCOPE_PLUGIN": ncclscope.plugin_path()}
    command = [str(BIN / "ncclscope"), "run", "-o", "capture", "--steps", "nvtx", "--", sys.executable]
    command += ["-c", start]
    done = subprocess.run(command, cwd=tmp_path, env=env, text=True, capture_output=True, check=True)
    why = "NVTX_INJECTION64_PATH is `/opt/nsys.so`, so another tool reads NVTX ranges"
    assert f"ncclscope: NCCLSCOPE_STEPS=nvtx has no effect: {why}\n" in done.stderr
    notes = ncclscope.open(tmp_path / "capture").report().notes
    assert f"NCCLSCOPE_STEPS had no effect: {why}." in notes


def test_a_killed_program_and_collected_files_keep_steps(tmp_path: Path) -> None:
    text = """
import os, signal
for number in range(40):
    with nvtx.annotate("train"):
        batch(number)
time.sleep(1.5)
"""
    program(text, tmp_path, "nvtx:train")
    collect = [str(BIN / "ncclscope"), "collect", "capture", "--into", "shared", "--pack"]
    subprocess.run(collect, cwd=tmp_path, capture_output=True, check=True)
    assert list((tmp_path / "shared").rglob("*.marks")) == []
    assert steps_of(ncclscope.open(tmp_path / "shared").report()) == ("program", 40)


def test_the_file_is_as_the_specification_says(tmp_path: Path) -> None:
    text = 'for number in range(3):\n    with nvtx.annotate("train"): batch(number)\n'
    program(text, tmp_path, "nvtx:train")
    (file,) = (tmp_path / "capture").rglob("*.marks")
    (trace,) = (tmp_path / "capture").rglob("*.trace")
    assert (file.name, file.stat().st_mode & 0o777) == (f"{trace.stem}.1.marks", 0o600)
    head, *marks = [json.loads(line) for line in file.read_text().splitlines()]
    pid = head.pop("pid")
    assert head == {
        "schema": "ncclscope.marks/1",
        "clock": "CLOCK_MONOTONIC",
        "from": "nvtx",
        "range": None,
    }
    assert f"-p{pid}-" in file.name
    assert [mark[:2] for mark in marks] == [["step", number] for number in range(3)]

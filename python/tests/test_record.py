"""Recording from inside a program. Each test's program is a Python process; fake-nccl, which it starts, is
its job.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BIN

PLAY = f"""
import os, subprocess, sys, ncclscope
def play(**more):
    job = "ranks 2\\nall_reduce 1KiB x5\\n"
    subprocess.run([{str(BIN / "fake-nccl")!r}, "play", "-"], input=job, text=True, check=True,
                   stdout=subprocess.DEVNULL, **more)
"""


def program(text: str, folder: Path, **environment: str) -> str:
    """Runs a program after `PLAY` in `folder`, and returns its standard output.

    Its error output is checked to be empty.
    """
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("NCCL_", "NCCLSCOPE_RUN", "NCCLSCOPE_OUT"))
    }
    env = {**kept, "NCCLSCOPE_QUIET": "1", **environment}
    done = subprocess.run(
        [sys.executable, "-c", PLAY + text], cwd=folder, env=env, text=True, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def failing(text: str, folder: Path, **environment: str) -> str:
    """Runs a program whose `record` raises, and returns the error's text."""
    text = f"""
{text}
before = dict(os.environ)
try:
    ncclscope.record("capture")
except ncclscope.RecordError as error:
    print(error)
assert dict(os.environ) == before
"""
    return program(text, folder, **environment)


def test_a_program_records_what_it_starts(tmp_path: Path) -> None:
    out = program(
        """
os.environ["NCCL_PROFILER_PLUGIN"] = "none"
before = dict(os.environ)
with ncclscope.record("run %p", mode="full") as recording:
    play()
assert dict(os.environ) == before
play(stderr=subprocess.DEVNULL)
report = recording.open().report()
assert recording.path == os.path.join(os.getcwd(), "run %p") == os.fspath(recording)
assert repr(ncclscope.open(recording)).endswith("2 processes, 10 calls>")
print(report.completeness.recorded, report.job.mode, recording)
""",
        tmp_path,
    )
    # A `%` in a path is a `%`, and what runs after the recording is not in it.
    assert out == f"10 ['full'] <ncclscope.Recording '{tmp_path}/run %p', stopped>\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["run %p"]


def test_a_recording_need_not_be_stopped(tmp_path: Path) -> None:
    out = program(
        """
recording = ncclscope.record("capture")
play()
print(recording.open().report().completeness.recorded, recording)
""",
        tmp_path,
    )
    assert out == f"10 <ncclscope.Recording '{tmp_path}/capture'>\n"


def test_settings_of_the_environment_count_where_none_are_given(tmp_path: Path) -> None:
    text = """
with ncclscope.record("capture"{}) as recording:
    play()
print(recording.open().report().job.timing)
"""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert program(text.format(""), tmp_path / "a", NCCLSCOPE_TIMING="stamps") == "['stamps']\n"
    assert program(text.format(", timing='host'"), tmp_path / "b", NCCLSCOPE_TIMING="stamps") == "['host']\n"


def test_a_recording_that_stays_empty_warns(tmp_path: Path) -> None:
    out = program(
        """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with ncclscope.record("capture"):
        pass
print(caught[0].category.__name__, caught[0].message)
""",
        tmp_path,
    )
    assert out.startswith(f"RuntimeWarning `{tmp_path}/capture`: expected the trace of a process, found none")
    assert "\n  hint: call it before the process's first communicator" in out


@pytest.mark.parametrize(
    ("set_up", "environment", "said"),
    [
        (
            "",
            {"NCCL_PROFILER_PLUGIN": "inspector"},
            "NCCL_PROFILER_PLUGIN is `inspector`, and NCCL loads one profiler plugin",
        ),
        ("", {"NCCLSCOPE_RUN": "/run/socket"}, "this process is already recorded by `ncclscope run`"),
        ("ncclscope.record('first')", {}, "this process already records into `{}/first`"),
        (
            "import ctypes; ctypes.CDLL(ncclscope.plugin_path())",
            {},
            "NCCL has the recorder loaded in this process",
        ),
    ],
    ids=["another plugin", "ncclscope run", "twice", "loaded"],
)
def test_what_cannot_be_recorded_is_refused(
    set_up: str, environment: dict[str, str], said: str, tmp_path: Path
) -> None:
    out = failing(set_up, tmp_path, **environment)
    assert out.startswith(said.format(tmp_path)) and "\n  hint: " in out


def test_a_plugin_that_is_ours_or_none_or_to_be_replaced_is_no_obstacle(tmp_path: Path) -> None:
    text = """
with ncclscope.record("capture"{}) as recording:
    play()
print(recording.open().report().completeness.recorded)
"""
    cases = [
        ("none", ""),
        ("/elsewhere/libnccl-profiler-ncclscope.so", ""),
        ("inspector", ", replace_plugin=True"),
    ]
    for number, (plugin, argument) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert program(text.format(argument), folder, NCCL_PROFILER_PLUGIN=plugin) == "10\n"


def test_after_nccl_has_started_it_is_refused(tmp_path: Path) -> None:
    # What PyTorch says of itself, without PyTorch.
    torch = """
import types
torch = sys.modules["torch.distributed"] = types.ModuleType("torch.distributed")
torch.is_available = lambda: True
torch.is_initialized = lambda: {}
torch.get_backend = lambda: {!r}
"""
    said = (
        "NCCL looks for a profiler once, and has started in this process "
        "(torch.distributed has an NCCL process group)"
    )
    assert failing(torch.format(True, "cpu:gloo,cuda:nccl"), tmp_path).startswith(said)
    for others in (torch.format(True, "gloo"), torch.format(False, "nccl")):
        assert (
            program(f"{others}\nprint(ncclscope.record('capture').path)", tmp_path) == f"{tmp_path}/capture\n"
        )


def test_the_shared_memory_of_a_communicator_shows_that_nccl_has_started(tmp_path: Path) -> None:
    segment = f"/dev/shm/nccl-test{os.getpid()}"
    mapped = f"""
import mmap
with open({segment!r}, "w+b") as file:
    file.truncate(4096)
    memory = mmap.mmap(file.fileno(), 4096)
os.unlink({segment!r})
"""
    assert f"(it has mapped {segment} (deleted))" in failing(mapped, tmp_path)


def test_a_value_that_is_none_of_those_known_is_an_error(tmp_path: Path) -> None:
    out = program(
        """
for wrong in ({"mode": "tarce"}, {"timing": "gpu"}):
    try:
        ncclscope.record("capture", **wrong)
    except ValueError as error:
        print(error)
assert "NCCL_PROFILER_PLUGIN" not in os.environ
""",
        tmp_path,
    )
    assert out.splitlines() == [
        "mode is 'tarce'; expected one of profile, trace, full, callbacks",
        "timing is 'gpu'; expected one of auto, events, stamps, host",
    ]

"""What the tests share: the built commands, recorded jobs, and captures played for a test.

`scripts/test-python.sh` sets NCCLSCOPE_BIN to the folder of the built commands and puts the package on the
path.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow
import pytest

import ncclscope

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = Path(os.environ["NCCLSCOPE_BIN"])


def job(name: str) -> Path:
    """A recorded job."""
    return ROOT / "data" / name


def rows_of(table: ncclscope.Table) -> list[dict[str, Any]]:
    """The rows of a table."""
    rows: list[dict[str, Any]] = table.to_arrow().to_pylist()
    return rows


def run(*command: str | Path, **more: object) -> str:
    """Runs a built command and returns its standard output."""
    program, *arguments = command
    done = subprocess.run(  # type: ignore[call-overload]
        [BIN / program, *arguments], text=True, capture_output=True, **more
    )
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def played_into(capture: Path, script: str, *arguments: str, **environment: str) -> Path:
    """Plays a fake-nccl script to the recorder, and returns the capture."""
    env = {**os.environ, "NCCLSCOPE_OUT": str(capture), "NCCLSCOPE_QUIET": "1", **environment}
    run("fake-nccl", "play", "-", "--plugin", ncclscope.plugin_path(), *arguments, input=script, env=env)
    return capture


def loaded(program: Path) -> ModuleType:
    """A program of the repository, as a module."""
    specification = importlib.util.spec_from_file_location(program.stem, program)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def served() -> Iterator[Callable[..., str]]:
    """Starts a verb that serves, with its arguments, and returns the address that it names."""
    started = []

    def serving(*command: str | Path) -> str:
        process = subprocess.Popen([BIN / "ncclscope", *command], stderr=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("http://127.0.0.1:"):
                return line.strip()
        raise AssertionError("it ended before it served")

    yield serving
    for process in started:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., Path]:
    """Plays a fake-nccl script to the recorder, and returns the capture."""

    def played(script: str, *arguments: str, **environment: str) -> Path:
        return played_into(tmp_path / "played", script, *arguments, **environment)

    return played


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture with more calls than one batch holds: 128 000, of 16 ranks."""
    script = "ranks 16\nrate 4000/s\nall_reduce 1KiB x8000\n"
    return played_into(tmp_path_factory.mktemp("many") / "capture", script)

"""What the tests share: the built commands, recorded jobs, and captures played for a test.

`scripts/test-python.sh` sets NCCLSCOPE_BIN to the folder of the built commands and puts the package on the
path.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
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

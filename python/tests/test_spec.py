"""crates/capture/SPEC.md says enough to read what the recorder leaves behind."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
import spec_reader
from conftest import BIN, rows_of, run

import ncclscope

# A driver that times what is launched. It is there before the recorder looks for one, as CUDA's is in a job.
DRIVER = {"LD_PRELOAD": str(BIN / "libfake_cuda.so")}

SCRIPT = "ranks 2\nall_reduce 1MiB x300\nall_gather 64KiB x40\n"
KILLED = "ranks 2\nrate 2000/s\nall_reduce 1KiB x2000\nrank 1 kill\n"


def held_against_the_library(capture: Path, source: str | None) -> None:
    """Reads a capture by SPEC.md and by the library: both know the same calls, with the same GPU times."""
    rows = rows_of(ncclscope.open(capture).calls)
    assert rows
    traces = sorted(capture.glob("*/*.trace"))
    assert {row["pid"] for row in rows} == {int(spec_reader.read(trace).facts["pid"]) for trace in traces}
    timed = 0
    for trace in traces:
        process = spec_reader.read(trace)
        known = {row["ticket"]: row for row in rows if row["pid"] == int(process.facts["pid"])}
        assert sorted(known) == sorted(process.calls)
        for ticket, call in process.calls.items():
            row = known[ticket]
            assert process.strings[call.function] == row["function"]
            assert call.count == row["count"]
            assert abs(process.realtime(call.t_api) - row["api_ns"]) <= 1
            if row["gpu_time_ns"] is None:
                continue
            timed += 1
            assert row["gpu_time_source"] == source
            assert call.gpu_ns() == row["gpu_time_ns"]
            if source == "events":
                assert abs(process.realtime(call.event_start) - row["gpu_start_ns"]) <= 1
                assert call.event_error == row["gpu_error_ns"]
    assert (timed > 0) == (source is not None)


@pytest.mark.parametrize(
    ("environment", "source"),
    [
        pytest.param(DRIVER, "events", id="default"),
        pytest.param({"NCCLSCOPE_TIMING": "stamps"}, "stamps", id="stamps"),
        pytest.param({"NCCLSCOPE_TIMING": "host"}, None, id="host"),
    ],
)
def test_blocks(play: Callable[..., Path], environment: dict[str, str], source: str | None) -> None:
    held_against_the_library(play(SCRIPT, **environment), source)


def test_live_part_of_a_killed_process(play: Callable[..., Path]) -> None:
    capture = play(KILLED, NCCLSCOPE_FLUSH="0.2", **DRIVER)
    run("ncclscope", "collect", capture)
    adopted = list(capture.glob("*/*.live"))
    assert len(adopted) == 1
    killed = spec_reader.Process()
    found = spec_reader.image(adopted[0].read_bytes())
    assert found
    spec_reader.read_live(killed, found[1])
    assert killed.calls
    held_against_the_library(capture, "events")


def test_a_pack_is_a_zip_archive_of_the_files(play: Callable[..., Path], tmp_path: Path) -> None:
    capture = play(SCRIPT, **DRIVER)
    plain = {path.name: path.read_bytes() for path in capture.glob("*/*.trace")}
    rows = rows_of(ncclscope.open(capture).calls)
    run("ncclscope", "collect", capture, "--pack")
    [pack] = capture.glob("*/*")
    assert pack.name == "pack-1.zip"
    assert rows_of(ncclscope.open(capture).calls) == rows
    # What any other program takes out of it is a capture, too.
    folder = tmp_path / "unpacked" / pack.parent.name
    zipfile.ZipFile(pack).extractall(folder)
    assert rows_of(ncclscope.open(folder.parent).calls) == rows
    for name, content in plain.items():
        with pyarrow.input_stream(folder / f"{name}.zst", compression="zstd") as packed:
            assert packed.read() == content

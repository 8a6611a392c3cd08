"""OTF2 archives, read back by the otf2 package of PyPI and by otf2-print."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from conftest import job, rows_of, run

import ncclscope

otf2 = pytest.importorskip("otf2", reason="the package otf2 is not installed")


def archive(name: str, folder: Path) -> Path:
    run("ncclscope", "export", job(name), "-o", folder / "job.otf2")
    return folder / "job.otf2"


@pytest.mark.parametrize("name", ["ddp8_two_hosts", "mix_228", "killed_228", "decode_plain"])
def test_the_otf2_package_reads_every_call(name: str, tmp_path: Path) -> None:
    rows = rows_of(ncclscope.open(job(name)).calls)
    gpu = otf2.LocationType.ACCELERATOR_STREAM
    entered: Counter[tuple[bool, str]] = Counter()
    collectives: Counter[str] = Counter()
    tickets: Counter[int] = Counter()
    depth: Counter[int] = Counter()
    last = 0
    with otf2.reader.open(str(archive(name, tmp_path))) as trace:
        assert trace.definitions.clock_properties.timer_resolution == 10**9
        streams = [location for location in trace.definitions.locations if location.type == gpu]
        kinds = Counter(group.group_type for group in trace.definitions.groups)
        comms = list(trace.definitions.comms)
        for location, event in trace.events:
            assert event.time >= last
            last = event.time
            if isinstance(event, otf2.events.Enter):
                depth[location._ref] += 1
                entered[location.type == gpu, event.region.name] += 1
                if event.attributes and location.type != gpu:
                    values = {attribute.name: value for attribute, value in event.attributes.items()}
                    tickets[values["ticket"]] += 1
            elif isinstance(event, otf2.events.Leave):
                depth[location._ref] -= 1
            elif isinstance(event, otf2.events.MpiCollectiveEnd):
                collectives[event.communicator.name] += 1
                assert event.size_sent + event.size_received > 0
    assert set(depth.values()) == {0}
    host = [row for row in rows if row["api_ns"] or row["enqueue_ns"] or row["launch_start_ns"]]
    assert Counter(row["function"] for row in host) == Counter(
        {region: n for (is_gpu, region), n in entered.items() if not is_gpu}
    )
    assert tickets == Counter(row["ticket"] for row in host)
    assert kinds[otf2.GroupType.COMM_LOCATIONS] == 1
    assert kinds[otf2.GroupType.COMM_GROUP] == len(comms) > 0
    functions = Counter(row["function"] for row in rows)
    placed = sum(n for function, n in functions.items() if function not in ("Send", "Recv"))
    assert 0 < sum(collectives.values()) <= placed
    if name == "ddp8_two_hosts":
        assert sum(n for (is_gpu, _), n in entered.items() if not is_gpu) == 272
        assert len(streams) == 8
        assert sum(collectives.values()) == 272


def test_otf2_print_accepts_it(tmp_path: Path) -> None:
    program = shutil.which("otf2-print")
    if program is None:
        pytest.skip("otf2-print is not installed (Debian's package otf2-tools)")
    # Of 11 communicators, two have calls.
    (tmp_path / "grid").mkdir()
    path = archive("megatron_late_gpu", tmp_path / "grid")
    done = subprocess.run([program, "-G", path], text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")
    path = archive("ddp8_two_hosts", tmp_path)
    for option in ([], ["-G"]):
        done = subprocess.run([program, *option, path], text=True, capture_output=True)
        assert (done.returncode, done.stderr) == (0, "")
        if not option:
            lines = Counter(line.split()[0] for line in done.stdout.splitlines() if line.strip())
            assert lines["ENTER"] == lines["LEAVE"] == 272 + 224
            assert lines["MPI_COLLECTIVE_BEGIN"] == lines["MPI_COLLECTIVE_END"] == 272
            assert lines["METRIC"] > 100


def test_what_the_node_sampler_read_has_units(tmp_path: Path) -> None:
    with otf2.reader.open(str(archive("everything_228", tmp_path))) as trace:
        units = {of.name.split(" of ")[0]: of.unit for of in trace.definitions.metric_members}
    assert units["gpu_power_mw"] == "mW"
    assert units["gpu_sm_mhz"] == "MHz"
    assert units["gpu_memory_bytes"] == "B"


def test_an_archive_is_not_overwritten_without_force(tmp_path: Path) -> None:
    path = archive("ddp4", tmp_path)
    with pytest.raises(AssertionError, match="there already"):
        archive("ddp4", tmp_path)
    run("ncclscope", "export", job("ddp8_two_hosts"), "-o", path, "--force")
    with otf2.reader.open(str(path)) as trace:
        assert len([e for _, e in trace.events if isinstance(e, otf2.events.Enter)]) == 496

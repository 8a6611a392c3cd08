"""CUBE4 profiles, read back by pycubexr."""

from __future__ import annotations

import tarfile
from collections import Counter
from pathlib import Path

import pytest
from conftest import job, rows_of, run

import ncclscope

pycubexr = pytest.importorskip("pycubexr", reason="the package pycubexr is not installed")


@pytest.mark.parametrize("name", ["ddp8_two_hosts", "mix_228", "killed_228", "fsdp2_traced"])
def test_sums_are_those_of_the_tables(name: str, tmp_path: Path) -> None:
    path = tmp_path / "job.cubex"
    run("ncclscope", "export", job(name), "-o", path)
    capture = ncclscope.open(job(name))
    rows = [row for row in rows_of(capture.calls) if not row["captured"]]
    with pycubexr.CubexParser(str(path)) as cube:
        metrics = {metric.name for metric in cube.all_metrics()}
        assert {"calls", "gpu_time", "waiting", "bytes", "load_balance"} <= metrics
        members = tarfile.open(path).getnames()
        stored = {int(member.split(".")[0]) for member in members if member != "anchor.xml"}

        def by_region(metric: str) -> Counter[str]:
            sums: Counter[str] = Counter()
            of = cube.get_metric_by_name(metric)
            # A metric without a value is not in the file.
            if of.id not in stored:
                return sums
            values = cube.get_metric_values(of)
            for node in cube.all_cnodes():
                sums[cube.get_region(node).name.split()[0]] += values.value(node)
            return +sums

        # Pieces of one operation are one call of the profile.
        whole = [row for row in rows if row["operation_part"] is None]
        for function in {row["function"] for row in whole}:
            of = [row for row in whole if row["function"] == function]
            assert by_region("calls")[function] == len(of)
            seconds = sum(row["gpu_time_ns"] or 0 for row in of) / 1e9
            assert by_region("gpu_time")[function] == pytest.approx(seconds)
        assert by_region("bytes").total() > 0
        waits = sum(row["wait_ns"] for row in rows_of(capture.arrivals)) / 1e9
        if waits:
            assert sum(by_region("waiting").values()) == pytest.approx(waits)
        devices = {(row["process"], row["device"]) for row in rows}
        assert len(cube.get_locations()) == len(devices)
        if name == "fsdp2_traced":
            share = cube.get_metric_by_name("load_balance")
            (root,) = cube.get_root_cnodes()
            assert 0 < float(cube.get_metric_values(share).value(root)) <= 1

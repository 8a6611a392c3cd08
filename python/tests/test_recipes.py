"""The recipes answer their questions on recorded jobs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import polars
import pytest
from conftest import ROOT, job, loaded

import ncclscope

RECIPES = ROOT / "examples/recipes"


def recipe(name: str) -> ModuleType:
    return loaded(RECIPES / f"{name}.py")


def listed() -> list[tuple[str, list[str]]]:
    """Recipe and captures of each line of their README."""
    lines = re.findall(r"`python (\w+)\.py ([^`]+)`", (RECIPES / "README.md").read_text())
    return [(name, [Path(path).name for path in paths.split()]) for name, paths in lines]


def test_every_recipe_is_listed() -> None:
    assert sorted(name for name, _ in listed()) == sorted(path.stem for path in RECIPES.glob("*.py"))


@pytest.mark.parametrize(("name", "captures"), listed())
def test_it_runs_as_its_readme_says(name: str, captures: list[str]) -> None:
    command: list[str | Path] = [
        sys.executable,
        RECIPES / f"{name}.py",
        *(job(capture) for capture in captures),
    ]
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(command, text=True, capture_output=True, env=environment)
    assert done.returncode == (1 if name in ("check", "drain") else 0), done.stderr
    assert done.stdout.strip() and not done.stderr


def test_the_late_rank_is_the_slow_host_s() -> None:
    found = recipe("late_rank").late_ranks(ncclscope.open(job("slow_host")))
    total = found.group_by("launcher_rank").sum().sort("others_waited_s", descending=True)
    assert (
        total["launcher_rank"][0] == 0 and total["others_waited_s"][0] > 0.9 * total["others_waited_s"].sum()
    )


def test_the_late_rank_of_a_pipeline_is_the_report_s() -> None:
    capture = ncclscope.open(job("pipe_slow_gpu"))
    module = recipe("late_rank")
    said = module.blamed(capture)
    assert said[0] == capture.report().findings[0].sentence and said[0].startswith("Rank 1 ")
    sends, calls = module.without_arrivals(capture)
    assert 0 < sends < calls


def test_the_slowest_steps_come_first() -> None:
    capture = ncclscope.open(job("ddp_slow_gpu"))
    found = recipe("slow_steps").slow_steps(capture)
    assert len(found) == 5 and found["over_median_step_ms"].is_sorted(descending=True)
    steps = capture.steps.to_polars()
    longest = steps["time_ns"].max()
    assert isinstance(longest, int) and found["step_ms"].max() <= longest / 1e6


def test_the_sizes_are_those_of_the_operations() -> None:
    capture = ncclscope.open(job("mix_228"))
    rows = recipe("message_sizes").message_sizes(capture).fetchall()
    sized = [operation for operation in capture.report().operations if operation.bytes]
    assert sum(row[2] for row in rows) == sum(operation.calls for operation in sized)
    assert sum(row[3] or 0 for row in rows) == pytest.approx(100, abs=1)


def test_what_is_exposed_is_not_more_than_what_ran() -> None:
    rows = recipe("exposed").exposed(ncclscope.open(job("fsdp2_slow_gpu"))).fetchall()
    assert rows and all(0 <= row[4] and row[2] > 0 for row in rows)
    assert [row[4] for row in rows] == sorted((row[4] for row in rows), reverse=True)
    assert recipe("exposed").exposed(ncclscope.open(job("ddp4"))).fetchall() == []


def test_a_check_says_why(tmp_path: Path) -> None:
    check = recipe("check").check
    status, said = check(str(job("slow_plain")), str(job("slow_host")))
    assert status == 1 and said.startswith("slower by more than 5 %. ") and "ank 0" in said
    assert check(str(job("slow_plain")), str(job("slow_plain")))[0] == 2
    assert check(str(job("slow_host")), str(job("slow_plain"))) == (0, "not slower by more than 5 %")


@pytest.mark.parametrize("name", sorted(path.stem for path in RECIPES.glob("*.py")))
def test_without_a_capture_it_says_what_it_needs(name: str) -> None:
    done = subprocess.run([sys.executable, RECIPES / f"{name}.py"], text=True, capture_output=True)
    assert done.returncode != 0
    assert done.stderr.startswith("usage: python ")


def test_the_node_of_a_slow_gpu_is_drained_and_that_of_a_slow_program_is_not() -> None:
    drain = recipe("drain").node_to_drain
    found = drain(ncclscope.open(job("slow_gpu")))
    assert found is not None and (found["host"], found["rank"], found["kind"]) == ("vm", 1, "late_rank")
    assert drain(ncclscope.open(job("slow_host"))) is None
    assert drain(ncclscope.open(job("slow_plain"))) is None


@pytest.mark.parametrize("name", ["dataset_duckdb", "dataset_polars"])
@pytest.mark.parametrize("capture", ["ddp8_two_hosts", "fsdp2_slow_gpu", "mix_228", "graph_host_228"])
def test_a_data_set_in_parquet_has_the_report_s_figures(capture: str, name: str, tmp_path: Path) -> None:
    """Each figure of each operation, to the nanosecond."""
    ncclscope.export(job(capture), "parquet", tmp_path / "calls")
    found = recipe(name).operations(tmp_path / "calls")
    found = found.pl() if hasattr(found, "pl") else found
    figures = ["calls", "timed", "time_ns_sum", "time_ns_p50", "time_ns_p95"]
    keys = ["communicator", "function", "datatype", "bytes", "algorithm", "protocol"]

    def rows(table: polars.DataFrame) -> set[tuple[object, ...]]:
        return set(table.select(keys + figures).cast({"time_ns_p50": polars.Float64}).rows())

    # An AlltoAll is no collective of its own in the table of calls.
    report = ncclscope.open(job(capture)).operations.to_polars()
    known = report.filter(
        polars.col("function").is_in(found["function"].unique().to_list()), polars.col("calls") > 0
    )
    assert len(found) > 0 and rows(found) == rows(known)

"""The recipes answer their questions on recorded jobs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import polars
import pytest
from conftest import ROOT, job, loaded, run

import ncclscope

RECIPES = ROOT / "examples/recipes"


def recipe(name: str) -> ModuleType:
    return loaded(RECIPES / f"{name}.py")


def needs_spark() -> None:
    pytest.importorskip("pyspark.sql", reason="pyspark, half a gigabyte, is here with `make test-spark` only")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")


def listed() -> list[tuple[str, list[str]]]:
    """Recipe and captures of each line of their README."""
    lines = re.findall(r"`python (\w+)\.py ([^`]+)`", (RECIPES / "README.md").read_text())
    return [(name, [Path(path).name for path in paths.split()]) for name, paths in lines]


def test_every_recipe_is_listed() -> None:
    assert sorted(name for name, _ in listed()) == sorted(path.stem for path in RECIPES.glob("*.py"))


@pytest.mark.parametrize(("name", "captures"), listed())
def test_it_runs_as_its_readme_says(name: str, captures: list[str]) -> None:
    if name == "dataset_spark":
        needs_spark()
    command: list[str | Path] = [
        sys.executable,
        RECIPES / f"{name}.py",
        *(job(capture) for capture in captures),
    ]
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(command, text=True, capture_output=True, env=environment)
    assert done.returncode == (1 if name in ("check", "drain") else 0), done.stderr
    # Spark's start has its own lines.
    assert done.stdout.strip() and (name == "dataset_spark" or not done.stderr)


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


DATA_SETS = ["dataset_duckdb", "dataset_polars", "dataset_spark"]


def rows_of(found: Any) -> list[dict[str, Any]]:
    """The rows of what DuckDB, Polars or Spark answers."""
    if isinstance(found, polars.DataFrame):
        return found.to_dicts()
    if hasattr(found, "pl"):
        return found.pl().to_dicts()  # type: ignore[no-any-return]
    return [row.asDict() for row in found.collect()]


def data_set(name: str, capture: str, folder: Path) -> ModuleType:
    """Writes a recorded job as the recipe asks for; returns the recipe."""
    if name == "dataset_spark":
        needs_spark()
    divided = ["--table", "all", "--partition", "host,day"]
    run("ncclscope", "export", job(capture), *divided, "-o", f"{folder}/")
    return recipe(name)


@pytest.mark.parametrize("name", DATA_SETS)
@pytest.mark.parametrize("capture", ["ddp8_two_hosts", "fsdp2_slow_gpu", "mix_228", "graph_host_228"])
def test_operations_of_a_data_set_are_the_report_s(capture: str, name: str, tmp_path: Path) -> None:
    """Each figure of each operation, to the nanosecond."""
    found = rows_of(data_set(name, capture, tmp_path / "d").operations(tmp_path / "d"))
    keys = ["communicator", "function", "datatype", "bytes", "algorithm", "protocol"]
    figures = ["calls", "timed", "time_ns_sum", "time_ns_p50", "time_ns_p95"]
    report = ncclscope.open(job(capture)).operations.to_polars().to_dicts()
    # An AlltoAll is no collective of its own in the table of calls.
    functions = {row["function"] for row in found}
    known = [row for row in report if row["function"] in functions and row["calls"] > 0]

    def figured(rows: list[dict[str, Any]]) -> set[tuple[object, ...]]:
        return {tuple(row[column] for column in keys + figures) for row in rows}

    assert len(found) > 0 and figured(found) == figured(known)


@pytest.mark.parametrize("name", DATA_SETS)
@pytest.mark.parametrize(
    "capture",
    [
        "ddp8_busier_gpu",
        "ddp8_two_hosts",
        "fsdp1_late_host",
        "fsdp2_slow_gpu",
        "megatron_late_gpu",
        "mix_two_hosts_228",
        "pipe_slow_gpu",
        "shared_gpu_fsdp2",
    ],
)
def test_ranks_of_a_data_set_are_the_report_s(capture: str, name: str, tmp_path: Path) -> None:
    """Calls, bytes and exposed time by function and by rank, and what the ranks cost."""
    module = data_set(name, capture, tmp_path / "d")
    found = rows_of(module.ranks(tmp_path / "d"))
    opened = ncclscope.open(job(capture))
    report = json.loads(run("ncclscope", "report", job(capture), "--json"))

    def by(key: str, figure: str, rows: list[dict[str, Any]]) -> dict[object, float]:
        """The sums of a figure; only what is known and not 0."""
        sums: dict[object, float] = {}
        for row in rows:
            if row[figure]:
                sums[row[key]] = sums.get(row[key], 0) + row[figure]
        return sums

    operations = [{**o, "all": o["calls"] * (o["bytes"] or 0)} for o in report["operations"]]
    assert by("function", "calls", found) == by("function", "calls", operations)
    assert by("function", "bytes", found) == by("function", "all", operations)
    rows = [{**row, "launcher_rank": row["rank"]} for row in report["ranks"]["rows"]]
    assert by("launcher_rank", "calls", found) == by("launcher_rank", "calls", rows)

    waits = report["stream_waits"] or {"ranks": [], "operations": []}
    us = [{**row, "exposed_ns": row["sum_us"] * 1e3} for row in waits["ranks"]]
    wanted = by("rank", "exposed_ns", us)
    assert by("launcher_rank", "exposed_ns", found) == pytest.approx(wanted, rel=1e-12)
    if all(row["known"] == row["calls"] for row in us):
        of_functions = [{**row, "exposed_ns": row["sum_us"] * 1e3} for row in waits["operations"]]
        wanted = by("function", "exposed_ns", of_functions)
        assert by("function", "exposed_ns", found) == pytest.approx(wanted, rel=1e-12)

    losses = rows_of(module.losses(tmp_path / "d"))
    losses.sort(key=lambda row: (row["launcher_rank"], row["device"]))
    columns = ["launcher_rank", "host", "device", "calls", "waited_ns", "exposed_share", "loss_ns"]
    wanted_losses = opened.ranks.to_polars().sort("launcher_rank", "device").select(columns)
    assert losses == wanted_losses.to_dicts()


@pytest.mark.parametrize("name", DATA_SETS)
def test_names_that_look_like_numbers_stay_texts(name: str, tmp_path: Path) -> None:
    module = data_set(name, "mix_228", tmp_path / "d")
    for table in ("calls", "ranks"):
        (tmp_path / "d" / table / "host=vm").rename(tmp_path / "d" / table / "host=0042")
    for figures in (module.ranks, module.losses):
        assert {row["host"] for row in rows_of(figures(tmp_path / "d"))} == {"0042"}

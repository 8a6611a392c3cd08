"""The command's verbs as functions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pytest
from conftest import ROOT, job, run

import ncclscope


def schema(name: str) -> dict[str, object]:
    declared: dict[str, object] = json.loads((ROOT / f"crates/render/schema/{name}-1.json").read_text())[
        "properties"
    ]
    return declared


def test_hang_is_the_command_s(play: Callable[..., Path]) -> None:
    answer = ncclscope.hang(job("killed_228"))
    assert answer.hang is True and answer.verdict == "dead" and "Rank 1 is dead" in answer.sentence
    assert answer.blamed[0]["global_rank"] == 1
    assert repr(answer) == f"<ncclscope.Hang dead: {answer.sentence}>"
    healthy = ncclscope.hang(ncclscope.open(job("ddp4")))
    assert healthy.hang is False and "No hang" in str(healthy)
    printed = run("ncclscope", "hang", job("ddp4"), "--json")
    assert healthy.to_dict() == json.loads(printed)
    assert str(healthy) == run("ncclscope", "hang", job("ddp4"))
    assert healthy.text(all=True) == run("ncclscope", "hang", job("ddp4"), "--all")
    with pytest.raises(ValueError, match="after: expected seconds"):
        ncclscope.hang(job("ddp4"), after=-1.0)


def test_diff_is_the_command_s() -> None:
    changes = ncclscope.diff(job("slow_plain"), ncclscope.open(job("slow_host")), fail_on=["missing"])
    arguments = ("ncclscope", "diff", job("slow_plain"), job("slow_host"), "--fail-on", "missing")
    assert changes.to_dict() == json.loads(run(*arguments, "--json"))
    assert str(changes) == run(*arguments)
    assert changes.verdict["exit_status"] == 0
    assert (
        ncclscope.diff(job("slow_plain"), job("slow_host"), fail_on=["slower=5%"]).verdict["exit_status"] == 1
    )
    assert repr(changes) == f"<ncclscope.Diff: {changes.summary}>"
    # The answer is the first line.
    assert str(changes).replace("\n", " ").startswith(changes.summary)
    with pytest.raises(ValueError, match="fail_on: expected slower=N%"):
        ncclscope.diff(job("slow_plain"), job("slow_host"), fail_on=["faster"])


@pytest.mark.parametrize(("record", "name"), [(ncclscope.Hang, "hang"), (ncclscope.Diff, "diff")])
def test_their_fields_are_the_schema_s(record: type, name: str) -> None:
    annotated = {field for field in record.__annotations__ if not field.startswith("_")}
    assert annotated and annotated <= set(schema(name))


def test_exports_are_the_command_s(tmp_path: Path) -> None:
    capture = ncclscope.open(job("ddp_slow_host"))
    for to, name in (("perfetto", "a.pftrace"), ("chrome", "a.json")):
        assert ncclscope.export(capture, to, tmp_path / name) > len(capture.calls)  # type: ignore[arg-type]
        run("ncclscope", "export", job("ddp_slow_host"), "--to", to, "-o", tmp_path / f"by-command-{name}")
        assert (tmp_path / name).read_bytes() == (tmp_path / f"by-command-{name}").read_bytes()
    events = tmp_path / "events.json"
    assert ncclscope.export(job("ddp4"), "chrome", events, events=True) == 3684
    by_command = tmp_path / "by-command-events.json"
    run("ncclscope", "export", job("ddp4"), "--to", "chrome", "--events", "-o", by_command)
    assert events.read_bytes() == by_command.read_bytes()
    assert ncclscope.export(job("ddp4"), "parquet", tmp_path / "calls") == 176
    assert polars.read_parquet(tmp_path / "calls/**/*.parquet").height == 176
    by_host = tmp_path / "by-host"
    assert ncclscope.export(job("ddp4"), "parquet", by_host, partition=["host", "day"]) == 176
    divided = ["--to", "parquet", "--partition", "host,day"]
    run("ncclscope", "export", job("ddp4"), *divided, "-o", tmp_path / "c")
    files = [path.relative_to(by_host) for path in by_host.rglob("*.parquet")]
    assert len(files) == 1 and (by_host / files[0]).read_bytes() == (tmp_path / "c" / files[0]).read_bytes()
    assert ncclscope.export(capture, "jsonl", tmp_path / "kernels.jsonl", table="kernels") == len(
        capture.kernels
    )
    assert ncclscope.export(capture, "parquet", tmp_path / "kernels", table="kernels") == len(capture.kernels)


def test_what_cannot_be_exported_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    for arguments, said in [
        (("xml", "x", None), "to: expected perfetto, chrome, parquet, csv or jsonl, found `xml`"),
        (("perfetto", "x", "calls"), "table: expected one with `parquet`, `csv` or `jsonl`"),
        (
            ("parquet", "x", "wishes"),
            "table: expected one of calls, operations, arrivals, steps, ranks, findings, account, "
            "graphs, graph_launches, kernels, samples, switches, mpi, events, found `wishes`",
        ),
        (("jsonl", "x", None), "hint: `ncclscope run --mode callbacks"),
        (("parquet", "full", None), "expected a new or an empty folder"),
    ]:
        to, output, table = arguments
        with pytest.raises(ValueError, match=re.escape(said)):
            ncclscope.export(job("slow_host"), to, tmp_path / output, table=table)  # type: ignore[arg-type]
    bad: list[tuple[list[Any], str, str]] = [
        (["moon"], "x", "partition: expected columns of communicator, host, day, hour, found `moon`"),
        (["host", "host"], "x", "partition: expected each column once, found `host` twice"),
        (["host"], "x.parquet", "partition: expected `parquet` and a folder"),
    ]
    for keys, output, said in bad:
        with pytest.raises(ValueError, match=re.escape(said)):
            ncclscope.export(job("slow_host"), "parquet", tmp_path / output, partition=keys)
    with pytest.raises(ValueError, match=re.escape("divided by (`host`), found `day`")):
        ncclscope.export(job("slow_host"), "parquet", tmp_path / "x", table="ranks", partition=["day"])
    with pytest.raises(ValueError, match="hint: `ncclscope run --mode callbacks"):
        ncclscope.export(job("slow_host"), "perfetto", tmp_path / "x", events=True)
    with pytest.raises(ValueError, match="events: expected `perfetto`, `chrome` or `jsonl`"):
        ncclscope.export(job("ddp4"), "parquet", tmp_path / "x", events=True)
    with pytest.raises(OSError):
        ncclscope.export(job("ddp4"), "perfetto", tmp_path / "missing/file")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full"]

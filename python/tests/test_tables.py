"""Tables, read by the libraries that users have."""

from __future__ import annotations

import gc
import math
import re
import shutil
import sqlite3
import sys
import threading
import typing
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow
import pytest
from conftest import ROOT, job, rows_of, run

import ncclscope

KINDS = {
    "bool": pyarrow.bool_(),
    "float": pyarrow.float64(),
    "int": pyarrow.int64(),
    "map": pyarrow.map_(pyarrow.string(), pyarrow.int64()),
    "numbers": pyarrow.map_(pyarrow.string(), pyarrow.float64()),
    "text": pyarrow.string(),
    "time": pyarrow.int64(),
    "uint": pyarrow.uint64(),
}


def documented(table: str) -> list[tuple[str, str, str]]:
    """Name, type and unit of the columns in docs/reference/tables.md."""
    section = (ROOT / "docs/reference/tables.md").read_text().split(f"\n## {table}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*?) *\|", section, re.MULTILINE)


def statistics() -> list[str]:
    """Names of the statistics of docs/reference/tables.md."""
    text = re.search(
        r"^Statistics are (.*?)\.", (ROOT / "docs/reference/tables.md").read_text(), re.MULTILINE
    )
    assert text is not None
    return re.findall(r"`(\w+)`", text[1])


def estimate() -> list[str]:
    """Names of the parts of an estimate of docs/reference/tables.md."""
    text = re.search(
        r"^An estimate is (.*?)\.", (ROOT / "docs/reference/tables.md").read_text(), re.MULTILINE
    )
    assert text
    return re.findall(r"`(\w+)`", text[1])


def test_a_packed_capture_has_the_same_tables(tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    shutil.copytree(job("mix_two_hosts_228"), packed)
    run("ncclscope", "collect", packed, "--pack")
    assert any(packed.rglob("pack-1.zip")) and not any(packed.rglob("*.trace*"))
    plain, found = ncclscope.open(job("mix_two_hosts_228")), ncclscope.open(packed)
    assert rows_of(found.calls) == rows_of(plain.calls)
    assert found.operations.to_polars().equals(plain.operations.to_polars())
    assert str(ncclscope.hang(found)) == str(ncclscope.hang(plain)).replace(str(plain.path), str(packed))


def test_calls_have_the_documented_columns() -> None:
    schema = pyarrow.schema(ncclscope.open(job("ddp4")).calls)
    wanted = [(name, KINDS[kind], unit) for name, kind, unit in documented("calls")]
    assert [(f.name, f.type, (f.metadata or {}).get(b"unit", b"").decode()) for f in schema] == wanted
    assert all(field.nullable for field in schema)


def test_operations_have_the_documented_columns() -> None:
    schema = pyarrow.schema(ncclscope.open(job("ddp4")).operations)
    wanted: list[tuple[str, pyarrow.DataType]] = []
    for name, kind, _ in documented("operations"):
        if kind == "estimate":
            types = {part: pyarrow.float64() if part == "share" else pyarrow.int64() for part in estimate()}
            wanted += [(f"{name}_{part}", type) for part, type in types.items()]
        elif kind == "statistics":
            wanted += [(f"{name}_{part}", pyarrow.int64()) for part in statistics()]
        else:
            wanted.append((name, KINDS[kind]))
    assert [(field.name, field.type) for field in schema] == wanted


@pytest.mark.parametrize("title", ["ranks", "findings", "account"])
def test_tables_of_the_report_have_the_documented_columns(title: str) -> None:
    schema = pyarrow.schema(getattr(ncclscope.open(job("slow_gpu")), title))
    wanted = {name: (KINDS[kind], unit) for name, kind, unit in documented(title)}
    assert {f.name: (f.type, (f.metadata or {}).get(b"unit", b"").decode()) for f in schema} == wanted


TABLES = (
    "calls",
    "operations",
    "arrivals",
    "steps",
    "ranks",
    "findings",
    "account",
    "graphs",
    "graph_launches",
    "samples",
    "switches",
    "kernels",
    "events",
)


@pytest.mark.parametrize("name", ["mix_228", "mix_two_hosts_228", "killed_228", "graph_host_228"])
def test_every_library_reads_the_same_rows(name: str) -> None:
    calls = ncclscope.open(job(name)).calls
    rows = rows_of(calls)
    assert len(rows) == len(calls) > 0
    frame = calls.to_polars()
    assert frame.to_dicts() == rows
    names = calls.columns
    assert all(pyarrow.types.is_int64(f.type) for f in calls.to_arrow().schema if f.name.endswith("_ns"))
    found = duckdb.execute(f"select {', '.join(names)} from calls").fetchall()
    assert [dict(zip(names, row)) for row in found] == rows
    shown = calls.to_pandas()
    for column in names:
        # Digits too: whole numbers and times stay what they are where some are null.
        known = [row[column] for row in rows if row[column] is not None]
        assert shown[column].dropna().tolist() == known
        assert shown[column].isna().tolist() == [row[column] is None for row in rows]


@pytest.mark.parametrize("name", ["ddp4", "ddp_slow_host", "graph_host_228"])
def test_every_table_is_a_frame_in_every_library(name: str) -> None:
    capture = ncclscope.open(job(name))
    for title in TABLES:
        table: ncclscope.Table = getattr(capture, title)
        arrow, frame, shown = table.to_arrow(), table.to_polars(), table.to_pandas()
        assert (type(arrow), type(frame), type(shown)) == (pyarrow.Table, polars.DataFrame, pandas.DataFrame)
        assert arrow.shape == frame.shape == shown.shape == (len(table), len(table.columns))
        assert arrow.column_names == frame.columns == list(shown.columns) == table.columns
        assert not any(
            pyarrow.types.is_floating(arrow.schema.field(c).type) for c in table.columns if c.endswith("_ns")
        )


def test_differences_do_not_wrap_in_any_library() -> None:
    calls = ncclscope.open(job("mix_228")).calls.select(
        ["api_ns", "return_ns", "host_time_ns", "bytes", "rank", "ticket"]
    )
    assert polars.DataFrame(calls).select(polars.col("rank") - polars.col("ticket")).min().item() < -100
    assert calls.to_pandas()["rank"].sub(calls.to_pandas()["ticket"]).min() < -100
    assert duckdb.execute("select min(rank - ticket) < -100 from calls").fetchall() == [(True,)]
    # Backwards in time, too: from the return to the entry.
    longest = calls.to_polars()["host_time_ns"].max()
    assert isinstance(longest, int) and longest > 0
    frame = calls.to_polars().select(polars.col("api_ns") - polars.col("return_ns"))
    assert frame.min().item() == -longest
    shown = calls.to_pandas()
    assert (shown["api_ns"] - shown["return_ns"]).min() == -longest
    assert duckdb.execute("select min(api_ns - return_ns) from calls").fetchall() == [
        (-longest,)
    ]


@pytest.mark.parametrize("title", TABLES)
def test_no_column_needs_quotes_in_sql(title: str) -> None:
    table = getattr(ncclscope.open(job("ddp4")), title)
    names = ", ".join(table.columns)
    found = table
    assert duckdb.execute(f"select {names} from found limit 0").description is not None
    polars.SQLContext(found=table.to_polars()).execute(f"select {names} from found")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"create table found ({names})")
        connection.execute(f"select {names} from found order by {table.columns[0]}")


def test_an_operation_has_one_id_on_all_ranks() -> None:
    calls = ncclscope.open(job("ddp4")).calls
    found = duckdb.execute(
        "select operation_id, count(*), count(distinct launcher_rank), "
        "count(distinct function), count(distinct bytes) from calls group by 1 order by 1"
    ).fetchall()
    assert found == [(id, 4, 4, 1, 1) for id in range(44)]


def test_calls_say_whose_they_are() -> None:
    calls = ncclscope.open(job("threads_228")).calls
    found = duckdb.execute(
        "select launcher_rank, count(distinct device), "
        "count(distinct (communicator, init_thread)), count(distinct pid) from calls group by 1"
    ).fetchall()
    # One process drives four GPUs, and NCCL made its two communicators with a thread for each.
    assert found == [(0, 4, 8, 1)]


def test_calls_say_which_thread_made_them(play: Callable[..., Path]) -> None:
    calls = ncclscope.open(play("ranks 4\nper_process 4\nall_reduce 1KiB x2\n")).calls
    found = duckdb.execute("select thread is null, count(*) from calls group by thread").fetchall()
    assert found == [(False, 2)] * 4


def test_communicators_have_the_names_that_the_program_gave(play: Callable[..., Path]) -> None:
    calls = ncclscope.open(
        play('ranks 2\ncomm tp ranks 0..1 name "tensor parallel"\nall_reduce 1KiB comm=tp\nall_reduce 1KiB\n')
    ).calls
    found = duckdb.execute("select communicator_name, count(*) from calls group by 1 order by 1").fetchall()
    assert found == [("tensor parallel", 2), (None, 2)]


def test_only_rooted_functions_have_a_root() -> None:
    calls = ncclscope.open(job("symmetric_232")).calls
    found = duckdb.execute("select distinct function from calls where root is not null order by 1").fetchall()
    assert found == [("Broadcast",), ("Reduce",)]
    unrooted = "select count(*) from calls where root is null and function in ('Broadcast', 'Reduce')"
    assert duckdb.execute(unrooted).fetchall() == [(0,)]


def test_waits_and_steps_are_those_of_the_report() -> None:
    capture = ncclscope.open(job("slow_gpu"))
    report, arrivals, steps = capture.report(), capture.arrivals.to_polars(), capture.steps.to_polars()
    assert report.arrivals is not None and report.steps is not None
    assert float(arrivals["wait_ns"].sum()) / 1e3 == pytest.approx(report.arrivals.wait_rank_us, abs=1)
    assert arrivals["operation_id"].n_unique() == report.arrivals.operations
    assert (
        arrivals.group_by("operation_id").agg(polars.col("wait_ns").min())["wait_ns"].to_list()
        == [0] * report.arrivals.operations
    )
    for row in report.steps.rows:
        mine = steps.filter((polars.col("pid") == row.pid))
        assert len(mine) == row.steps and mine["step"].to_list() == list(range(row.steps))
        assert row.step_us is not None and mine["time_ns"].count() == row.step_us.n
        assert float(mine["time_ns"].sum()) / 1e3 == pytest.approx(row.step_us.sum, abs=1)
    assert capture.findings.to_arrow()["sentence"].to_pylist() == [
        finding.sentence for finding in report.findings
    ]
    ranks = capture.ranks.to_polars()
    assert ranks["nccl_ns"].to_list() == [
        row.nccl_us and round(row.nccl_us * 1000) for row in report.ranks.rows
    ]
    assert ranks["launcher_rank"].to_list() == [row.rank for row in report.ranks.rows]


def test_a_library_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(
        ModuleNotFoundError,
        match="this needs polars, which ncclscope does not bring\n  hint: pip install polars",
    ):
        ncclscope.open(job("ddp4")).calls.to_polars()


def nanos(name: str, us: float | None) -> float | None:
    """A figure of the report as its table has it: µs become whole ns; counts and shares stay."""
    return math.floor(us * 1000 + 0.5) if name.endswith("_ns") and name != "n_ns" and us is not None else us


def test_operations_are_those_of_the_report() -> None:
    capture = ncclscope.open(job("mix_232"))
    rows = pyarrow.table(capture.operations).to_pylist(maps_as_pydicts="strict")
    wanted = []
    kinds = {name: kind for name, kind, _ in documented("operations")}
    for operation in capture.report().to_dict()["operations"]:
        flat: dict[str, typing.Any] = {}
        for name, value in operation.items():
            name = name.replace("_us", "_ns")
            if kinds[name] == "estimate":
                flat.update(
                    {
                        f"{name}_{part}": value and nanos(part, value[part.replace("_ns", "_us")])
                        for part in estimate()
                    }
                )
            elif kinds[name] == "statistics":
                flat.update(
                    {f"{name}_{part}": value and nanos(f"{part}_ns", value[part]) for part in statistics()}
                )
            else:
                flat[name] = value
        wanted.append(flat)
    assert rows == wanted
    operations = capture.operations
    stamps = "select function, untimed['no_stamp'] from operations where untimed['no_stamp'] > 0"
    assert duckdb.execute(stamps).fetchall() == [
        (row["function"], row["untimed"]["no_stamp"]) for row in wanted if row["untimed"].get("no_stamp")
    ]
    assert polars.DataFrame(operations)["calls"].sum() == sum(row["calls"] for row in wanted)
    assert pandas.DataFrame.from_arrow(operations)["calls"].tolist() == [row["calls"] for row in wanted]


def test_what_was_played_is_in_the_table(play: Callable[..., Path]) -> None:
    played = play("ranks 2\nall_reduce 1MiB f32 x3\ngroup { send 4KiB to=+1 ; recv 4KiB from=-1 }\n")
    calls = ncclscope.open(played).calls
    assert duckdb.execute(
        "select rank, function, bytes, peer, count(*) from calls group by all order by all"
    ).fetchall() == [
        (rank, function, size, peer, count)
        for rank in (0, 1)
        for function, size, peer, count in [
            ("AllReduce", 1 << 20, None, 3),
            ("Recv", 4096, 1 - rank, 1),
            ("Send", 4096, 1 - rank, 1),
        ]
    ]


def test_many_calls_come_in_batches_in_order(many: Path) -> None:
    calls = ncclscope.open(many).calls.select(["process", "ticket"])
    reader = pyarrow.RecordBatchReader.from_stream(calls)
    sizes = [batch.num_rows for batch in reader]
    assert sizes == [122_880, 128_000 - 122_880]
    tickets = duckdb.execute("select process, ticket from calls").fetchall()
    assert tickets == [(process, ticket) for process in range(16) for ticket in range(8000)]


def test_other_threads_run_while_a_capture_is_read(many: Path) -> None:
    ticks, done = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.wait(0.001):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        before = ticks
        capture = ncclscope.open(many)
        after_open = ticks
        capture.report()
        after_report = ticks
        # Millions of values; a reader that holds on to the interpreter would let the thread run once at most.
        pyarrow.table(capture.calls)
        after_read = ticks
    finally:
        done.set()
        thread.join()
    assert after_open - before > 5
    assert after_report - after_open > 5
    assert after_read - after_report > 5


def test_columns_are_chosen_in_any_order_and_again() -> None:
    calls = ncclscope.open(job("ddp4")).calls
    some = calls.select(["bytes", "function", "rank"])
    assert some.columns == ["bytes", "function", "rank"]
    assert pyarrow.table(some).equals(pyarrow.table(calls).select(["bytes", "function", "rank"]))
    assert some.select(["rank"]).columns == ["rank"]
    assert pyarrow.table(calls.select([])).num_rows == 176
    operations = ncclscope.open(job("ddp4")).operations.select(["calls"])
    assert sum(pyarrow.table(operations)["calls"].to_pylist()) == 176


def test_an_unknown_column_is_named() -> None:
    with pytest.raises(KeyError, match="`ranks` is not a column; there are process, launcher_rank, host"):
        ncclscope.open(job("ddp4")).calls.select(["rank", "ranks"])
    with pytest.raises(KeyError, match="`time_us` is not a column"):
        ncclscope.open(job("ddp4")).operations.select(["time_us"])


def test_a_table_outlives_its_capture_and_is_read_again() -> None:
    calls = ncclscope.open(job("ddp4")).calls
    gc.collect()
    first = pyarrow.table(calls)
    stream = calls.__arrow_c_stream__()
    del calls
    gc.collect()
    # What was read, and a stream that nobody reads, stand on their own.
    del stream
    gc.collect()
    assert first.num_rows == 176 and set(first["function"].to_pylist()) == {
        "AllGather",
        "AllReduce",
        "Broadcast",
    }


def test_the_repr_says_how_much_there_is() -> None:
    capture = ncclscope.open(job("ddp4"))
    assert repr(capture.calls) == f"<ncclscope.Table: 176 rows, {len(documented('calls'))} columns>"
    assert repr(capture) == f"<ncclscope.Capture '{job('ddp4')}': 4 processes, 176 calls>"


@pytest.mark.parametrize(
    "title", ["arrivals", "steps", "ranks", "findings", "graph_launches", "samples", "switches"]
)
def test_the_other_tables_have_the_documented_columns(title: str) -> None:
    table: ncclscope.Table = getattr(ncclscope.open(job("ddp_slow_host")), title)
    texts = KINDS | {"text": pyarrow.dictionary(pyarrow.int32(), pyarrow.string())}
    kinds = KINDS if title in ("ranks", "findings") else texts
    wanted = [(name, kinds[kind], unit) for name, kind, unit in documented(title)]
    assert [
        (f.name, f.type, (f.metadata or {}).get(b"unit", b"").decode()) for f in pyarrow.schema(table)
    ] == wanted


def test_kernels_have_the_documented_columns_and_every_library_reads_them() -> None:
    kernels = ncclscope.open(job("ddp_slow_host")).kernels
    kinds = KINDS | {"text": pyarrow.dictionary(pyarrow.int32(), pyarrow.string())}
    wanted = [(name, kinds[kind], unit) for name, kind, unit in documented("kernels")]
    schema = pyarrow.schema(kernels)
    assert [(f.name, f.type, (f.metadata or {}).get(b"unit", b"").decode()) for f in schema] == wanted
    frame = polars.DataFrame(kernels)
    assert len(frame) == len(kernels) > 1000
    assert set(frame["kind"].cast(polars.String)) == {"kernel", "copy", "fill"}
    assert pyarrow.table(kernels).num_rows == len(pandas.DataFrame.from_arrow(kernels)) == len(frame)
    assert duckdb.execute("select sum(time_ns) from kernels").fetchall() == [(frame["time_ns"].sum(),)]


def test_nccls_kernels_join_with_their_calls() -> None:
    capture = ncclscope.open(job("ddp_slow_host"))
    calls, kernels = capture.calls, capture.kernels
    joined = duckdb.execute(
        "select count(*), count(distinct (k.process, k.ticket)), "
        "sum((k.function = c.function and k.communicator = c.communicator)::int) "
        "from kernels k join calls c on c.process = k.process and c.ticket = k.ticket"
    ).fetchall()
    (rows, tickets, same) = joined[0]
    assert rows == tickets == same > 300


def test_a_capture_without_windows_has_no_kernels_and_says_why() -> None:
    capture = ncclscope.open(job("ddp4"))
    assert len(capture.kernels) == pyarrow.table(capture.kernels).num_rows == 0
    assert "no kernel window" in str(capture.no_kernels_because)
    assert ncclscope.open(job("decode_plain")).no_kernels_because is None


def test_a_report_says_what_recording_cost() -> None:
    cost = ncclscope.open(job("decode_slow_gpu")).report().cost
    assert cost is not None and cost.gpu is not None and cost.gpu.interval is not None
    low, high = cost.gpu.interval
    assert low < cost.gpu.share < high < 0.01
    assert cost.calls == 196 and cost.callbacks < 1e-4

"""Tables, read by the libraries that users have."""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow
import pytest
from conftest import ROOT, job

import ncclscope

KINDS = {
    "bool": pyarrow.bool_(),
    "float": pyarrow.float64(),
    "int": pyarrow.int64(),
    "map": pyarrow.map_(pyarrow.string(), pyarrow.uint64()),
    "text": pyarrow.string(),
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
            wanted += [(f"{name}_{part}", pyarrow.float64()) for part in estimate()]
        elif kind == "statistics":
            types = {part: pyarrow.uint64() if part == "n" else pyarrow.float64() for part in statistics()}
            wanted += [(f"{name}_{part}", type) for part, type in types.items()]
        else:
            wanted.append((name, KINDS[kind]))
    assert [(field.name, field.type) for field in schema] == wanted


@pytest.mark.parametrize("name", ["mix_228", "mix_two_hosts_228", "killed_228", "graph_host_228"])
def test_every_library_reads_the_same_rows(name: str) -> None:
    calls = ncclscope.open(job(name)).calls
    rows = pyarrow.table(calls).to_pylist()
    assert len(rows) == len(calls) > 0
    assert polars.DataFrame(calls).to_dicts() == rows
    names = calls.columns
    assert [dict(zip(names, row)) for row in duckdb.execute("select * from calls").fetchall()] == rows
    frame = pandas.DataFrame.from_arrow(calls)
    for column in names:
        known = [row[column] for row in rows if row[column] is not None]
        # pandas keeps numbers with nulls as doubles, which hold fewer digits.
        assert frame[column].dropna().tolist() == pytest.approx(known, rel=1e-15) if known and isinstance(
            known[0], (int, float)
        ) else frame[column].dropna().tolist() == known
        assert frame[column].isna().tolist() == [row[column] is None for row in rows]


def test_operations_are_those_of_the_report() -> None:
    capture = ncclscope.open(job("mix_232"))
    rows = pyarrow.table(capture.operations).to_pylist(maps_as_pydicts="strict")
    wanted = []
    kinds = {name: kind for name, kind, _ in documented("operations")}
    for operation in capture.report().to_dict()["operations"]:
        flat = {}
        for name, value in operation.items():
            if kinds[name] == "estimate":
                flat.update({f"{name}_{part}": value and value[part] for part in estimate()})
            elif kinds[name] == "statistics":
                flat.update({f"{name}_{part}": value and value[part] for part in statistics()})
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
    with pytest.raises(KeyError, match="`ranks` is not a column; there are process, host"):
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

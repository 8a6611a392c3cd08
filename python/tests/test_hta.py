"""The four parts of a step, against HolisticTraceAnalysis on the same kernels.

Each rank's windows are written as a torch.profiler trace would have them: laid end to end, cut to what the
report counts. The report and HTA find the parts independently.

What that can't show is whether CUPTI recorded the same kernels as torch.profiler did. ``bench/gpu/jobs.py
--torch-profiler TRACE`` records both in one job, on GPUs, at different steps: only one of them can use CUPTI
at a time. The job must be bound by its GPU, because torch.profiler slows hosts. A pair is a capture and
TRACE: put it into ``data/NAME`` and ``torch_profiler/NAME.RANK.json.gz`` beside this file, or name it in
``NCCLSCOPE_TRACED`` as ``CAPTURE:TRACE``. Of TRACE, its kernels, copies and fills are enough.
"""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import ncclscope
import pytest
from conftest import job, rows_of

if TYPE_CHECKING:
    from typing import Any

RECORDED = ["ddp_slow_gpu", "fsdp2_slow_gpu", "decode_slow_gpu"]
"""Jobs with kernel windows."""


def torch_traces(capture: ncclscope.Capture, folder: Path) -> None:
    """Writes one trace per rank. Times are ns where torch has µs: HTA rounds to whole ones, and only ratios
    count.
    """
    rows = rows_of(capture.kernels)
    for rank in sorted({row["launcher_rank"] for row in rows}):
        events: list[dict[str, Any]] = []
        begins: dict[int, int] = {}
        length = 0
        for row in rows:
            begin, end = row["counted_from_ns"], row["counted_to_ns"]
            if row["launcher_rank"] != rank or begin is None:
                continue
            if row["window_number"] not in begins:
                begins[row["window_number"]] = length
                length += end - begin
            start, stop = max(row["start_ns"], begin), min(row["end_ns"], end)
            if start >= stop:
                continue
            name = (
                row["name"]
                if row["kind"] == "kernel"
                else "Memcpy DtoD"
                if row["kind"] == "copy"
                else "Memset"
            )
            events.append(
                {
                    "ph": "X",
                    "cat": {"kernel": "kernel", "copy": "gpu_memcpy", "fill": "gpu_memset"}[row["kind"]],
                    "name": name,
                    "pid": row["device"],
                    "tid": row["stream"],
                    "ts": start - begin + begins[row["window_number"]],
                    "dur": stop - start,
                    "args": {
                        "stream": row["stream"],
                        "device": row["device"],
                        "correlation": len(events) + 1,
                    },
                }
            )
        trace = {"schemaVersion": 1, "distributedInfo": {"rank": rank}, "traceEvents": events}
        with gzip.open(folder / f"rank_{rank}.json.gz", "wt") as file:
            json.dump(trace, file)


def pairs() -> list[tuple[Path, list[Path]]]:
    """Captures, each with torch.profiler's traces of the same job."""
    found = []
    if traced := os.environ.get("NCCLSCOPE_TRACED"):
        capture, trace = map(Path, traced.split(":"))
        found.append((capture, sorted(trace.parent.glob(f"{trace.name}.*.json*"))))
    traces = Path(__file__).parent / "torch_profiler"
    for first in sorted(traces.glob("*.0.json.gz")):
        name = first.name.removesuffix(".0.json.gz")
        found.append((job(name), sorted(traces.glob(f"{name}.*.json.gz"))))
    return found


def whole_steps(trace: dict[str, Any], steps: int) -> None:
    """Cuts a trace of so many steps to whole ones, from the second on.

    The first step is late, because the profiler begins in it.
    """

    def on_gpu(event: dict[str, Any]) -> bool:
        return event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")

    def key(event: dict[str, Any]) -> tuple[str, str, int]:
        args = event["args"]
        return event["name"], str(args.get("grid")), args["stream"]

    kernels = [event for event in trace["traceEvents"] if event.get("cat") == "kernel"]
    once = {each for each, times in Counter(map(key, kernels)).items() if times == steps}
    marks = sorted(event["ts"] for event in kernels if key(event) == min(once))
    begin, end = marks[1], marks[-1]
    rest = [event for event in trace["traceEvents"] if on_gpu(event) and begin <= event["ts"] < end]
    for event in rest:
        event["dur"] = min(event["dur"], end - event["ts"])
    trace["traceEvents"] = rest


def same_parts(ours: Any, theirs: Any) -> None:
    """The parts of a rank's time are HTA's, within 1 % of the whole."""
    parts = {
        "compute_time(us)": ours.computing.share + ours.beside.share,
        "non_compute_time(us)": ours.exposed.share + ours.copies.share,
        "idle_time(us)": ours.idle.share,
    }
    for column, share in parts.items():
        known = theirs[column] / theirs["kernel_time(us)"]
        assert known == pytest.approx(share, abs=0.01), (ours.rank, column)


@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: pair[0].name)
def test_windows_show_what_torch_profiler_does_in_the_same_job(
    pair: tuple[Path, list[Path]], tmp_path: Path
) -> None:
    from hta.trace_analysis import TraceAnalysis

    capture, traces = pair
    for path in traces:
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        trace = json.loads(text)
        rank = int(path.name.split(".json")[0].rsplit(".", 1)[1])
        trace["distributedInfo"] = {"rank": rank}
        whole_steps(trace, 12)
        with gzip.open(tmp_path / f"rank_{rank}.json.gz", "wt") as file:
            json.dump(trace, file)
    analysis = TraceAnalysis(trace_dir=str(tmp_path))
    breakdown = analysis.get_temporal_breakdown(visualize=False).set_index("rank")
    streams = ncclscope.open(capture).report().streams
    assert streams is not None
    assert len(breakdown) == len(traces) > 0
    for ours in streams.ranks:
        if ours.rank not in breakdown.index:
            continue
        same_parts(ours, breakdown.loc[ours.rank])


@pytest.mark.parametrize("name", RECORDED)
def test_the_four_parts_of_a_step_are_those_of_holistic_trace_analysis(name: str, tmp_path: Path) -> None:
    from hta.trace_analysis import TraceAnalysis

    capture = ncclscope.open(job(name))
    torch_traces(capture, tmp_path)
    analysis = TraceAnalysis(trace_dir=str(tmp_path))
    breakdown = analysis.get_temporal_breakdown(visualize=False).set_index("rank")
    overlap = analysis.get_comm_comp_overlap(visualize=False).set_index("rank")
    streams = capture.report().streams
    assert streams is not None
    for ours in streams.ranks:
        theirs = breakdown.loc[ours.rank]
        assert theirs["kernel_time(us)"] == pytest.approx(1000 * ours.seen_us, rel=0.01)
        same_parts(ours, theirs)
        beside = ours.beside.share / (ours.beside.share + ours.exposed.share)
        assert overlap.loc[ours.rank, "comp_comm_overlap_pctg"] / 100 == pytest.approx(beside, abs=0.01)


def cut(trace: dict[str, Any], begin: int, end: int) -> dict[str, Any]:
    """What ran on GPUs between two times, ns since 1970. Times are ns where torch has µs, as above."""
    base = int(trace.get("baseTimeNanoseconds", 0))
    events = []
    for event in trace["traceEvents"]:
        if str(event.get("cat")).lower() not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        start = base + round(1000 * event["ts"])
        stop = min(start + round(1000 * event["dur"]), end)
        start = max(start, begin)
        if start < stop:
            events.append({**event, "ts": start - begin, "dur": stop - start})
    return {**trace, "traceEvents": events}


@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: pair[0].name)
def test_a_trace_of_torch_profiler_has_the_parts_that_hta_finds(
    pair: tuple[Path, list[Path]], tmp_path: Path
) -> None:
    """ncclscope and HTA read the same traces, HTA the part of each that ncclscope counts."""
    from hta.trace_analysis import TraceAnalysis

    traces, theirs = tmp_path / "traces", tmp_path / "theirs"
    traces.mkdir()
    theirs.mkdir()
    for path in pair[1]:
        (traces / path.name).write_bytes(path.read_bytes())
    capture = ncclscope.open(traces)
    counted = {
        row["launcher_rank"]: (row["counted_from_ns"], row["counted_to_ns"])
        for row in rows_of(capture.kernels)
    }
    assert len(counted) == len(pair[1])
    for path in pair[1]:
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        trace = json.loads(text)
        rank = trace["distributedInfo"]["rank"]
        with gzip.open(theirs / f"rank_{rank}.json.gz", "wt") as file:
            json.dump(cut(trace, *counted[rank]), file)
    analysis = TraceAnalysis(trace_dir=str(theirs))
    breakdown = analysis.get_temporal_breakdown(visualize=False).set_index("rank")
    overlap = analysis.get_comm_comp_overlap(visualize=False).set_index("rank")
    streams = capture.report().streams
    assert streams is not None
    for ours in streams.ranks:
        same_parts(ours, breakdown.loc[ours.rank])
        beside = ours.beside.share / (ours.beside.share + ours.exposed.share)
        assert overlap.loc[ours.rank, "comp_comm_overlap_pctg"] / 100 == pytest.approx(beside, abs=0.01)

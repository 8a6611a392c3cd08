"""The four parts of a step, against HolisticTraceAnalysis on the same kernels.

Each rank's windows are written as a torch.profiler trace would have them: laid end to end, cut to what the
report counts. The report and HTA find the parts independently.

What this can't show: whether CUPTI recorded the same kernels as torch.profiler did. ``bench/gpu/jobs.py
--torch-profiler`` records both in one job, on GPUs.
"""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import ncclscope
import pytest
from conftest import job, rows_of

if TYPE_CHECKING:
    from pathlib import Path
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
        whole = theirs["kernel_time(us)"]
        assert whole == pytest.approx(1000 * ours.seen_us, rel=0.01)
        parts = {
            "compute_time(us)": ours.computing.share + ours.beside.share,
            "non_compute_time(us)": ours.exposed.share + ours.copies.share,
            "idle_time(us)": ours.idle.share,
        }
        for column, share in parts.items():
            assert theirs[column] / whole == pytest.approx(share, abs=0.01), (ours.rank, column)
        beside = ours.beside.share / (ours.beside.share + ours.exposed.share)
        assert overlap.loc[ours.rank, "comp_comm_overlap_pctg"] / 100 == pytest.approx(beside, abs=0.01)

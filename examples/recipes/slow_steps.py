"""Which steps were slow, and what was different in them?

    python slow_steps.py CAPTURE

A step takes longer because its GPU time in NCCL grew, or because something else did: that tells communication
from the program itself.
"""

import sys

import polars as pl

import ncclscope


def slow_steps(capture: ncclscope.Capture, count: int = 5) -> pl.DataFrame:
    """The slowest steps of each rank, against the median of the rank's steps; all times in ms."""
    ms = pl.col("time_ns", "communication_ns") / 1e6
    steps = (
        capture.steps.to_polars()
        .with_columns(ms)
        .rename({"time_ns": "step_ms", "communication_ns": "nccl_ms"})
    )
    median = pl.col("step_ms", "nccl_ms") - pl.col("step_ms", "nccl_ms").median().over("launcher_rank")
    longer = steps.with_columns(median.name.prefix("over_median_"))
    columns = ["launcher_rank", "step", "start_ns", "step_ms", "over_median_step_ms", "over_median_nccl_ms"]
    return (
        longer.drop_nulls("step_ms").sort("over_median_step_ms", descending=True).select(columns).head(count)
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {sys.argv[0]} CAPTURE")
    found = slow_steps(ncclscope.open(sys.argv[1]))
    if found.is_empty():
        sys.exit("no pattern of calls repeats, so there are no steps")
    with pl.Config(tbl_hide_dataframe_shape=True):
        print(found)

"""Which rank do the others wait for, and in which operations?

    python late_rank.py CAPTURE

The table of arrivals has each rank's part in each collective. ``wait_ns`` is how long a rank waited for the
last one, so the wait in an operation is charged to the rank that arrived last in it.
"""

import sys

import polars as pl

import ncclscope


def late_ranks(capture: ncclscope.Capture) -> pl.DataFrame:
    """How often each rank came last, by function and size, and for how long the others waited then."""
    arrivals = capture.arrivals.to_polars()
    waits = arrivals.group_by("operation_id").agg(waited_ns=pl.col("wait_ns").sum())
    last = arrivals.filter("arrived_last").join(waits, on="operation_id")
    return (
        last.group_by("launcher_rank", "function", "bytes")
        .agg(pl.len().alias("times_last"), (pl.col("waited_ns").sum() / 1e9).alias("others_waited_s"))
        .sort("others_waited_s", descending=True)
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {sys.argv[0]} CAPTURE")
    with pl.Config(tbl_hide_dataframe_shape=True, tbl_rows=10):
        print(late_ranks(ncclscope.open(sys.argv[1])).head(10))

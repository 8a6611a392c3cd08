"""Which rank do the others wait for, and in which operations?

    python late_rank.py CAPTURE

The report's findings say who costs the job time, and they come first: they know pipelines of sends, and
who is to blame for a rank that is itself held up. The table of arrivals then has the operations: each rank's
part in each collective. ``wait_ns`` is how long a rank waited for the last one, so the wait in an operation
is charged to the rank that arrived last in it. Sends and receives have no arrivals.
"""

import sys

import polars as pl

import ncclscope


def blamed(capture: ncclscope.Capture) -> list[str]:
    """What the report says of late ranks, in sentences; the first costs most."""
    findings = capture.findings.to_polars().filter(pl.col("kind").is_in(["late_rank", "stall"]))
    return findings["sentence"].to_list()


def without_arrivals(capture: ncclscope.Capture) -> tuple[int, int]:
    """How many calls are sends and receives, which the table of arrivals does not know, and how many calls
    there are."""
    calls = capture.calls.select(["function"]).to_polars()
    return calls.filter(pl.col("function").is_in(["Send", "Recv"])).height, calls.height


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
    opened = ncclscope.open(sys.argv[1])
    print("\n".join(blamed(opened)) or "The report names no late rank.")
    with pl.Config(tbl_hide_dataframe_shape=True, tbl_rows=10):
        print(late_ranks(opened).head(10))
    sends, calls = without_arrivals(opened)
    if sends:
        print(f"{sends} of {calls} calls are sends and receives, which are not in this table.")

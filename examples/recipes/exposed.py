"""Which operations does the computing stand still for?

    python exposed.py CAPTURE

Communication that runs beside computing costs nothing but some speed. ``exposed_ns`` of a call is how long a
stream stood still for it, so these are the operations to overlap first. For them the capture must have stream
waits (docs/concepts/streams.md), which NCCLSCOPE_TIMING=auto records.
"""

import sys

import duckdb

import ncclscope


def exposed(capture: ncclscope.Capture) -> duckdb.DuckDBPyRelation:
    """By function and size: the GPU time of the calls with a known wait, and how much of it was exposed."""
    calls = capture.calls.select(["function", "bytes", "gpu_time_ns", "exposed_ns"])
    return duckdb.sql(
        """
        select function, bytes, count(*) as calls,
               round(sum(gpu_time_ns) / 1e6, 2) as gpu_ms,
               round(sum(exposed_ns) / 1e6, 2) as exposed_ms,
               round(100 * sum(exposed_ns) / sum(gpu_time_ns), 1) as percent_exposed
        from calls
        where exposed_ns is not null and gpu_time_ns > 0
        group by function, bytes
        order by exposed_ms desc
        limit 10
        """
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {sys.argv[0]} CAPTURE")
    found = exposed(ncclscope.open(sys.argv[1]))
    if len(found) == 0:
        sys.exit("no stream was seen to wait; `ncclscope report` says what was recorded")
    print(found)

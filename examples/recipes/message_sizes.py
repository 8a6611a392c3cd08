"""Which sizes does the job send, and how fast is each?

    python message_sizes.py CAPTURE

Small messages are bound by latency, and can often be put together; large ones should come near the bandwidth
that ``ncclscope bench`` measures on the same GPUs.
"""

import sys

import duckdb

import ncclscope


def message_sizes(capture: ncclscope.Capture) -> duckdb.DuckDBPyRelation:
    """Calls by function and power of two of their size, with their share of all time and median bandwidth."""
    operations = capture.operations
    return duckdb.sql(
        """
        select function,
               format_bytes((2 ** floor(log2(bytes)))::bigint) as from_size,
               sum(calls)::bigint as calls,
               round(100 * sum(time_ns_sum) / sum(sum(time_ns_sum)) over (), 1) as percent_of_time,
               round(median(busbw_gb_per_s), 2) as busbw_gb_per_s
        from operations
        where bytes > 0
        group by function, floor(log2(bytes))
        order by function, floor(log2(bytes))
        """
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {sys.argv[0]} CAPTURE")
    print(message_sizes(ncclscope.open(sys.argv[1])))

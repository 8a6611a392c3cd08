"""Which operations take the time, over all hosts of a job, from Parquet alone? With Polars.

    python dataset_polars.py FOLDER_OR_CAPTURE

The same as dataset_duckdb.py, as a lazy query: Polars reads only the columns that it needs.
"""

import sys
import tempfile
from pathlib import Path

import polars as pl

import ncclscope

KEYS = ["communicator", "function", "datatype", "bytes", "algorithm", "protocol"]


def operations(folder: Path) -> pl.DataFrame:
    """Calls, their GPU time in all, and its median and 95th percentile, by communicator and operation."""
    is_warmup = pl.col("ticket") == pl.col("ticket").min().over("process", "communicator")
    time = pl.col("time")
    place = (95 * time.count() + 99) // 100 - 1
    return (
        pl.scan_parquet(folder / "*/*.parquet", hive_partitioning=True)
        .filter(~pl.col("captured"), pl.col("operation") == pl.col("function"))
        .with_columns(time=pl.when(~is_warmup).then("gpu_time_ns"))
        .group_by(KEYS)
        .agg(
            pl.len().alias("calls"),
            pl.col("gpu_time_ns").count().alias("timed"),
            pl.when(time.count() > 0).then(time.sum()).alias("time_ns_sum"),
            time.median().alias("time_ns_p50"),
            time.drop_nulls().sort().get(place, null_on_oob=True).alias("time_ns_p95"),
        )
        .sort("communicator", "function", "bytes")
        .sort("time_ns_sum", descending=True, nulls_last=True, maintain_order=True)
        .collect()
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {sys.argv[0]} FOLDER_OR_CAPTURE")
    given = Path(sys.argv[1])
    if next(given.glob("*/*.parquet"), None):
        print(operations(given))
    else:
        with tempfile.TemporaryDirectory() as folder:
            ncclscope.export(given, "parquet", folder)
            print(operations(Path(folder)))

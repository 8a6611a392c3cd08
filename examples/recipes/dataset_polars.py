"""Which operations take the time, and which rank costs it, over all hosts of a job? With Polars.

    ncclscope export CAPTURE --table all --partition host,day -o FOLDER/
    python dataset_polars.py FOLDER_OR_CAPTURE

The same as dataset_duckdb.py, as lazy queries: Polars reads only the columns that it needs.
"""

import sys
import tempfile
from pathlib import Path

import polars as pl

import ncclscope

KEYS = ["communicator", "function", "datatype", "bytes", "algorithm", "protocol"]
IN_PIECES = pl.col("operation").is_in(["AlltoAll", "Gather", "Scatter"])


def calls(folder: Path) -> pl.LazyFrame:
    """What was executed. A host named 0042 stays a text."""
    schema = {"host": pl.String, "day": pl.String}
    files = folder / "calls/**/*.parquet"
    return pl.scan_parquet(files, hive_partitioning=True, hive_schema=schema).filter(~pl.col("captured"))


def operations(folder: Path) -> pl.DataFrame:
    """Calls, their GPU time in all, and its median and 95th percentile, by communicator and operation.

    Collectives only: an AlltoAll is made of sends and receives.
    """
    is_warmup = pl.col("ticket") == pl.col("ticket").min().over("process", "communicator")
    time = pl.col("time")
    place = (95 * time.count() + 99) // 100 - 1
    return (
        calls(folder)
        .filter(pl.col("operation") == pl.col("function"))
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


def ranks(folder: Path) -> pl.DataFrame:
    """Executions, their bytes, and how long streams stood still for them, by rank and function.

    An AlltoAll in pieces is one execution. Of a sample of calls, ``exposed_ns`` is the estimate for all.
    """
    is_timed = pl.col("operation_part").is_null() & (pl.col("gpu_time_source") == "events")
    is_piece = IN_PIECES & (pl.col("function") != pl.col("operation"))
    size = pl.when(is_piece).then(pl.col("bytes") * pl.col("nranks")).otherwise("bytes")
    # The calls of an operation in pieces share a part.
    executions = calls(folder).group_by(
        "process", part=pl.coalesce(pl.col("operation_part"), -1 - pl.col("ticket"))
    )
    first, exposed, known = pl.col("first"), pl.col("exposed"), pl.col("is_known")
    of_device = ["process", "device", "is_warmup"]
    waits = exposed.is_not_null().cum_sum().over([*of_device, "stream"], order_by="ticket")
    most = pl.col("waits").cum_max().over(of_device, order_by="ticket")
    exposed_ns = pl.col("still").filter(known).sum() * (~pl.col("is_warmup")).sum() / known.sum()
    return (
        executions.agg(
            pl.col("launcher_rank", "host", "device", "communicator", "datatype").first(),
            pl.col("operation").first().alias("function"),
            pl.col("ticket").max(),
            pl.col("ticket").min().alias("first"),
            size.max().alias("bytes"),
            pl.when(is_timed).then("gpu_time_ns").max().alias("time"),
            pl.col("waiting_stream").max().alias("stream"),
            pl.col("exposed_ns").max().alias("exposed"),
        )
        .with_columns(is_warmup=first == first.min().over("process", "communicator"))
        .with_columns(
            waits=waits,
            is_known=~pl.col("is_warmup")
            & pl.col("time").is_not_null()
            & (pl.col("stream").is_null() | exposed.is_not_null()),
        )
        # A stream that does not wait most may have been idle anyway: only the call's own time counts.
        .with_columns(
            still=pl.when(exposed.is_null())
            .then(0)
            .when(pl.col("waits") == most)
            .then(exposed)
            .otherwise(pl.min_horizontal("exposed", "time"))
        )
        .group_by("launcher_rank", "host", "device", "communicator", "function", "datatype", size="bytes")
        .agg(
            pl.len().alias("calls"),
            pl.col("bytes").sum(),
            pl.when(known.any()).then(exposed_ns).alias("exposed_ns"),
        )
        .group_by("launcher_rank", "host", "function")
        .agg(
            pl.col("calls").sum(),
            pl.col("bytes").sum(),
            pl.when(pl.col("exposed_ns").count() > 0).then(pl.col("exposed_ns").sum()).alias("exposed_ns"),
        )
        .sort("launcher_rank", "host", "function")
        .sort("exposed_ns", descending=True, nulls_last=True, maintain_order=True)
        .collect()
    )


def losses(folder: Path) -> pl.DataFrame:
    """How long each rank waited for later ones, and what the run loses by it, as the report says."""
    files = folder / "ranks/**/*.parquet"
    return (
        pl.scan_parquet(files, hive_partitioning=True, hive_schema={"host": pl.String})
        .select("launcher_rank", "host", "device", "calls", "waited_ns", "exposed_share", "loss_ns")
        .sort("launcher_rank", "host", "device")
        .sort("loss_ns", descending=True, nulls_last=True, maintain_order=True)
        .collect()
    )


def show(folder: Path) -> None:
    for figures in (operations, ranks, losses):
        print(figures(folder))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {sys.argv[0]} FOLDER_OR_CAPTURE")
    given = Path(sys.argv[1])
    if next(given.glob("calls/**/*.parquet"), None):
        show(given)
    else:
        with tempfile.TemporaryDirectory() as folder:
            ncclscope.export(given, "parquet", Path(folder, "calls"), partition=["host", "day"])
            ncclscope.export(given, "parquet", Path(folder, "ranks"), table="ranks", partition=["host"])
            show(Path(folder))

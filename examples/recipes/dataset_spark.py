"""Which operations take the time, and which rank costs it, over all hosts of a job? With Spark.

    ncclscope export CAPTURE --table all --partition host,day -o FOLDER/
    spark-submit dataset_spark.py FOLDER

The same as dataset_duckdb.py, for a cluster. It needs ``pip install pyspark`` and Java 17 or newer.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import ncclscope

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def session() -> SparkSession:
    """The session, in which a host named 0042 stays a text."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    return spark


def operations(folder: Path | str) -> DataFrame:
    """Calls, their GPU time in all, and its median and 95th percentile, by communicator and operation.

    Collectives only: an AlltoAll is made of sends and receives.
    """
    spark = session()
    spark.read.parquet(f"{folder}/calls").createOrReplaceTempView("calls")
    return spark.sql(
        """
        with executions as (
            select *, row_number() over (partition by process, communicator order by ticket) = 1 as is_warmup
            from calls
            where not captured and operation = function
        )
        select communicator, function, datatype, bytes, algorithm, protocol,
               count(*) as calls,
               count(gpu_time_ns) as timed,
               sum(time) as time_ns_sum,
               median(time) as time_ns_p50,
               get(sort_array(collect_list(time)), (95 * count(time) + 99) div 100 - 1) as time_ns_p95
        from (select *, case when not is_warmup then gpu_time_ns end as time from executions)
        group by communicator, function, datatype, bytes, algorithm, protocol
        order by time_ns_sum desc nulls last, communicator, function, bytes
        """
    )


def ranks(folder: Path | str) -> DataFrame:
    """Executions, their bytes, and how long streams stood still for them, by rank and function.

    An AlltoAll in pieces is one execution. Of a sample of calls, ``exposed_ns`` is the estimate for all.
    """
    spark = session()
    spark.read.parquet(f"{folder}/calls").createOrReplaceTempView("calls")
    return spark.sql(
        """
        with executions as (
            -- The calls of an operation in pieces share a part.
            select process, coalesce(operation_part, -1 - ticket) as part,
                   max(ticket) as ticket, min(ticket) as first,
                   any_value(launcher_rank) as launcher_rank, any_value(host) as host,
                   any_value(device) as device, any_value(communicator) as communicator,
                   any_value(operation) as function, any_value(datatype) as datatype,
                   max(case when function <> operation and operation in ('AlltoAll', 'Gather', 'Scatter')
                       then bytes * nranks else bytes end) as bytes,
                   max(case when operation_part is null and gpu_time_source = 'events'
                       then gpu_time_ns end) as time,
                   max(waiting_stream) as stream, max(exposed_ns) as exposed
            from calls
            where not captured
            group by process, coalesce(operation_part, -1 - ticket)
        ), warm as (
            select *, first = min(first) over (partition by process, communicator) as is_warmup
            from executions
        ), counted as (
            select *, count(exposed) over (partition by process, device, is_warmup, stream order by ticket)
                as waits
            from warm
        ), waited as (
            -- A stream that does not wait most may have been idle anyway: only the call's own time counts.
            select *,
                   case when exposed is null then 0
                       when waits = max(waits) over (partition by process, device, is_warmup order by ticket)
                       then exposed else least(exposed, time) end as still,
                   not is_warmup and time is not null and (stream is null or exposed is not null) as is_known
            from counted
        ), kinds as (
            select launcher_rank, host, device, communicator, function, datatype, bytes as size,
                   count(*) as calls, sum(bytes) as bytes,
                   sum(still) filter (where is_known) * count(*) filter (where not is_warmup)
                       / nullif(count(*) filter (where is_known), 0) as exposed_ns
            from waited
            group by launcher_rank, host, device, communicator, function, datatype, bytes
        )
        select launcher_rank, host, function, sum(calls) as calls, sum(bytes) as bytes,
               sum(exposed_ns) as exposed_ns
        from kinds
        group by launcher_rank, host, function
        order by exposed_ns desc nulls last, launcher_rank, host, function
        """
    )


def losses(folder: Path | str) -> DataFrame:
    """How long each rank waited for later ones, and what the run loses by it, as the report says."""
    rows = session().read.parquet(f"{folder}/ranks")
    rows = rows.select("launcher_rank", "host", "device", "calls", "waited_ns", "exposed_share", "loss_ns")
    return rows.orderBy(rows.loss_ns.desc_nulls_last(), "launcher_rank", "host", "device")


def show(folder: Path | str) -> None:
    for figures in (operations, ranks, losses):
        figures(folder).show(truncate=False)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {sys.argv[0]} FOLDER_OR_CAPTURE")
    given = Path(sys.argv[1])
    # A folder need not be on this machine.
    if "://" in sys.argv[1] or next(given.glob("calls/**/*.parquet"), None):
        show(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            ncclscope.export(given, "parquet", Path(folder, "calls"), partition=["host", "day"])
            ncclscope.export(given, "parquet", Path(folder, "ranks"), table="ranks", partition=["host"])
            show(folder)

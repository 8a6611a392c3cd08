"""Which operations take the time, over all hosts of a job, from Parquet alone? With DuckDB.

    python dataset_duckdb.py FOLDER_OR_CAPTURE

FOLDER is what ``ncclscope export CAPTURE --to parquet -o FOLDER/`` wrote, on any machine. The figures are
those of ``ncclscope report``. Collectives only: an AlltoAll is made of sends and receives.
"""

import sys
import tempfile
from pathlib import Path

import duckdb

import ncclscope


def operations(folder: Path) -> duckdb.DuckDBPyRelation:
    """Calls, their GPU time in all, and its median and 95th percentile, by communicator and operation."""
    return duckdb.sql(
        f"""
        with executions as (
            select *, row_number() over (partition by process, communicator order by ticket) = 1 as is_warmup
            from read_parquet('{folder}/*/*.parquet', hive_partitioning = true)
            where not captured and operation = function
        )
        select communicator, function, datatype, bytes, algorithm, protocol,
               count(*) as calls,
               count(gpu_time_ns) as timed,
               sum(time)::bigint as time_ns_sum,
               median(time) as time_ns_p50,
               list_sort(list(time))[(95 * count(time) + 99) // 100] as time_ns_p95
        from (select *, case when not is_warmup then gpu_time_ns end as time from executions)
        group by all
        order by time_ns_sum desc nulls last, communicator, function, bytes
        """
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

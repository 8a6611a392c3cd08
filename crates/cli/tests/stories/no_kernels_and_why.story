# A job without a GPU has no kernel windows: the table of kernels is empty, and its export says why.
ranks 2
virtual_time
all_reduce 1KiB x10
--- fake-nccl play job
announced 20, ABI v5
--- ncclscope export capture --to jsonl --table kernels
2| warning: the table of kernels is empty: no process has a CUDA driver
--- ncclscope export capture --to perfetto --table kernels
2| error: expected `--table` with `--to parquet`, `csv` or `jsonl`, found it with a time line
2|   hint: a time line has calls and kernels
[exit 2]

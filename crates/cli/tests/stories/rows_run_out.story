# One group of 3000 calls is open while 1 MiB has rows for fewer: those without a row still count, by cause.
ranks 2
group { all_reduce 1KiB x3000 }
--- NCCLSCOPE_MEMORY=1MiB fake-nccl play job
announced 6000, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Operations/,$p'
Completeness and trust
  2048 of 6000 announced calls recorded, 0 timed.
  3952 lost, rows_full: no free row: the live part was as large as NCCLSCOPE_MEMORY allows, or `/dev/shm` was full. They
    are counted in the totals.
  rank 0 on <host>: 1024 of 3000 recorded, 0 timed, live part snapshot; 1976 rows_full
  rank 1 on <host>: 1024 of 3000 recorded, 0 timed, live part snapshot; 1976 rows_full

Operations by host time (no GPU time; largest sum over ranks first; µs from API entry to return)
  function  bytes type comm algorithm calls sum_ms mean min p50 p95 p99 max
  AllReduce  1KiB f32  a37d -          3952      -    -   -   -   -   -   -
  AllReduce  1KiB f32  a37d RING/LL    2048      ·    ·   ·   ·   ·   ·   ·

Warm-up: first call of each rank on a communicator, in `calls` only above (longest first; µs)
  function  comm calls gpu_min gpu_p50 gpu_max host_min host_p50 host_max
  AllReduce a37d     2       -       -       -        ·        ·        ·

Notes
  There are no GPU times: the process has no CUDA driver.

<function> of <size> took <n> % of the host time in NCCL: <s> over ranks in <n> calls.
Next: NCCLSCOPE_MEMORY=64M ncclscope run -- <folder>/fake-nccl rank-process

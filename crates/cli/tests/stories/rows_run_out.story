# One group of 3000 calls is open while 1 MiB has rows for fewer: those without a row still count, by cause.
ranks 2
group { all_reduce 1KiB x3000 }
--- NCCLSCOPE_MEMORY=1MiB fake-nccl play job
announced 6000, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Operations/,$p'
Completeness
  2048 of 6000 announced calls recorded, 0 timed.
  3952 rows_full: no free row: a larger NCCLSCOPE_MEMORY has more; they are counted in the totals
  rank 0 on <host>: 1024 of 3000 recorded, 0 timed, live part snapshot; 1976 rows_full
  rank 1 on <host>: 1024 of 3000 recorded, 0 timed, live part snapshot; 1976 rows_full

Operations (largest total time first)
  function  bytes datatype communicator algorithm calls timed time sum_ms p50_us p95_us p99_us max_us
  AllReduce 1 KiB Float32  a37d5f01     -          3952     0 -         -      -      -      -      -
  AllReduce 1 KiB Float32  a37d5f01     RING/LL    2048     0 host      ·      ·      ·      ·      ·

Notes
  GPU times were not asked for (timing host); NCCLSCOPE_TIMING=stamps records them.

<function> of <size> took <n> % of the host time in NCCL: <s> s in <n> calls.
Next: NCCLSCOPE_MEMORY=64M ncclscope run -- <folder>/fake-nccl rank-process

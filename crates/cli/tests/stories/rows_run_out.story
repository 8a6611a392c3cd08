# One group of 3000 calls is open while 1 MiB has rows for fewer: those without a row still count, by cause.
ranks 2
virtual_time
group { all_reduce 1KiB x3000 }
--- NCCLSCOPE_MEMORY=1MiB fake-nccl play job
announced 6000, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Operations/,$p'
Completeness
  2048 of 6000 announced calls recorded, 0 timed.
  3952 lost, rows_full: no free row: as many calls were open, or waited to be written, as the live part can hold. If
    NCCLSCOPE_MEMORY is set, leave it out: the default of 64MiB is the most. If it is not, see that `/dev/shm` has room,
    and that the recorder's thread (`ncclscope`) gets time on a core: it makes rows free again. These calls are counted
    in the totals.
  rank 0 on <host>: 1024 of 3000 recorded, 0 timed, live part snapshot; 1976 rows_full
  rank 1 on <host>: 1024 of 3000 recorded, 0 timed, live part snapshot; 1976 rows_full

Operations by host time (no GPU time; largest sum over ranks first, sum in <unit>, mean to max in <unit> from API entry to
  return)
  function   size type    algorithm calls sum mean p50 p95 max
  AllReduce 1 KiB float32 -          3952   -    -   -   -   -
  AllReduce 1 KiB float32 RING/LL    2048   ·    ·   ·   ·   ·
  On average, a rank makes <n> collectives a second.

Notes
  There are no GPU times: the process has no CUDA driver.

Next: NCCLSCOPE_MEMORY=64MiB ncclscope run -- <folder>/fake-nccl rank-process

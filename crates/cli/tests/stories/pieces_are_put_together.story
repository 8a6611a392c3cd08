# AlltoAll, Gather and Scatter reach a profiler as sends and receives: counted one by one, reported as what they are.
ranks 4
virtual_time
all_to_all 4MiB x3
gather 1MiB root=2 x2
scatter 1MiB root=1
sync
group { send 1KiB to=+1 ; recv 1KiB from=-1 ; send 1KiB to=-1 ; recv 1KiB from=+1 }
--- fake-nccl play job
announced 136, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Operations/,$p'
Completeness
  136 of 136 announced calls recorded, 0 timed.

Operations by host time (no GPU time; largest sum over ranks first, sum in <unit>, mean to max in <unit> from API entry to
  return)
  function  size type    calls sum mean p50 p95 max
  AlltoAll 4 MiB float32    12   ·    ·   ·   ·   ·
  Gather   1 MiB float32     8   ·    ·   ·   ·   ·
  Recv     1 KiB float32     8   ·    ·   ·   ·   ·
  Scatter  1 MiB float32     4   ·    ·   ·   ·   ·
  Send     1 KiB float32     8   ·    ·   ·   ·   ·
  On average, a rank makes <n> collectives, <n> sends and <n> receives a second.

Notes
  There are no GPU times: the process has no CUDA driver.

Next: ncclscope view capture

# AlltoAll, Gather and Scatter reach a profiler as sends and receives: counted one by one, reported as what they are.
ranks 4
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

Operations (largest total time first)
  function bytes datatype communicator algorithm calls timed time sum_ms p50_us p95_us p99_us max_us
  AlltoAll 4 MiB Float32  8869398c     -            12     0 host      ·      ·      ·      -      ·
  Gather   1 MiB Float32  8869398c     -             8     0 host      ·      ·      ·      -      ·
  Recv     1 KiB Float32  8869398c     -             8     0 host      ·      ·      ·      -      ·
  Scatter  1 MiB Float32  8869398c     -             4     0 host      ·      ·      ·      -      ·
  Send     1 KiB Float32  8869398c     -             8     0 host      ·      ·      ·      -      ·

Notes
  GPU times were not asked for (timing host); NCCLSCOPE_TIMING=stamps records them.

<function> of <size> took <n> % of the host time in NCCL: <s> s in <n> calls.
Next: NCCLSCOPE_TIMING=stamps ncclscope run -- <folder>/fake-nccl rank-process

# A rank that never comes out of its call is in the capture with that call, open; its peer waits on the GPU.
ranks 2
all_reduce 1KiB x3
sleep 400ms
rank 1 hang_inside
all_reduce 8MiB
sleep 400ms
--- ncclscope run --timing stamps -o capture -- fake-nccl play job
announced 8, ABI v5
2| ncclscope: capture in capture: 2 processes, 8 calls; next: ncclscope report capture
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Operations/,$p'
Completeness
  8 of 8 announced calls recorded, 6 timed.
  not timed: 2 no_stamp

Operations (largest total time first)
  function  bytes datatype communicator algorithm   calls timed time sum_ms p50_us p95_us p99_us max_us
  AllReduce 1 KiB Float32  a37d5f01     RING/LL         6     6 gpu   0.060   10.0   10.0      -   10.0
  AllReduce 8 MiB Float32  a37d5f01     -               1     0 -         -      -      -      -      -
  AllReduce 8 MiB Float32  a37d5f01     RING/SIMPLE     1     0 host      ·      ·      ·      -      ·

AllReduce of 1 KiB took 100 % of the GPU time in NCCL: 0.060 ms in 6 calls.
Next: ncclscope report capture --json

# A captured graph is replayed ten times; with stamps NCCL shows each execution.
ranks 2
graph step { all_reduce 1KiB x2 ; all_reduce 1MiB }
replay step x10
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 66, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Operations/,$p'
Completeness
  66 of 66 announced calls recorded, 60 timed.
  not timed: 6 captured

Operations (largest total time first)
  function  bytes datatype communicator algorithm  calls timed time sum_ms p50_us p95_us p99_us max_us
  AllReduce 1 KiB Float32  a37d5f01     RING/LL       40    40 gpu   0.400   10.0   10.0      -   10.0
  AllReduce 1 MiB Float32  a37d5f01     RING/LL128    20    20 gpu   0.270   13.5   13.5      -   13.5
  AllReduce 1 KiB Float32  a37d5f01     -           0+4c     0 -         -      -      -      -      -
  AllReduce 1 MiB Float32  a37d5f01     -           0+2c     0 -         -      -      -      -      -

Notes
  6 calls were captured into CUDA graphs; NCCL showed 60 executions of them.

AllReduce of 1 KiB took 60 % of the GPU time in NCCL: 0.400 ms in 40 calls.
Next: ncclscope report capture --json

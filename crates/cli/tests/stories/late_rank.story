# A rank that is late makes the others wait on the GPU: their time is longer by the lateness.
ranks 2
all_reduce 1KiB x9
rank 1 late 5ms
all_reduce 1KiB
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 20, ABI v5
--- ncclscope report capture | sed -n '/^Operations/,$p'
Operations (largest total time first)
  function  bytes datatype communicator algorithm calls timed time sum_ms p50_us p95_us p99_us max_us
  AllReduce 1 KiB Float32  a37d5f01     RING/LL      20    20 gpu   5.200   10.0   10.0      - 5010.0

AllReduce of 1 KiB took 100 % of the GPU time in NCCL: 5.200 ms in 20 calls.
Next: ncclscope report capture --json

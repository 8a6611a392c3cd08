# NCCL stamps the end of TREE, NVLS and send/receive kernels early: the report says so.
ranks 2
all_reduce 1MiB algo=TREE x4
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 8, ABI v5
--- ncclscope report capture | sed -n '/^Operations/,$p'
Operations (largest total time first)
  function  bytes datatype communicator algorithm  calls timed time sum_ms p50_us p95_us p99_us max_us
  AllReduce 1 MiB Float32  a37d5f01     TREE/LL128     8     8 gpu   0.108   13.5   13.5      -   13.5

Notes
  GPU times of TREE, NVLS and send/receive are lower bounds: NCCL stamps the end before the last warps are done.

AllReduce of 1 MiB took 100 % of the GPU time in NCCL: 0.108 ms in 8 calls.
Next: ncclscope report capture --json

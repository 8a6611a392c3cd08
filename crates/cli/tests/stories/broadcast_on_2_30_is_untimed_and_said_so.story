# NCCL 2.30 announces no kernels for Broadcast: recorded, untimed, and the report says so.
nccl 2.30.7
ranks 2
all_reduce 1MiB x5
broadcast 1MiB x5
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 20, ABI v6
--- ncclscope report capture | sed '/^Communicators/,/^$/d'
Capture capture
  command  <folder>/fake-nccl rank-process
  job      2 processes of 2 ranks on <host>
  NCCL     2.30.7; mode trace, timing stamps

Completeness
  20 of 20 announced calls recorded, 10 timed.
  not timed: 10 no_stamp

Operations (largest total time first)
  function  bytes datatype communicator algorithm  calls timed time sum_ms p50_us p95_us p99_us max_us
  AllReduce 1 MiB Float32  a37d5f01     RING/LL128    10    10 gpu   0.135   13.5   13.5      -   13.5
  Broadcast 1 MiB Float32  a37d5f01     -             10     0 host      ·      ·      ·      -      ·

Notes
  NCCL 2.30.7 does not announce kernels for Broadcast: 10 calls have no algorithm, protocol or GPU time
    (NCCL_ALLGATHERV_ENABLE=0 brings them back).

AllReduce of 1 MiB took 100 % of the GPU time in NCCL: 0.135 ms in 10 calls.
Next: ncclscope report capture --json

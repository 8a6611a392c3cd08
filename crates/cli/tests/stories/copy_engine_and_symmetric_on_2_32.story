# Copy engines and symmetric kernels on NCCL 2.32.3, with their tags; and what an older NCCL does not tell of them.
nccl 2.32.3
ranks 2
all_gather 1MiB ce tag=7 x2
all_reduce 1MiB symmetric x3
all_reduce 1MiB tag=42
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 12, ABI v7
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Operations/,$p'
Completeness
  12 of 12 announced calls recorded, 8 timed.
  not timed: 4 no_stamp

Operations (largest total time first)
  function  bytes datatype communicator algorithm         calls timed time sum_ms p50_us p95_us p99_us max_us
  AllReduce 1 MiB Float32  a37d5f01     RSxLDMC_AGxSTMC/-     6     6 gpu   0.081   13.5   13.5      -   13.5
  AllReduce 1 MiB Float32  a37d5f01     RING/LL128            2     2 gpu   0.027   13.5   13.5      -   13.5
  AllGather 1 MiB Float32  a37d5f01     -                     4     0 host      ·      ·      ·      -      ·

Notes
  4 calls were done by copy engines, without a kernel: host time only.

AllReduce of 1 MiB took 75 % of the GPU time in NCCL: 0.081 ms in 6 calls.
Next: ncclscope report capture --json
--- rm -r capture; NCCLSCOPE_TIMING=stamps fake-nccl play job --nccl 2.28.9
announced 12, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Operations/,$p'
Completeness
  12 of 12 announced calls recorded, 2 timed.
  not timed: 10 no_stamp

Operations (largest total time first)
  function  bytes datatype communicator algorithm  calls timed time sum_ms p50_us p95_us p99_us max_us
  AllReduce 1 MiB Float32  a37d5f01     RING/LL128     2     2 gpu   0.027   13.5   13.5      -   13.5
  AllGather 1 MiB Float32  a37d5f01     -              4     0 host      ·      ·      ·      -      ·
  AllReduce 1 MiB Float32  a37d5f01     -              6     0 host      ·      ·      ·      -      ·

Notes
  NCCL 2.28.9 announced 10 calls at the API only, as it does with symmetric-memory kernels and copy engines: they have
    no algorithm, protocol or GPU time.

AllReduce of 1 MiB took 100 % of the GPU time in NCCL: 0.027 ms in 2 calls.
Next: ncclscope report capture --json

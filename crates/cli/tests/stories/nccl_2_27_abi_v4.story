# NCCL 2.27 (ABI v4): communicators known by rank and size, stamps.
nccl 2.27.7
ranks 2
all_reduce 1MiB x3
all_gather 1MiB x2 ; broadcast 1KiB
group { send 1MiB to=+1 ; recv 1MiB from=-1 }
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 16, ABI v4
--- ncclscope report capture
Capture capture
  command  <folder>/fake-nccl rank-process
  job      2 processes of 2 ranks on <host>
  NCCL     2.27.7; mode trace, timing stamps

Completeness
  16 of 16 announced calls recorded, 12 timed.
  not timed: 4 fused

Communicators (by first use; `here` counts the ranks that this capture holds)
  communicator     nranks nodes here name parent
  a37d5f01a3151d04      2     1    2 -    -

Operations (largest total time first)
  function  bytes datatype communicator algorithm  calls timed time sum_ms p50_us p95_us p99_us max_us
  AllReduce 1 MiB Float32  a37d5f01     RING/LL128     6     6 gpu   0.081   13.5   13.5      -   13.5
  AllGather 1 MiB Int8     a37d5f01     RING/LL128     4     4 gpu   0.054   13.5   13.5      -   13.5
  Broadcast 1 KiB Int8     a37d5f01     RING/LL        2     2 gpu   0.020   10.0   10.0      -   10.0
  Send      1 MiB Float32  a37d5f01     -              2     0 -         -      -      -      -      -
  Recv      1 MiB Float32  a37d5f01     -              2     0 -         -      -      -      -      -

Notes
  4 calls were launched in batches with others: the GPU time is the batch's, so they have none.

AllReduce of 1 MiB took 52 % of the GPU time in NCCL: 0.081 ms in 6 calls.
Next: ncclscope report capture --json

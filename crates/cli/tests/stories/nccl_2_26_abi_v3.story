# NCCL 2.26 (ABI v3): stamps are not offered yet.
nccl 2.26.6
ranks 2
all_reduce 1MiB x3
all_gather 1MiB x2 ; broadcast 1KiB
group { send 1MiB to=+1 ; recv 1MiB from=-1 }
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 16, ABI v3
--- ncclscope report capture
Capture capture
  command  <folder>/fake-nccl rank-process
  job      2 processes of 2 ranks on <host>
  NCCL     2.26.6; mode trace, timing stamps

Completeness
  16 of 16 announced calls recorded, 0 timed.

Communicators (by first use; `here` counts the ranks that this capture holds)
  communicator     nranks nodes here name parent
  a37d5f01a3151d04      -     -    2 -    -

Operations (largest total time first)
  function  bytes datatype communicator algorithm  calls timed time sum_ms p50_us p95_us p99_us max_us
  AllReduce 1 MiB Float32  a37d5f01     RING/LL128     6     0 -         -      -      -      -      -
  AllGather     - Int8     a37d5f01     RING/LL128     4     0 -         -      -      -      -      -
  Broadcast 1 KiB Int8     a37d5f01     RING/LL        2     0 -         -      -      -      -      -
  Send      1 MiB Float32  a37d5f01     -              2     0 -         -      -      -      -      -
  Recv      1 MiB Float32  a37d5f01     -              2     0 -         -      -      -      -      -

Notes
  NCCL 2.26.6 has no GPU stamps (2.27 on): no call has a GPU time.
  This NCCL does not tell a profiler how many ranks a communicator has (before 2.27): null, and so is what needs it.

No call has a time.
Next: ncclscope report capture --json

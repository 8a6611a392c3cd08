# The oldest NCCL with profiler plugins (ABI v1): names as numbers, no ranks.
nccl 2.23.4
ranks 2
all_reduce 1MiB x3
all_gather 1MiB x2 ; broadcast 1KiB
group { send 1MiB to=+1 ; recv 1MiB from=-1 }
--- fake-nccl play job
announced 16, ABI v1
--- ncclscope report capture
Capture capture
  command  <folder>/fake-nccl rank-process
  job      2 processes of 2 ranks on <host>
  NCCL     2.23.4; mode trace, timing host

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
  NCCL 2.23.4 has no GPU stamps (2.27 on): no call has a GPU time.
  This NCCL does not tell a profiler how many ranks a communicator has (before 2.27): null, and so is what needs it.

No call has a time.
Next: ncclscope report capture --json

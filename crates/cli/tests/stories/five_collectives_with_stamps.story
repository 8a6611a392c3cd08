# Five collectives on 4 GPUs with NCCL's stamps: every call recorded, every call timed.
ranks 4
repeat 3 {
  all_reduce 1KiB ; all_reduce 1MiB
  all_gather 2MiB ; reduce_scatter 4MiB ; reduce 8MiB ; broadcast 16MiB
}
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 72, ABI v5
--- ncclscope report capture
Capture capture
  command  <folder>/fake-nccl rank-process
  job      4 processes of 4 ranks on <host>
  NCCL     2.28.9; mode trace, timing stamps

Completeness
  72 of 72 announced calls recorded, 72 timed.

Communicators (by first use; `here` counts the ranks that this capture holds)
  communicator     nranks nodes here name parent
  8869398c7032ecc5      4     1    4 -    -

Operations (largest total time first)
  function       bytes datatype communicator algorithm   calls timed time sum_ms p50_us p95_us p99_us max_us
  Broadcast     16 MiB Float32  8869398c     RING/SIMPLE    12    12 gpu   0.791   65.9   66.0      -   66.0
  Reduce         8 MiB Float32  8869398c     RING/SIMPLE    12    12 gpu   0.455   38.0   38.0      -   38.0
  ReduceScatter  4 MiB Float32  8869398c     RING/SIMPLE    12    12 gpu   0.288   24.0   24.0      -   24.0
  AllGather      2 MiB Float32  8869398c     RING/SIMPLE    12    12 gpu   0.204   17.0   17.0      -   17.0
  AllReduce      1 MiB Float32  8869398c     RING/LL128     12    12 gpu   0.162   13.5   13.5      -   13.5
  AllReduce      1 KiB Float32  8869398c     RING/LL        12    12 gpu   0.120   10.0   10.0      -   10.0

Broadcast of 16 MiB took 39 % of the GPU time in NCCL: 0.791 ms in 12 calls.
Next: ncclscope report capture --json

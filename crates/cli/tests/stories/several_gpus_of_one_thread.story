# One process drives four GPUs by one thread, another job by a thread each: a communicator with four ranks in one process.
ranks 4
per_process 4
one_thread
all_reduce 1MiB x10
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 40, ABI v5
--- ncclscope report capture | sed -n '/job/p; /^Completeness/,$p'
  job      1 process of 4 ranks on <host>
Completeness
  40 of 40 announced calls recorded, 40 timed.

Communicators (by first use; `here` counts the ranks that this capture holds)
  communicator     nranks nodes here name parent
  8869398c7032ecc5      4     1    4 -    -

Operations (largest total time first)
  function  bytes datatype communicator algorithm  calls timed time sum_ms p50_us p95_us p99_us max_us
  AllReduce 1 MiB Float32  8869398c     RING/LL128    40    40 gpu   0.540   13.5   13.5      -   13.5

AllReduce of 1 MiB took 100 % of the GPU time in NCCL: 0.540 ms in 40 calls.
Next: ncclscope report capture --json
--- rm -r capture; sed -i /one_thread/d job; NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 40, ABI v5
--- ncclscope report capture | sed -n '/^Operations/,$p'
Operations (largest total time first)
  function  bytes datatype communicator algorithm  calls timed time sum_ms p50_us p95_us p99_us max_us
  AllReduce 1 MiB Float32  8869398c     RING/LL128    40    40 gpu   0.540   13.5   13.5      -   13.5

AllReduce of 1 MiB took 100 % of the GPU time in NCCL: 0.540 ms in 40 calls.
Next: ncclscope report capture --json

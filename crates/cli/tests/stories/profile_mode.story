# Mode profile keeps totals and histograms only: every call counts, percentiles are within 1 %.
ranks 2
repeat 200 { all_reduce 1MiB time=100us }
repeat 20 { all_reduce 1MiB time=500us }
--- NCCLSCOPE_MODE=profile NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 440, ABI v5
--- ncclscope report capture | sed '/^Communicators/,/^$/d'
Capture capture
  command  <folder>/fake-nccl rank-process
  job      2 processes of 2 ranks on <host>
  NCCL     2.28.9; mode profile, timing stamps

Completeness
  440 of 440 announced calls recorded, 440 timed.

Operations (largest total time first)
  function  bytes datatype communicator algorithm  calls timed time sum_ms p50_us p95_us p99_us max_us
  AllReduce 1 MiB Float32  a37d5f01     RING/LL128   440   440 gpu  60.000  100.0  500.0  500.0  500.0

Notes
  Percentiles of calls that were counted without rows come from histograms: error at most 1 %.

AllReduce of 1 MiB took 100 % of the GPU time in NCCL: 60.000 ms in 440 calls.
Next: ncclscope report capture --json

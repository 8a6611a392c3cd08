# Eight small calls of one group are launched as one batch, whose stamps are the batch's; eight by themselves have their own.
ranks 2
group { all_reduce 1KiB x8 }
repeat 8 { all_reduce 1KiB }
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 32, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Operations/,$p'
Completeness
  32 of 32 announced calls recorded, 16 timed.
  not timed: 16 fused

Operations (largest total time first)
  function  bytes datatype communicator algorithm calls timed time sum_ms p50_us p95_us p99_us max_us
  AllReduce 1 KiB Float32  a37d5f01     RING/LL      32    16 gpu   0.160   10.0   10.0      -   10.0

Notes
  16 calls were launched in batches with others: the GPU time is the batch's, so they have none.

AllReduce of 1 KiB took 100 % of the GPU time in NCCL: 0.160 ms in 32 calls.
Next: ncclscope report capture --json

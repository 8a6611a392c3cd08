# Eight small calls of one group are launched as one batch, whose stamps are the batch's; eight by themselves have their own.
ranks 2
virtual_time
group { all_reduce 1KiB x8 }
repeat 8 { all_reduce 1KiB }
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 32, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Operations/,$p'
Completeness
  32 of 32 announced calls recorded, 16 timed.
  16 calls have no GPU time: 16 fused (ncclscope explain fused).

Operations by GPU time (largest sum over ranks first, sum in µs, mean to max in µs, bandwidths in GB/s)
  function   size type    algorithm calls sum mean  p50  p95  max busbw call_bw
  AllReduce 1 KiB float32 RING/LL   16/32 160 10.0 10.0 10.0 10.0 0.102   0.102
  On average, a rank makes <n> collectives a second.

Waiting
  0.0 % of the GPU time in 8 operations was waiting for late ranks: 0 µs, summed over ranks. The transfers took 80.0 µs.

Next: ncclscope view capture

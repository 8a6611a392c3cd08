# A rank that is late makes the others wait on the GPU: their time is longer by the lateness.
ranks 2
virtual_time
all_reduce 1KiB x9
rank 1 late 5ms
all_reduce 1KiB
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 20, ABI v5
--- ncclscope report capture | sed -n '/^Operations/,$p'
Operations by GPU time (largest sum over ranks first, sum in ms, mean to max in ms, bandwidths in GB/s)
  function   size type    algorithm calls  sum  mean    p50  p95  max busbw call_bw
  AllReduce 1 KiB float32 RING/LL      20 5.18 0.288 0.0100 5.01 5.01 0.102   0.102
  On average, a rank makes <n> collectives a second.

Waiting
  96.5 % of the GPU time in 9 operations was waiting for late ranks: 5.00 ms, summed over ranks. The transfers took 90.0
    µs.

Next: ncclscope view capture

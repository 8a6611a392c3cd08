# A captured graph is replayed ten times; with stamps NCCL shows each execution.
ranks 2
virtual_time
graph step { all_reduce 1KiB x2 ; all_reduce 1MiB }
replay step x10
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 66, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Operations/,$p'
Completeness
  66 of 66 announced calls recorded, 60 timed.
  6 calls have no GPU time: 6 captured (ncclscope explain captured).

Operations by GPU time (largest sum over ranks first, sum in µs, mean to max in µs, bandwidths in GB/s)
  function   size type    algorithm  calls sum mean  p50  p95  max busbw call_bw
  AllReduce 1 KiB float32 RING/LL       40 380 10.0 10.0 10.0 10.0 0.102   0.102
  AllReduce 1 MiB float32 RING/LL128    20 270 13.5 13.5 13.5 13.5  77.6    77.6
  On average, a rank makes <n> collectives a second.

Waiting
  0.0 % of the GPU time in 29 operations was waiting for late ranks: 0 µs, summed over ranks. The transfers took 325 µs.

Next: ncclscope view capture

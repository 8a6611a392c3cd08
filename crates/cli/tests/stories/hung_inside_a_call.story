# A rank that never comes out of its call is in the capture with that call, open; its peer waits on the GPU.
ranks 2
all_reduce 1KiB x3
sleep 400ms
rank 1 hang_inside
all_reduce 8MiB
sleep 400ms
--- ncclscope run --timing stamps -o capture -- fake-nccl play job
announced 8, ABI v5
2| ncclscope: capture in capture: 2 processes, 8 calls; next: ncclscope report capture
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Operations/,$p'
Completeness
  8 of 8 announced calls recorded, 6 timed.
  2 calls have no GPU time: 1 no_stamp, 1 unfinished (ncclscope explain no_stamp).

Operations by GPU time (largest sum over ranks first, sum in µs, mean to max in µs, bandwidths in GB/s)
  function   size type    algorithm calls  sum mean  p50  p95  max busbw call_bw
  AllReduce 1 KiB float32 RING/LL       6 40.0 10.0 10.0 10.0 10.0 0.102   0.102
  2 operations have no GPU time (host times: --all).
  On average, a rank makes <n> collectives a second.

Waiting
  0.0 % of the GPU time in 2 operations was waiting for late ranks: 0 µs, summed over ranks. The transfers took 20.0 µs.

Next: ncclscope view capture

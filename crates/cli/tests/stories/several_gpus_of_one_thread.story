# One process drives four GPUs by one thread, another job by a thread each: a communicator with four ranks in one process.
ranks 4
virtual_time
per_process 4
one_thread
all_reduce 1MiB x10
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 40, ABI v5
--- ncclscope report capture | sed -n '/^  ranks/p; /^Completeness/,$p'
  ranks    1 process of 4 ranks on <host>
Completeness
  40 of 40 announced calls recorded, 40 timed.

Ranks (times in µs, nccl_% of the run; nccl: in its kernels)
  rank host   calls nccl nccl_%
     0 <host>    40  121      ·

Operations by GPU time (largest sum over ranks first, sum in µs, mean to max in µs, bandwidths in GB/s)
  function   size type    algorithm  calls sum mean  p50  p95  max busbw call_bw
  AllReduce 1 MiB float32 RING/LL128    40 486 13.5 13.5 13.5 13.5   116     116
  On average, a rank makes <n> collectives a second.

Next: ncclscope view capture
--- rm -r capture; sed -i /one_thread/d job; NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 40, ABI v5
--- ncclscope report capture | sed -n '/^Operations/,$p'
Operations by GPU time (largest sum over ranks first, sum in µs, mean to max in µs, bandwidths in GB/s)
  function   size type    algorithm  calls sum mean  p50  p95  max busbw call_bw
  AllReduce 1 MiB float32 RING/LL128    40 486 13.5 13.5 13.5 13.5   116     116
  On average, a rank makes <n> collectives a second.

Next: ncclscope view capture

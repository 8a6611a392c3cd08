# The first call on each communicator takes 20 ms: it counts as a call and is in no statistics.
ranks 2
virtual_time
all_reduce 1KiB time=20ms
repeat 150 { all_reduce 1KiB }
comm again
all_reduce 1KiB comm=again time=10ms
all_reduce 1KiB comm=again x4
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 312, ABI v5
--- ncclscope report capture --all | sed -n '/^Completeness/,/^$/p; /^Operations/,/^$/p; /^Warm-up/,$p'
Completeness
  312 of 312 announced calls recorded, 312 timed.
  Recording cost this job: callbacks <n> % (estimated).

Operations by GPU time (largest sum over ranks first, sum in ms, mean to max in µs, bandwidths in GB/s)
  function   size type    comm algorithm calls    sum mean  min  p50  p95  p99  max algbw busbw call_bw
  AllReduce 1 KiB float32 a37d RING/LL     302   3.00 10.0 9.98 10.0 10.0 10.0 10.0 0.102 0.102   0.102
  AllReduce 1 KiB float32 b09e RING/LL      10 0.0800 10.0 9.98 10.0 10.0    - 10.0 0.102 0.102   0.102
  On average, a rank makes <n> collectives a second.

Warm-up: first call of each rank on a communicator, in no other time here (longest first, GPU in ms, host in <unit>)
  function  comm calls gpu_min gpu_p50 gpu_max host_min host_p50 host_max
  AllReduce a37d     2    20.0    20.0    20.0        ·        ·        ·
  AllReduce b09e     2    10.0    10.0    10.0        ·        ·        ·

Next: ncclscope view capture

# The first call on each communicator takes 20 ms: it counts as a call and is in no statistics.
ranks 2
all_reduce 1KiB time=20ms
repeat 150 { all_reduce 1KiB }
comm again
all_reduce 1KiB comm=again time=10ms
all_reduce 1KiB comm=again x4
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 312, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Operations/,/^$/p; /^Warm-up/,$p'
Completeness and trust
  312 of 312 announced calls recorded, 312 timed.
  Recording cost this job: callbacks <n> % (counted × measured).

Operations by GPU time (largest sum over ranks first; calls are timed/all; µs; bandwidths in GB/s)
  function  bytes type comm algorithm calls sum_ms mean  min  p50  p95  p99  max algbw busbw call_bw
  AllReduce  1KiB f32  a37d RING/LL     302  3.001 10.0 9.98 10.0 10.0 10.0 10.0 0.102 0.102   0.102
  AllReduce  1KiB f32  b09e RING/LL      10  0.080 10.0 9.98 10.0 10.0    - 10.0 0.102 0.102   0.102

Warm-up: first call of each rank on a communicator, in `calls` only above (longest first; µs)
  function  comm calls gpu_min gpu_p50 gpu_max host_min host_p50 host_max
  AllReduce a37d     2   20000   20000   20000        ·        ·        ·
  AllReduce b09e     2   10000   10000   10000        ·        ·        ·

Waiting for the last rank (shortest GPU time of each operation; assumes common ends)
  0 % of the GPU time in 154 matched operations was waiting: 0.000 rank-ms; transfer took 1.540 ms of the wall.

AllReduce of 1 KiB took 97 % of the GPU time in NCCL: 3.001 ms over ranks in 302 calls (300 timed, first calls apart).
Next: ncclscope export capture --to perfetto -o capture.pftrace

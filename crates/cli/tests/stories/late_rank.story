# A rank that is late makes the others wait on the GPU: their time is longer by the lateness.
ranks 2
all_reduce 1KiB x9
rank 1 late 5ms
all_reduce 1KiB
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 20, ABI v5
--- ncclscope report capture | sed -n '/^Operations/,$p'
Operations by GPU time (largest sum over ranks first; calls are timed/all; µs; bandwidths in GB/s)
  function  bytes type comm algorithm calls sum_ms  mean  min  p50  p95 p99  max algbw busbw call_bw
  AllReduce  1KiB f32  a37d RING/LL      20  5.180 287.8 9.98 10.0 5010   - 5010 0.102 0.102   0.102

Warm-up: first call of each rank on a communicator, in `calls` only above (longest first; µs)
  function  comm calls gpu_min gpu_p50 gpu_max host_min host_p50 host_max
  AllReduce a37d     2    10.0    10.0    10.0        ·        ·        ·

Waiting for the last rank (shortest GPU time of each operation; assumes common ends)
  97 % of the GPU time in 9 matched operations was waiting: 5.000 rank-ms; transfer took 0.090 ms of the wall.

AllReduce of 1 KiB took 100 % of the GPU time in NCCL: 5.180 ms over ranks in 20 calls (18 timed, first calls apart).
Next: ncclscope export capture --to perfetto -o capture.pftrace

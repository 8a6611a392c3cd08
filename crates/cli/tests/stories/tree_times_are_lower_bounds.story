# NCCL stamps the end of TREE, NVLS and send/receive kernels early: the report says so.
ranks 2
all_reduce 1MiB algo=TREE x4
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 8, ABI v5
--- ncclscope report capture | sed -n '/^Operations/,$p'
Operations by GPU time (largest sum over ranks first; calls are timed/all; µs; bandwidths in GB/s)
  function  bytes type comm algorithm  calls sum_ms mean  min  p50  p95 p99  max algbw busbw call_bw
  AllReduce  1MiB f32  a37d TREE/LL128     8  0.081 13.5 13.5 13.5 13.5   - 13.5  77.6  77.6    77.6

Warm-up: first call of each rank on a communicator, in `calls` only above (longest first; µs)
  function  comm calls gpu_min gpu_p50 gpu_max host_min host_p50 host_max
  AllReduce a37d     2    13.5    13.5    13.5        ·        ·        ·

Waiting for the last rank (shortest GPU time of each operation; assumes common ends)
  0 % of the GPU time in 3 matched operations was waiting: 0.000 rank-ms; transfer took 0.040 ms of the wall.

Notes
  GPU times of TREE, NVLS and send/receive are lower bounds: NCCL stamps the end before the last warps are done.

AllReduce of 1 MiB took 100 % of the GPU time in NCCL: 0.081 ms over ranks in 6 calls.
Next: ncclscope export capture --to perfetto -o capture.pftrace

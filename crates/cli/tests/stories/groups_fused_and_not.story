# Eight small calls of one group are launched as one batch, whose stamps are the batch's; eight by themselves have their own.
ranks 2
group { all_reduce 1KiB x8 }
repeat 8 { all_reduce 1KiB }
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 32, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Operations/,$p'
Completeness and trust
  32 of 32 announced calls recorded, 16 timed.
  16 not timed, fused: launched in one batch with other operations, whose stamps are the batch's: only ungrouped calls
    are timed one by one.
  Recording cost this job: callbacks <n> % (counted × measured).

Operations by GPU time (largest sum over ranks first; calls are timed/all; µs; bandwidths in GB/s)
  function  bytes type comm algorithm calls sum_ms mean  min  p50  p95 p99  max algbw busbw call_bw
  AllReduce  1KiB f32  a37d RING/LL   16/32  0.160 10.0 9.98 10.0 10.0   - 10.0 0.102 0.102   0.102

Warm-up: first call of each rank on a communicator, in `calls` only above (longest first; µs)
  function  comm calls gpu_min gpu_p50 gpu_max host_min host_p50 host_max
  AllReduce a37d     2       -       -       -        ·        ·        ·

Waiting for the last rank (shortest GPU time of each operation; assumes common ends)
  0 % of the GPU time in 8 matched operations was waiting: 0.000 rank-ms; transfer took 0.080 ms of the wall.

AllReduce of 1 KiB took 100 % of the GPU time in NCCL: 0.160 ms over ranks in 32 calls (16 timed, first calls apart).
Next: ncclscope export capture --to perfetto -o capture.pftrace

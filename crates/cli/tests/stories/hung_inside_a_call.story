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
Completeness and trust
  8 of 8 announced calls recorded, 6 timed.
  1 not timed, no_stamp: NCCL delivered no GPU stamp, and no CUDA events lie around its launch. With
    NCCLSCOPE_TIMING=stamps, copy engines, symmetric kernels and silent Broadcasts have none (see Notes); with events,
    graph replays and what NCCL launches without saying so; with host, all. Nor has a call that never began, or that
    lost its row before it began (rows ran short: a larger NCCLSCOPE_MEMORY has more).
  1 not timed, unfinished: not ended when the recording did: the job was killed, hangs there, still runs, or left by
    _exit() before NCCL had told of the end.
  Recording cost this job: callbacks <n> % (counted × measured).

Operations by GPU time (largest sum over ranks first; calls are timed/all; µs; bandwidths in GB/s)
  function  bytes type comm algorithm calls sum_ms mean  min  p50  p95 p99  max algbw busbw call_bw
  AllReduce  1KiB f32  a37d RING/LL       6  0.040 10.0 9.98 10.0 10.0   - 10.0 0.102 0.102   0.102

Operations by host time (no GPU time; largest sum over ranks first; µs from API entry to return)
  function  bytes type comm algorithm   calls sum_ms mean min p50 p95 p99 max
  AllReduce  8MiB f32  a37d -               1      -    -   -   -   -   -   -
  AllReduce  8MiB f32  a37d RING/SIMPLE     1      ·    ·   ·   ·   ·   -   ·

Warm-up: first call of each rank on a communicator, in `calls` only above (longest first; µs)
  function  comm calls gpu_min gpu_p50 gpu_max host_min host_p50 host_max
  AllReduce a37d     2    10.0    10.0    10.0        ·        ·        ·

Waiting for the last rank (shortest GPU time of each operation; assumes common ends)
  0 % of the GPU time in 2 matched operations was waiting: 0.000 rank-ms; transfer took 0.020 ms of the wall.

AllReduce of 1 KiB took 100 % of the GPU time in NCCL: 0.040 ms over ranks in 6 calls (4 timed, first calls apart).
Next: ncclscope export capture --to perfetto -o capture.pftrace

# Copy engines and symmetric kernels on NCCL 2.32.3, with their tags; and what an older NCCL does not tell of them.
nccl 2.32.3
ranks 2
all_gather 1MiB ce tag=7 x2
all_reduce 1MiB symmetric x3
all_reduce 1MiB tag=42
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 12, ABI v7
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Operations/,$p'
Completeness and trust
  12 of 12 announced calls recorded, 8 timed.
  4 not timed, no_stamp: NCCL delivered no GPU stamp, and no CUDA events lie around its launch. With
    NCCLSCOPE_TIMING=stamps, copy engines, symmetric kernels and silent Broadcasts have none (see Notes); with events,
    graph replays and what NCCL launches without saying so; with host, all. Nor has a call that never began, or that
    lost its row before it began (rows ran short: a larger NCCLSCOPE_MEMORY has more).

Operations by GPU time (largest sum over ranks first; calls are timed/all; µs; bandwidths in GB/s)
  function  bytes type comm algorithm         calls sum_ms mean  min  p50  p95 p99  max algbw busbw call_bw
  AllReduce  1MiB f32  a37d RSxLDMC_AGxSTMC/-     6  0.081 13.5 13.5 13.5 13.5   - 13.5  77.6  77.6    77.6
  AllReduce  1MiB f32  a37d RING/LL128            2  0.027 13.5 13.5 13.5 13.5   - 13.5  77.6  77.6    77.6

Operations by host time (no GPU time; largest sum over ranks first; µs from API entry to return)
  function  bytes type comm algorithm calls sum_ms mean min p50 p95 p99 max
  AllGather  1MiB f32  a37d -             4      ·    ·   ·   ·   ·   -   ·

Warm-up: first call of each rank on a communicator, in `calls` only above (longest first; µs)
  function  comm calls gpu_min gpu_p50 gpu_max host_min host_p50 host_max
  AllGather a37d     2       -       -       -        ·        ·        ·

Waiting for the last rank (shortest GPU time of each operation; assumes common ends)
  0 % of the GPU time in 4 matched operations was waiting: 0.000 rank-ms; transfer took 0.054 ms of the wall.

Notes
  4 calls were done by copy engines, without a kernel: host time only.

AllReduce of 1 MiB took 75 % of the GPU time in NCCL: 0.081 ms over ranks in 6 calls.
Next: ncclscope export capture --to perfetto -o capture.pftrace
--- rm -r capture; NCCLSCOPE_TIMING=stamps fake-nccl play job --nccl 2.28.9
announced 12, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Operations/,$p'
Completeness and trust
  12 of 12 announced calls recorded, 2 timed.
  10 not timed, no_stamp: NCCL delivered no GPU stamp, and no CUDA events lie around its launch. With
    NCCLSCOPE_TIMING=stamps, copy engines, symmetric kernels and silent Broadcasts have none (see Notes); with events,
    graph replays and what NCCL launches without saying so; with host, all. Nor has a call that never began, or that
    lost its row before it began (rows ran short: a larger NCCLSCOPE_MEMORY has more).

Operations by GPU time (largest sum over ranks first; calls are timed/all; µs; bandwidths in GB/s)
  function  bytes type comm algorithm  calls sum_ms mean  min  p50  p95 p99  max algbw busbw call_bw
  AllReduce  1MiB f32  a37d RING/LL128     2  0.027 13.5 13.5 13.5 13.5   - 13.5  77.6  77.6    77.6

Operations by host time (no GPU time; largest sum over ranks first; µs from API entry to return)
  function  bytes type comm algorithm calls sum_ms mean min p50 p95 p99 max
  AllGather  1MiB f32  a37d -             4      ·    ·   ·   ·   ·   -   ·
  AllReduce  1MiB f32  a37d -             6      ·    ·   ·   ·   ·   -   ·

Warm-up: first call of each rank on a communicator, in `calls` only above (longest first; µs)
  function  comm calls gpu_min gpu_p50 gpu_max host_min host_p50 host_max
  AllGather a37d     2       -       -       -        ·        ·        ·

Waiting for the last rank (shortest GPU time of each operation; assumes common ends)
  0 % of the GPU time in 1 matched operations was waiting: 0.000 rank-ms; transfer took 0.014 ms of the wall.

Notes
  NCCL 2.28.9 announced 10 calls at the API only, as it does with symmetric-memory kernels and copy engines: they have
    no algorithm, protocol or GPU time.

AllReduce of 1 MiB took 100 % of the GPU time in NCCL: 0.027 ms over ranks in 2 calls.
Next: ncclscope export capture --to perfetto -o capture.pftrace

# NCCL 2.30 announces no kernels for Broadcast: recorded, untimed, and the report says so.
nccl 2.30.7
ranks 2
all_reduce 1MiB x5
broadcast 1MiB x5
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 20, ABI v6
--- ncclscope report capture | sed '/^Communicators/,/^$/d'
No rank holds the others up by as much as can be proved. How much of its time NCCL stops the computing is not known:
there are no kernel windows.
in NCCL <n> % of the run (median rank) · AllReduce of 1 MiB at 77.6 GB/s (busbw)

Capture capture
  command  <folder>/fake-nccl rank-process
  job      2 processes of 2 ranks on <host>
  NCCL     2.30.7; mode trace, timing stamps
  GPU      <gpu>; driver <driver>
  run      <s> s on the longest rank

Completeness and trust
  20 of 20 announced calls recorded, 10 timed.
  10 not timed, no_stamp: NCCL delivered no GPU stamp, and no CUDA events lie around its launch. With
    NCCLSCOPE_TIMING=stamps, copy engines, symmetric kernels and silent Broadcasts have none (see Notes); with events,
    graph replays and what NCCL launches without saying so; with host, all. Nor has a call that never began, or that
    lost its row before it began (rows ran short: a larger NCCLSCOPE_MEMORY has more).
  Recording cost this job: callbacks <n> % (counted × measured).

Ranks (over 2; nccl_ms is the union of a rank's NCCL intervals after warm-up, share_% that by wall_ms)
  figure  clock   min median   max
  calls   -        10     10    10
  nccl_ms gpu   0.054  0.054 0.054
  wall_ms host      ·      ·     ·
  share_% gpu       ·      ·     ·

Functions (largest GPU time first; sums over ranks; %: of all calls and GPU time; api to proxy: mean/p50 of a call, µs)
  function  calls calls_% gpu_ms gpu_% host_ms api enqueue launch    kernel proxy
  AllReduce    10    50.0  0.108 100.0       ·   ·       ·      · 13.5/13.5     -
  Broadcast    10    50.0      -     -       ·   ·       -      -         -     -
  all          20   100.0  0.108 100.0       ·   -       -      -         -     -

Operations by GPU time (largest sum over ranks first; calls are timed/all; µs; bandwidths in GB/s)
  function  bytes type comm algorithm  calls sum_ms mean  min  p50  p95 p99  max algbw busbw call_bw
  AllReduce  1MiB f32  a37d RING/LL128    10  0.108 13.5 13.5 13.5 13.5   - 13.5  77.6  77.6    77.6

Operations by host time (no GPU time; largest sum over ranks first; µs from API entry to return)
  function  bytes type comm algorithm calls sum_ms mean min p50 p95 p99 max
  Broadcast  1MiB f32  a37d -            10      ·    ·   ·   ·   ·   -   ·

Warm-up: first call of each rank on a communicator, in `calls` only above (longest first; µs)
  function  comm calls gpu_min gpu_p50 gpu_max host_min host_p50 host_max
  AllReduce a37d     2    13.5    13.5    13.5        ·        ·        ·

Waiting for the last rank (shortest GPU time of each operation; assumes common ends)
  0 % of the GPU time in 4 matched operations was waiting: 0.000 rank-ms; transfer took 0.054 ms of the wall.

Notes
  NCCL 2.30.7 does not announce kernels for Broadcast: 10 calls have no algorithm, protocol or GPU time
    (NCCL_ALLGATHERV_ENABLE=0 brings them back).

AllReduce of 1 MiB took 100 % of the GPU time in NCCL: 0.108 ms over ranks in 10 calls (8 timed, first calls apart).
Next: ncclscope export capture --to perfetto -o capture.pftrace

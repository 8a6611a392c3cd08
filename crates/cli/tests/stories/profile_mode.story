# Mode profile keeps totals and histograms only: every call counts, percentiles are within 1 %.
ranks 2
repeat 200 { all_reduce 1MiB time=100us }
repeat 20 { all_reduce 1MiB time=500us }
--- NCCLSCOPE_MODE=profile NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 440, ABI v5
--- ncclscope report capture | sed '/^Communicators/,/^$/d'
AllReduce of 1 MiB took 100 % of the GPU time in NCCL: 60.000 ms over ranks in 440 calls.

Capture capture
  command  <folder>/fake-nccl rank-process
  job      2 processes of 2 ranks on <host>
  NCCL     2.28.9; mode profile, timing stamps
  GPU      <gpu>; driver <driver>
  run      <s> s on the longest rank

Completeness and trust
  440 of 440 announced calls recorded, 440 timed.

Ranks (over 2; nccl_ms is the union of a rank's NCCL intervals after warm-up, share_% that by wall_ms)
  figure  clock min median max
  calls   -     220    220 220
  wall_ms host    ·      ·   ·

Functions (largest GPU time first; sums over ranks; %: of all calls and GPU time; api to proxy: mean/p50 of a call, µs)
  function  calls calls_% gpu_ms gpu_% host_ms api enqueue launch kernel proxy
  AllReduce   440   100.0 60.000 100.0       ·   -       -      -      -     -

Operations by GPU time (largest sum over ranks first; calls are timed/all; µs; bandwidths in GB/s)
  function  bytes type comm algorithm  calls sum_ms  mean   min   p50   p95   p99   max algbw busbw call_bw
  AllReduce  1MiB f32  a37d RING/LL128   440 60.000 136.4 100.0 100.0 500.0 500.0 500.0     -     -    10.5

Notes
  No operation has a row with a GPU time from every rank of its communicator: there is no algbw or busbw of the shortest
    rank.
  Percentiles of calls that were counted without rows come from histograms: error at most 1 %.

AllReduce of 1 MiB took 100 % of the GPU time in NCCL: 60.000 ms over ranks in 440 calls.
Next: ncclscope export capture --to perfetto -o capture.pftrace

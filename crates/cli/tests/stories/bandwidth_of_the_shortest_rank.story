# Rank 3 is late at each call: busbw comes from its time, which is the shortest; call_bw has the others' waiting in it.
# It is named as the one that the others wait for.
ranks 4
all_reduce 1KiB
sync
rank 3 slow 500us
repeat 120 { all_reduce 64MiB time=200us }
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 484, ABI v5
--- ncclscope report capture | sed -n '/^Ranks/,/^$/p; /^Operations/,/^$/p'
Ranks (over 4; nccl_ms is the union of a rank's NCCL intervals after warm-up, share_% that by wall_ms)
  figure  clock    min median    max
  calls   -        121    121    121
  nccl_ms gpu   24.000 61.390 61.390
  wall_ms host       ·      ·      ·
  share_% gpu        ·      ·      ·
  rank 3 on <host>: 24.000 ms in NCCL, the median rank 61.390: it waits less, so the others wait for it

Operations by GPU time (largest sum over ranks first; calls are timed/all; µs; bandwidths in GB/s)
  function  bytes type comm algorithm   calls  sum_ms  mean   min   p50   p95   p99   max algbw busbw call_bw
  AllReduce 64MiB f32  8869 RING/SIMPLE   480 208.170 433.7 200.0 510.0 510.0 510.0 700.0 335.5 503.3   197.4

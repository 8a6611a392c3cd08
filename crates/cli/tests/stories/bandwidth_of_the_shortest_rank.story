# Rank 3 is late at each call: busbw comes from its time, which is the shortest; call_bw has the others' waiting in it.
# It is named as the one that the others wait for.
ranks 4
virtual_time
all_reduce 1KiB
sync
rank 3 slow 500us
repeat 120 { all_reduce 64MiB time=200us }
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 484, ABI v5
--- ncclscope report capture | sed -n '/^Ranks/,/^$/p; /^Operations/,/^$/p'
Ranks (times in ms, nccl_% of the run; nccl: in its kernels; last: to arrive in 120 operations)
  rank host   calls nccl nccl_% waited last costs
     0 <host>   121 61.4      ·   37.4    0     -
     1 <host>   121 61.4      ·   37.4    0     -
     2 <host>   121 61.4      ·   37.4    0     -
     3 <host>   121 24.0      ·      0  120     ·

Operations by GPU time (largest sum over ranks first, sum in ms, mean to max in µs, bandwidths in GB/s)
  function    size type    algorithm   calls sum mean p50 p95 max busbw call_bw
  AllReduce 64 MiB float32 RING/SIMPLE   480 208  434 510 510 700   503     233
  On average, a rank makes <n> collectives a second.

# 1 GiB in a microsecond: no bandwidth is given, and the report says why.
ranks 2
virtual_time
all_reduce 1KiB
all_reduce 1GiB time=1us x3
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 8, ABI v5
--- ncclscope report capture | sed -n '/^Operations/,/^$/p; /^Notes/,/^$/p'
Operations by GPU time (largest sum over ranks first, sum in µs, mean to max in µs, bandwidths in GB/s)
  function   size type    algorithm   calls  sum mean   p50  p95  max
  AllReduce 1 GiB float32 RING/SIMPLE     6 6.02 1.00 0.992 1.02 1.02
  On average, a rank makes <n> collectives a second.

Notes
  No bandwidth for AllReduce: 1073741824 bytes in 0.992 µs would be 1082401 GB/s; no GPU's links move 3600.
--- ncclscope report capture --json | jq -c '.operations[] | [.function, .bytes, .matched, .algbw_gb_per_s, .busbw_gb_per_s, .call_busbw_gb_per_s, .bandwidth_refused]'
["AllReduce",1073741824,3,null,null,null,"1073741824 bytes in 0.992 µs would be 1082401 GB/s; no GPU's links move 3600"]
["AllReduce",1024,0,null,null,null,null]

# NCCL stamps the end of TREE, NVLS and send/receive kernels too early: such calls have no time, and the report says why.
ranks 2
virtual_time
all_reduce 1MiB algo=TREE x4
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 8, ABI v5
--- ncclscope report capture | sed -n '/^Operations/,$p'
Operations by host time (no GPU time; largest sum over ranks first, sum in <unit>, mean to max in <unit> from API entry to
  return)
  function   size type    algorithm  calls sum mean p50 p95 max
  AllReduce 1 MiB float32 TREE/LL128     8   ·    ·   ·   ·   ·
  On average, a rank makes <n> collectives a second.

Next: NCCLSCOPE_TIMING=auto ncclscope run -- <folder>/fake-nccl rank-process

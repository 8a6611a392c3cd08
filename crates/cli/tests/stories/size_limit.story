# The trace file may take 64 KiB: calls beyond it count in totals.
ranks 2
rate 10000/s
all_reduce 1KiB x10000
--- NCCLSCOPE_MAX_SIZE=64KiB NCCLSCOPE_FLUSH=0.05 fake-nccl play job
announced 20000, ABI v5
--- ncclscope report capture --json | jq -c '.completeness | {announced, adds_up, lost: (.lost | keys), sum: (.recorded + .lost.size_limit)}'
{"announced":20000,"adds_up":true,"lost":["size_limit"],"sum":20000}
--- ncclscope report capture | sed -n '/^Operations/,$p'
Operations (largest total time first)
  function  bytes datatype communicator algorithm calls timed time sum_ms p50_us p95_us p99_us max_us
  AllReduce 1 KiB Float32  a37d5f01     RING/LL   20000     0 host      ·      ·      ·      ·      ·

Notes
  GPU times were not asked for (timing host); NCCLSCOPE_TIMING=stamps records them.
  Percentiles of calls that were counted without rows come from histograms: error at most 1 %.

<function> of <size> took <n> % of the host time in NCCL: <s> s in <n> calls.
Next: NCCLSCOPE_TIMING=stamps ncclscope run -- <folder>/fake-nccl rank-process
--- du -a --apparent-size capture | awk '/trace$/ {print ($1 < 100) ? "below 100 KiB" : $1}'
below 100 KiB
below 100 KiB

# The trace files of a process may take 64 KiB: the first calls and the newest are kept, those between count in totals.
ranks 2
virtual_time
rate 10000/s
all_reduce 1KiB x10000
--- NCCLSCOPE_MAX_SIZE=64KiB NCCLSCOPE_FLUSH=0.05 fake-nccl play job
announced 20000, ABI v5
--- ncclscope report capture --json | jq -c '.completeness | {announced, adds_up, lost: (.lost | keys), sum: (.recorded + .lost.rotated)}'
{"announced":20000,"adds_up":true,"lost":["rotated"],"sum":20000}
--- ncclscope report capture | sed -n '/^Operations/,$p'
Operations by host time (no GPU time; largest sum over ranks first, sum in <unit>, mean to max in <unit> from API entry to
  return)
  function   size type    algorithm calls sum mean p50 p95 max
  AllReduce 1 KiB float32 RING/LL   20000   ·    ·   ·   ·   ·
  On average, a rank makes <n> collectives a second.

Notes
  There are no GPU times: the process has no CUDA driver.
  Percentiles of calls that were counted without rows come from histograms: error at most 1 %.

Next: ncclscope view capture
--- du -c --apparent-size --bytes capture/*/*.trace | awk '/total$/ {print ($1 <= 2 * 65536) ? "at most 64 KiB a process" : $1}'
at most 64 KiB a process
--- ls capture/* | wc -l
10
--- ncclscope doctor capture | grep -A 1 'removed for newer' | sed 's/[0-9]* calls/N calls/'
  fail    N calls were in trace files that were removed for newer ones
          remedy: a larger NCCLSCOPE_MAX_SIZE, or NCCLSCOPE_MODE=profile

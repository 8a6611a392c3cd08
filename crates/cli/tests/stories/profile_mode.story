# Mode profile keeps totals and histograms only: every call counts, percentiles are within 1 %.
ranks 2
virtual_time
repeat 200 { all_reduce 1MiB time=100us }
repeat 20 { all_reduce 1MiB time=500us }
--- NCCLSCOPE_MODE=profile NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 440, ABI v5
--- ncclscope report capture | sed '/^Communicators/,/^$/d'
Which rank is late, and what communication costs, is not known: mode profile keeps totals, and no single call. Mode
trace tells.

Job capture
  command  <folder>/fake-nccl rank-process
  ranks    2 processes of 2 ranks on <host>
  software NCCL 2.28.9
  recorded mode profile, timing stamps
  time     <time>

Completeness
  440 of 440 announced calls recorded, 440 timed.

Ranks (times in µs, nccl_% of the run)
  rank host   calls
     0 <host>   220
     1 <host>   220

Operations by GPU time (largest sum over ranks first, sum in ms, mean to max in µs, bandwidths in GB/s)
  function   size type    algorithm  calls  sum mean p50 p95 max call_bw
  AllReduce 1 MiB float32 RING/LL128   440 60.0  136 100 500 500    10.5
  On average, a rank makes <n> collectives a second.

Notes
  No operation has a row with a GPU time from every rank of its communicator: there is no algbw or busbw of the shortest
    rank.
  Percentiles of calls that were counted without rows come from histograms: error at most 1 %.

Next: ncclscope report capture --all

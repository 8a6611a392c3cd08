# Five collectives on 4 GPUs with NCCL's stamps: every call recorded, every call timed.
ranks 4
virtual_time
repeat 3 {
  all_reduce 1KiB ; all_reduce 1MiB
  all_gather 2MiB ; reduce_scatter 4MiB ; reduce 8MiB ; broadcast 16MiB
}
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 72, ABI v5
--- ncclscope report capture
No rank is proved to hold this job up. GPUs stand still in communication for <n> % of the time at most …
in NCCL <n> % of the time (median rank) · Broadcast of 16 MiB at 255 GB/s (busbw)

Job capture
  command  <folder>/fake-nccl rank-process
  ranks    4 processes of 4 ranks on <host>
  software NCCL 2.28.9
  recorded mode trace, timing stamps
  time     <time>

Completeness
  72 of 72 announced calls recorded, 72 timed.

Ranks (times in µs, nccl_% of the run; nccl: in its kernels; last: to arrive in 11 operations)
  rank host   calls nccl nccl_% waited last
     0 <host>    18  495      ·      0    0
     1 <host>    18  495      ·      0    0
     2 <host>    18  495      ·      0    0
     3 <host>    18  495      ·      0    0

Operations by GPU time (largest sum over ranks first, sum in µs, mean to max in µs, bandwidths in GB/s)
  function        size type    algorithm   calls sum mean  p50  p95  max busbw call_bw
  Broadcast     16 MiB float32 RING/SIMPLE    12 791 65.9 65.9 66.0 66.0   255     255
  Reduce         8 MiB float32 RING/SIMPLE    12 455 38.0 38.0 38.0 38.0   221     221
  ReduceScatter  4 MiB float32 RING/SIMPLE    12 288 24.0 24.0 24.0 24.0   131     131
  AllGather      2 MiB float32 RING/SIMPLE    12 204 17.0 17.0 17.0 17.0  92.6    92.6
  AllReduce      1 MiB float32 RING/LL128     12 162 13.5 13.5 13.5 13.5   116     116
  … 1 more operations (--all)
  On average, a rank makes <n> collectives a second.

Waiting
  0.0 % of the GPU time in 11 operations was waiting for late ranks: 0 µs, summed over ranks. The transfers took 183 µs.
  They are 37.0 % of the time in NCCL: how much of the rest was waiting is not known from them.

Next: ncclscope view capture

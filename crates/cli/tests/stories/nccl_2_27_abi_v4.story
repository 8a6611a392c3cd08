# NCCL 2.27 (ABI v4): communicators known by rank and size, stamps.
nccl 2.27.7
ranks 2
virtual_time
all_reduce 1MiB x3
all_gather 1MiB x2 ; broadcast 1KiB
group { send 1MiB to=+1 ; recv 1MiB from=-1 }
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 16, ABI v4
--- ncclscope report capture
No rank is proved to hold this job up. How long communication stops computing is not known: compute kernels were not
recorded. Kernel windows on all ranks tell.
in NCCL <n> % of the time (median rank) · waiting 0.0 % of the time in NCCL · AllReduce of 1 MiB at 77.7 GB/s (busbw)

Job capture
  command  <folder>/fake-nccl rank-process
  ranks    2 processes of 2 ranks on <host>
  software NCCL 2.27.7
  recorded mode trace, timing stamps
  time     <time>

Completeness
  16 of 16 announced calls recorded, 12 timed.
  4 calls have no GPU time: 4 early_stop (ncclscope explain early_stop).

Ranks (times in µs, nccl_% of the run; nccl: in its kernels; last: to arrive in 4 operations)
  rank host   calls nccl nccl_% waited last
     0 <host>     8 64.0      ·      0    0
     1 <host>     8 64.0      ·      0    0

Operations by GPU time (largest sum over ranks first, sum in µs, mean to max in µs, bandwidths in GB/s)
  function   size type    algorithm  calls  sum mean  p50  p95  max busbw call_bw
  AllGather 1 MiB int8    RING/LL128     4 54.0 13.5 13.5 13.5 13.5  38.8    38.8
  AllReduce 1 MiB float32 RING/LL128     6 54.0 13.5 13.5 13.5 13.5  77.7    77.7
  Broadcast 1 KiB int8    RING/LL        2 20.0 9.98 9.98 9.98 9.98 0.103   0.103
  2 operations have no GPU time (host times: --all).
  On average, a rank makes <n> collectives, <n> sends and <n> receives a second.

Waiting
  0.0 % of the GPU time in 4 operations was waiting for late ranks: 0 µs, summed over ranks. The transfers took 54.0 µs.

Next: ncclscope view capture

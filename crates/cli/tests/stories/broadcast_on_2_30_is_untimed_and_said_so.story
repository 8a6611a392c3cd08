# NCCL 2.30 announces no kernels for Broadcast: recorded, untimed, and the report says so.
nccl 2.30.7
ranks 2
virtual_time
all_reduce 1MiB x5
broadcast 1MiB x5
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 20, ABI v6
--- ncclscope report capture | sed '/^Communicators/,/^$/d'
No rank is proved to hold this job up. How long communication stops computing is not known: compute kernels were not
recorded. Kernel windows on all ranks tell.
in NCCL <n> % of the time (median rank) · waiting 0.0 % of the time in NCCL · AllReduce of 1 MiB at 77.6 GB/s (busbw)

Job capture
  command  <folder>/fake-nccl rank-process
  ranks    2 processes of 2 ranks on <host>
  software NCCL 2.30.7
  recorded mode trace, timing stamps
  time     <time>

Completeness
  20 of 20 announced calls recorded, 10 timed.
  10 calls have no GPU time: 10 no_stamp (ncclscope explain no_stamp).

Ranks (times in µs, nccl_% of the run; nccl: in its kernels; last: to arrive in 4 operations)
  rank host   calls nccl nccl_% waited last
     0 <host>    10 54.0      ·      0    0
     1 <host>    10 54.0      ·      0    0

Operations by GPU time (largest sum over ranks first, sum in µs, mean to max in µs, bandwidths in GB/s)
  function   size type    algorithm  calls sum mean  p50  p95  max busbw call_bw
  AllReduce 1 MiB float32 RING/LL128    10 108 13.5 13.5 13.5 13.5  77.6    77.6
  1 operation has no GPU time (host times: --all).
  On average, a rank makes <n> collectives a second.

Waiting
  0.0 % of the GPU time in 4 operations was waiting for late ranks: 0 µs, summed over ranks. The transfers took 54.0 µs.

Notes
  NCCL 2.30.7 does not announce kernels for Broadcast: 10 calls have no algorithm, protocol or GPU time
    (NCCL_ALLGATHERV_ENABLE=0 brings them back).

Next: ncclscope view capture

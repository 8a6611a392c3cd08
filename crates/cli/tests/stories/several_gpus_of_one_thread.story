# One process drives four GPUs by one thread, another job by a thread each: a communicator with four ranks in one process.
ranks 4
per_process 4
one_thread
all_reduce 1MiB x10
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 40, ABI v5
--- ncclscope report capture | sed -n '/job/p; /^Completeness/,$p'
  job      1 process of 4 ranks on <host>
Completeness and trust
  40 of 40 announced calls recorded, 40 timed.
  Recording cost this job: callbacks <n> % (counted × measured).
  Recording cost this job: callbacks <n> % (counted × measured).

Ranks (over 1; nccl_ms is the union of a rank's NCCL intervals after warm-up, share_% that by wall_ms)
  figure  clock   min median   max
  calls   -        40     40    40
  nccl_ms gpu   0.121  0.121 0.121
  wall_ms host      ·      ·     ·
  share_% gpu       ·      ·     ·

Communicators (by first use; `here` counts the ranks that this capture holds, `ranks` are the launcher's)
  communicator     nranks nodes here ranks name parent
  8869398c7032ecc5      4     1    4 0x4   -    -

Functions (largest GPU time first; sums over ranks; %: of all calls and GPU time; api to proxy: mean/p50 of a call, µs)
  function  calls calls_% gpu_ms gpu_% host_ms api enqueue launch    kernel proxy
  AllReduce    40   100.0  0.486 100.0       ·   ·       ·      · 13.5/13.5     -

Operations by GPU time (largest sum over ranks first; calls are timed/all; µs; bandwidths in GB/s)
  function  bytes type comm algorithm  calls sum_ms mean  min  p50  p95 p99  max algbw busbw call_bw
  AllReduce  1MiB f32  8869 RING/LL128    40  0.486 13.5 13.5 13.5 13.5   - 13.5  77.6 116.5   116.5

Warm-up: first call of each rank on a communicator, in `calls` only above (longest first; µs)
  function  comm calls gpu_min gpu_p50 gpu_max host_min host_p50 host_max
  AllReduce 8869     4    13.5    13.5    13.5        ·        ·        ·

AllReduce of 1 MiB took 100 % of the GPU time in NCCL: 0.486 ms over ranks in 40 calls (36 timed, first calls apart).
Next: ncclscope export capture --to perfetto -o capture.pftrace
--- rm -r capture; sed -i /one_thread/d job; NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 40, ABI v5
--- ncclscope report capture | sed -n '/^Operations/,$p'
Operations by GPU time (largest sum over ranks first; calls are timed/all; µs; bandwidths in GB/s)
  function  bytes type comm algorithm  calls sum_ms mean  min  p50  p95 p99  max algbw busbw call_bw
  AllReduce  1MiB f32  8869 RING/LL128    40  0.486 13.5 13.5 13.5 13.5   - 13.5  77.6 116.5   116.5

Warm-up: first call of each rank on a communicator, in `calls` only above (longest first; µs)
  function  comm calls gpu_min gpu_p50 gpu_max host_min host_p50 host_max
  AllReduce 8869     4    13.5    13.5    13.5        ·        ·        ·

AllReduce of 1 MiB took 100 % of the GPU time in NCCL: 0.486 ms over ranks in 40 calls (36 timed, first calls apart).
Next: ncclscope export capture --to perfetto -o capture.pftrace

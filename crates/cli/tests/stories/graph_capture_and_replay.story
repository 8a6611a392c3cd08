# A captured graph is replayed ten times; with stamps NCCL shows each execution.
ranks 2
graph step { all_reduce 1KiB x2 ; all_reduce 1MiB }
replay step x10
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 66, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Operations/,$p'
Completeness and trust
  66 of 66 announced calls recorded, 60 timed.
  6 not timed, captured: templates in a CUDA graph, not executed; replays are calls of their own.
  Recording cost this job: callbacks <n> % (counted × measured).

Operations by GPU time (largest sum over ranks first; calls are timed/all; µs; bandwidths in GB/s)
  function  bytes type comm algorithm  calls sum_ms mean  min  p50  p95 p99  max algbw busbw call_bw
  AllReduce  1KiB f32  a37d RING/LL       40  0.380 10.0 9.98 10.0 10.0   - 10.0 0.102 0.102   0.102
  AllReduce  1MiB f32  a37d RING/LL128    20  0.270 13.5 13.5 13.5 13.5   - 13.5  77.6  77.6    77.6

Operations by host time (no GPU time; largest sum over ranks first; µs from API entry to return)
  function  bytes type comm algorithm calls sum_ms mean min p50 p95 p99 max
  AllReduce  1KiB f32  a37d -          0+4c      -    -   -   -   -   -   -
  AllReduce  1MiB f32  a37d -          0+2c      -    -   -   -   -   -   -

Warm-up: first call of each rank on a communicator, in `calls` only above (longest first; µs)
  function  comm calls gpu_min gpu_p50 gpu_max host_min host_p50 host_max
  AllReduce a37d     2    9.98    9.98    9.98        -        -        -

Waiting for the last rank (shortest GPU time of each operation; assumes common ends)
  0 % of the GPU time in 29 matched operations was waiting: 0.000 rank-ms; transfer took 0.325 ms of the wall.

AllReduce of 1 KiB took 58 % of the GPU time in NCCL: 0.380 ms over ranks in 40 calls (38 timed, first calls apart).
Next: ncclscope export capture --to perfetto -o capture.pftrace

# Five collectives on 4 GPUs with NCCL's stamps: every call recorded, every call timed.
ranks 4
repeat 3 {
  all_reduce 1KiB ; all_reduce 1MiB
  all_gather 2MiB ; reduce_scatter 4MiB ; reduce 8MiB ; broadcast 16MiB
}
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 72, ABI v5
--- ncclscope report capture
No rank holds the others up by as much as can be proved. How much of its time NCCL stops the computing is not known:
there are no kernel windows.
in NCCL <n> % of the run (median rank) · Broadcast of 16 MiB at 254.5 GB/s (busbw)

Capture capture
  command  <folder>/fake-nccl rank-process
  job      4 processes of 4 ranks on <host>
  NCCL     2.28.9; mode trace, timing stamps
  GPU      <gpu>; driver <driver>
  run      <s> s on the longest rank

Completeness and trust
  72 of 72 announced calls recorded, 72 timed.
  Recording cost this job: callbacks <n> % (counted × measured).

Ranks (over 4; nccl_ms is the union of a rank's NCCL intervals after warm-up, share_% that by wall_ms)
  figure  clock   min median   max
  calls   -        18     18    18
  nccl_ms gpu   0.495  0.495 0.495
  wall_ms host      ·      ·     ·
  share_% gpu       ·      ·     ·

Communicators (by first use; `here` counts the ranks that this capture holds, `ranks` are the launcher's)
  communicator     nranks nodes here ranks name parent
  8869398c7032ecc5      4     1    4 0-3   -    -

Functions (largest GPU time first; sums over ranks; %: of all calls and GPU time; api to proxy: mean/p50 of a call, µs)
  function      calls calls_% gpu_ms gpu_% host_ms api enqueue launch    kernel proxy
  Broadcast        12    16.7  0.791  40.0       ·   ·       ·      · 65.9/66.0     -
  Reduce           12    16.7  0.455  23.0       ·   ·       ·      · 38.0/38.1     -
  ReduceScatter    12    16.7  0.288  14.5       ·   ·       ·      · 24.0/23.9     -
  AllReduce        24    33.3  0.242  12.2       ·   ·       ·      · 12.1/13.5     -
  AllGather        12    16.7  0.204  10.3       ·   ·       ·      · 17.0/17.0     -
  all              72   100.0  1.980 100.0       ·   -       -      -         -     -

Operations by GPU time (largest sum over ranks first; calls are timed/all; µs; bandwidths in GB/s)
  function      bytes type comm algorithm   calls sum_ms mean  min  p50  p95 p99  max algbw busbw call_bw
  Broadcast     16MiB f32  8869 RING/SIMPLE    12  0.791 65.9 65.9 65.9 66.0   - 66.0 254.5 254.5   254.5
  Reduce         8MiB f32  8869 RING/SIMPLE    12  0.455 38.0 38.0 38.0 38.0   - 38.0 221.0 221.0   221.0
  ReduceScatter  4MiB f32  8869 RING/SIMPLE    12  0.288 24.0 24.0 24.0 24.0   - 24.0 175.0 131.2   131.2
  AllGather      2MiB f32  8869 RING/SIMPLE    12  0.204 17.0 17.0 17.0 17.0   - 17.0 123.4  92.6    92.6
  AllReduce      1MiB f32  8869 RING/LL128     12  0.162 13.5 13.5 13.5 13.5   - 13.5  77.6 116.5   116.5
  AllReduce      1KiB f32  8869 RING/LL        12  0.080 10.0 10.0 10.0 10.0   - 10.0 0.102 0.153   0.153

Warm-up: first call of each rank on a communicator, in `calls` only above (longest first; µs)
  function  comm calls gpu_min gpu_p50 gpu_max host_min host_p50 host_max
  AllReduce 8869     4    10.0    10.0    10.0        ·        ·        ·

Waiting for the last rank (shortest GPU time of each operation; assumes common ends)
  0 % of the GPU time in 11 matched operations was waiting: 0.000 rank-ms; transfer took 0.183 ms of the wall.

Broadcast of 16 MiB took 40 % of the GPU time in NCCL: 0.791 ms over ranks in 12 calls.
Next: ncclscope export capture --to perfetto -o capture.pftrace

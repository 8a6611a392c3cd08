# NCCL 2.27 (ABI v4): communicators known by rank and size, stamps.
nccl 2.27.7
ranks 2
all_reduce 1MiB x3
all_gather 1MiB x2 ; broadcast 1KiB
group { send 1MiB to=+1 ; recv 1MiB from=-1 }
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 16, ABI v4
--- ncclscope report capture
No rank holds the others up by as much as can be proved. How much of its time NCCL stops the computing is not known:
there are no kernel windows.
in NCCL <n> % of the run (median rank) · AllGather of 1 MiB at 38.8 GB/s (busbw)

Capture capture
  command  <folder>/fake-nccl rank-process
  job      2 processes of 2 ranks on <host>
  NCCL     2.27.7; mode trace, timing stamps
  GPU      <gpu>; driver <driver>
  run      <s> s on the longest rank

Completeness and trust
  16 of 16 announced calls recorded, 12 timed.
  4 not timed, early_stop: NCCL stamps the end of a send or receive, and of TREE and NVLS, by a warp that does not wait
    for the others: it may be hundreds of us too early (seen on H200). NCCLSCOPE_TIMING=auto or events times them.
  Recording cost this job: callbacks <n> % (counted × measured).

Ranks (over 2; nccl_ms is the union of a rank's NCCL intervals after warm-up, share_% that by wall_ms)
  figure  clock   min median   max
  calls   -         8      8     8
  nccl_ms gpu   0.064  0.064 0.064
  wall_ms host      ·      ·     ·
  share_% gpu       ·      ·     ·

Communicators (by first use; `here` counts the ranks that this capture holds, `ranks` are the launcher's)
  communicator     nranks nodes here ranks name parent
  a37d5f01a3151d04      2     1    2 0-1   -    -

Functions (largest GPU time first; sums over ranks; %: of all calls and GPU time; api to proxy: mean/p50 of a call, µs)
  function   calls calls_% gpu_ms gpu_% host_ms api enqueue launch    kernel proxy
  AllGather      4    25.0  0.054  42.2       -   -       -      - 13.5/13.5     -
  AllReduce      6    37.5  0.054  42.2       -   -       -      - 13.5/13.5     -
  Broadcast      2    12.5  0.020  15.6       -   -       -      - 9.98/10.0     -
  Recv           2    12.5      -     -       -   -       -      -         -     -
  Send           2    12.5      -     -       -   -       -      -         -     -
  collective    12    75.0  0.128 100.0       -   -       -      -         -     -
  p2p            4    25.0      -     -       -   -       -      -         -     -
  all           16   100.0  0.128 100.0       -   -       -      -         -     -

Operations by GPU time (largest sum over ranks first; calls are timed/all; µs; bandwidths in GB/s)
  function  bytes type comm algorithm  calls sum_ms mean  min  p50  p95 p99  max algbw busbw call_bw
  AllGather  1MiB i8   a37d RING/LL128     4  0.054 13.5 13.5 13.5 13.5   - 13.5  77.6  38.8    38.8
  AllReduce  1MiB f32  a37d RING/LL128     6  0.054 13.5 13.5 13.5 13.5   - 13.5  77.7  77.7    77.7
  Broadcast  1KiB i8   a37d RING/LL        2  0.020 9.98 9.98 9.98 9.98   - 9.98 0.103 0.103   0.103

Operations by host time (no GPU time; largest sum over ranks first; µs from API entry to return)
  function bytes type comm algorithm calls sum_ms mean min p50 p95 p99 max
  Recv      1MiB f32  a37d -             2      -    -   -   -   -   -   -
  Send      1MiB f32  a37d -             2      -    -   -   -   -   -   -

Warm-up: first call of each rank on a communicator, in `calls` only above (longest first; µs)
  function  comm calls gpu_min gpu_p50 gpu_max host_min host_p50 host_max
  AllReduce a37d     2    13.5    13.5    13.5        -        -        -

Waiting for the last rank (shortest GPU time of each operation; assumes common ends)
  0 % of the GPU time in 4 matched operations was waiting: 0.000 rank-ms; transfer took 0.054 ms of the wall.

AllGather of 1 MiB took 42 % of the GPU time in NCCL: 0.054 ms over ranks in 4 calls.
Next: ncclscope export capture --to perfetto -o capture.pftrace

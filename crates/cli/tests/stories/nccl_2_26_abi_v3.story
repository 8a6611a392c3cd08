# NCCL 2.26 (ABI v3): stamps are not offered yet.
nccl 2.26.6
ranks 2
all_reduce 1MiB x3
all_gather 1MiB x2 ; broadcast 1KiB
group { send 1MiB to=+1 ; recv 1MiB from=-1 }
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 16, ABI v3
--- ncclscope report capture
No call has a time.

Capture capture
  command  <folder>/fake-nccl rank-process
  job      2 processes of 2 ranks on <host>
  NCCL     2.26.6; mode trace, timing stamps
  GPU      <gpu>; driver <driver>
  run      <s> s on the longest rank

Completeness and trust
  16 of 16 announced calls recorded, 0 timed.
  Recording cost this job: callbacks <n> % (counted × measured).

Ranks (over 2; nccl_ms is the union of a rank's NCCL intervals after warm-up, share_% that by wall_ms)
  figure  clock min median max
  calls   -       8      8   8
  wall_ms host    ·      ·   ·

Communicators (by first use; `here` counts the ranks that this capture holds, `ranks` are the launcher's)
  communicator     nranks nodes here ranks name parent
  a37d5f01a3151d04      -     -    2 0-1   -    -

Functions (largest GPU time first; sums over ranks; %: of all calls and GPU time; api to proxy: mean/p50 of a call, µs)
  function   calls calls_% gpu_ms gpu_% host_ms api enqueue launch kernel proxy
  AllGather      4    25.0      -     -       -   -       -      -      -     -
  AllReduce      6    37.5      -     -       -   -       -      -      -     -
  Broadcast      2    12.5      -     -       -   -       -      -      -     -
  Recv           2    12.5      -     -       -   -       -      -      -     -
  Send           2    12.5      -     -       -   -       -      -      -     -
  collective    12    75.0      -     -       -   -       -      -      -     -
  p2p            4    25.0      -     -       -   -       -      -      -     -
  all           16   100.0      -     -       -   -       -      -      -     -

Operations by host time (no GPU time; largest sum over ranks first; µs from API entry to return)
  function  bytes type comm algorithm  calls sum_ms mean min p50 p95 p99 max
  AllGather     - i8   a37d RING/LL128     4      -    -   -   -   -   -   -
  AllReduce  1MiB f32  a37d RING/LL128     6      -    -   -   -   -   -   -
  Broadcast  1KiB i8   a37d RING/LL        2      -    -   -   -   -   -   -
  Recv       1MiB f32  a37d -              2      -    -   -   -   -   -   -
  Send       1MiB f32  a37d -              2      -    -   -   -   -   -   -

Warm-up: first call of each rank on a communicator, in `calls` only above (longest first; µs)
  function  comm calls gpu_min gpu_p50 gpu_max host_min host_p50 host_max
  AllReduce a37d     2       -       -       -        -        -        -

Notes
  NCCL 2.26.6 has no GPU stamps (2.27 on): no call has a GPU time.
  This NCCL does not tell a profiler how many ranks a communicator has (before 2.27): null, and so is what needs it.

No call has a time.
Next: ncclscope export capture --to perfetto -o capture.pftrace

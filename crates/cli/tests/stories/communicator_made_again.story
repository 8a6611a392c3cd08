# A communicator that is destroyed and made again with the same hash is another one.
ranks 2
comm dp hash 0xabcd
all_reduce 1KiB comm=dp x3
reinit dp
all_reduce 1KiB comm=dp x2
--- fake-nccl play job
announced 10, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^Notes/p'
Completeness and trust
  10 of 10 announced calls recorded, 0 timed.
  Recording cost this job: callbacks <n> % (counted × measured).

Ranks (over 2; nccl_ms is the union of a rank's NCCL intervals after warm-up, share_% that by wall_ms)
  figure  clock min median max
  calls   -       5      5   5
  nccl_ms host    ·      ·   ·
  wall_ms host    ·      ·   ·
  share_% host    ·      ·   ·

Communicators (by first use; `here` counts the ranks that this capture holds, `ranks` are the launcher's)
  communicator       nranks nodes here ranks name parent
  000000000000abcd        2     1    2 0-1   -    -
  000000000000abcd#2      2     1    2 0-1   -    -

Functions (largest GPU time first; sums over ranks; %: of all calls and GPU time; api to proxy: mean/p50 of a call, µs)
  function  calls calls_% gpu_ms gpu_% host_ms api enqueue launch kernel proxy
  AllReduce    10   100.0      -     -       ·   ·       ·      ·      -     -

Operations by host time (no GPU time; largest sum over ranks first; µs from API entry to return)
  function  bytes type comm   algorithm calls sum_ms mean min p50 p95 p99 max
  AllReduce  1KiB f32  0000   RING/LL       6      ·    ·   ·   ·   ·   -   ·
  AllReduce  1KiB f32  0000#2 RING/LL       4      ·    ·   ·   ·   ·   -   ·

Warm-up: first call of each rank on a communicator, in `calls` only above (longest first; µs)
  function  comm   calls gpu_min gpu_p50 gpu_max host_min host_p50 host_max
  AllReduce 0000       2       -       -       -        ·        ·        ·
  AllReduce 0000#2     2       -       -       -        ·        ·        ·

Notes

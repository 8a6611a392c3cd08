# torchrun starts the workers again: a sub-capture for each restart, one report.
ranks 2
all_reduce 1KiB x10
--- fake-nccl play job
announced 20, ABI v5
--- TORCHELASTIC_RESTART_COUNT=1 fake-nccl play job
announced 20, ABI v5
--- find capture -name '*.trace' | sort
capture/restart-1/<host>/r0-p<pid>-<id>.trace
capture/restart-1/<host>/r1-p<pid>-<id>.trace
capture/<host>/r0-p<pid>-<id>.trace
capture/<host>/r1-p<pid>-<id>.trace
--- ncclscope report capture | sed -n '1,/^Operations/p'
How much of its time NCCL stops the computing is not known: there are no kernel windows.
in NCCL <n> % of the run (median rank)

Capture capture
  command  <folder>/fake-nccl rank-process
  job      4 processes of 2 ranks, 1 restart on <host>
  NCCL     2.28.9; mode trace, timing host
  GPU      <gpu>; driver <driver>
  run      <s> s on the longest rank

Completeness and trust
  40 of 40 announced calls recorded, 0 timed.
  Recording cost this job: callbacks <n> % (counted × measured).

Ranks (over 4; nccl_ms is the union of a rank's NCCL intervals after warm-up, share_% that by wall_ms)
  figure  clock min median max
  calls   -      10     10  10
  nccl_ms host    ·      ·   ·
  wall_ms host    ·      ·   ·
  share_% host    ·      ·   ·

Communicators (by first use; `here` counts the ranks that this capture holds, `ranks` are the launcher's)
  communicator       nranks nodes here ranks name parent
  a37d5f01a3151d04        2     1    2 0-1   -    -
  a37d5f01a3151d04#2      2     1    2 0-1   -    -

Functions (largest GPU time first; sums over ranks; %: of all calls and GPU time; api to proxy: mean/p50 of a call, µs)
  function  calls calls_% gpu_ms gpu_% host_ms api enqueue launch kernel proxy
  AllReduce    40   100.0      -     -       ·   ·       ·      ·      -     -

Operations by host time (no GPU time; largest sum over ranks first; µs from API entry to return)

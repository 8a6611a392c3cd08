# SIGKILL in the middle: `ncclscope run` holds what the process had in memory, with what was open.
ranks 2
all_reduce 1KiB x100
sleep 400ms
rank 1 kill
all_reduce 4KiB
--- ncclscope run --timing stamps -o capture -- fake-nccl play job
announced 201, ABI v5
2| ncclscope: capture in capture: 2 processes, 201 calls; next: ncclscope report capture
--- ncclscope report capture | sed '1,/^$/d; /^Findings/,/^$/d'
Capture capture
  command  fake-nccl play job
  job      2 processes of 2 ranks on <host>
  NCCL     2.28.9; mode trace, timing stamps
  GPU      <gpu>; driver <driver>
  run      <date> to <date>, <s> s, exit status 0

Completeness and trust
  201 of 201 announced calls recorded, 200 timed.
  1 not timed, unfinished: not ended when the recording did: the job was killed, hangs there, still runs, or left by
    _exit() before NCCL had told of the end.
  Recording cost this job: callbacks <n> % (counted × measured).

Ranks (over 2; nccl_ms is the union of a rank's NCCL intervals after warm-up, share_% that by wall_ms)
  figure  clock   min median   max
  calls   -       100    100   101
  nccl_ms gpu   0.990  0.990 0.990
  wall_ms host      ·      ·     ·
  share_% gpu       ·      ·     ·

Communicators (by first use; `here` counts the ranks that this capture holds, `ranks` are the launcher's)
  communicator     nranks nodes here ranks name parent
  a37d5f01a3151d04      2     1    2 0-1   -    -

Functions (largest GPU time first; sums over ranks; %: of all calls and GPU time; api to proxy: mean/p50 of a call, µs)
  function  calls calls_% gpu_ms gpu_% host_ms api enqueue launch    kernel proxy
  AllReduce   201   100.0  1.981 100.0       ·   ·       ·      · 10.0/10.0     -

Operations by GPU time (largest sum over ranks first; calls are timed/all; µs; bandwidths in GB/s)
  function  bytes type comm algorithm calls sum_ms mean  min  p50  p95  p99  max algbw busbw call_bw
  AllReduce  1KiB f32  a37d RING/LL     200  1.981 10.0 9.98 10.0 10.0 10.0 10.0 0.102 0.102   0.102

Operations by host time (no GPU time; largest sum over ranks first; µs from API entry to return)
  function  bytes type comm algorithm calls sum_ms mean min p50 p95 p99 max
  AllReduce  4KiB f32  a37d RING/LL       1      ·    ·   ·   ·   ·   -   ·

Warm-up: first call of each rank on a communicator, in `calls` only above (longest first; µs)
  function  comm calls gpu_min gpu_p50 gpu_max host_min host_p50 host_max
  AllReduce a37d     2    10.0    10.0    10.0        ·        ·        ·

Waiting for the last rank (shortest GPU time of each operation; assumes common ends)
  0 % of the GPU time in 99 matched operations was waiting: 0.000 rank-ms; transfer took 0.990 ms of the wall.

AllReduce of 1 KiB took 100 % of the GPU time in NCCL: 1.981 ms over ranks in 200 calls (198 timed, first calls apart).
Next: ncclscope hang capture

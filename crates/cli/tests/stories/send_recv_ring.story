# A ring: every rank sends to the next and receives from the one before, in one group; and one send by itself.
ranks 4
repeat 10 { group { send 1MiB to=+1 ; recv 1MiB from=-1 } }
rank 0 { send 4KiB to=1 }
rank 1 { recv 4KiB from=0 }
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 82, ABI v5
--- ncclscope report capture | sed '/^Communicators/,/^$/d; /^  Recv /d; /^  Send /d'
How much of its time NCCL stops the computing is not known: there are no kernel windows.
in NCCL <n> % of the run (median rank)

Capture capture
  command  <folder>/fake-nccl rank-process
  job      4 processes of 4 ranks on <host>
  NCCL     2.28.9; mode trace, timing stamps
  GPU      <gpu>; driver <driver>
  run      <s> s on the longest rank

Completeness and trust
  82 of 82 announced calls recorded, 0 timed.

Ranks (over 4; nccl_ms is the union of a rank's NCCL intervals after warm-up, share_% that by wall_ms)
  figure  clock min median max
  calls   -      10     10  11
  nccl_ms host    ·      ·   ·
  wall_ms host    ·      ·   ·
  share_% host    ·      ·   ·

Functions (largest GPU time first; sums over ranks; %: of all calls and GPU time; api to proxy: mean/p50 of a call, µs)
  function calls calls_% gpu_ms gpu_% host_ms api enqueue launch kernel proxy
  SendRecv    40    95.2      -     -       ·   ·       ·      ·      -     -
  all         42   100.0      -     -       ·   -       -      -      -     -

Operations by host time (no GPU time; largest sum over ranks first; µs from API entry to return)
  function bytes type comm algorithm calls sum_ms mean min p50 p95 p99 max
  SendRecv  1MiB f32  8869 -            40      ·    ·   ·   ·   ·   -   ·

Warm-up: first call of each rank on a communicator, in `calls` only above (longest first; µs)
  function comm calls gpu_min gpu_p50 gpu_max host_min host_p50 host_max
  SendRecv 8869     4       -       -       -        ·        ·        ·

<function> of <size> took <n> % of the host time in NCCL: <s> over ranks in <n> calls.
Next: ncclscope export capture --to perfetto -o capture.pftrace
--- ncclscope report capture | sed -n '/^Operations/,/^$/p' | awk '/^  Send/ { print $1, $2, $3, $6 }'
SendRecv 1MiB f32 40
Send 4KiB f32 1
--- ncclscope report capture | sed -n '/^Operations/,/^$/p' | awk '/^  Recv/ { print $1, $2, $3, $6 }'
Recv 4KiB f32 1

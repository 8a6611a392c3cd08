# A ring: every rank sends to the next and receives from the one before, in one group; and one send by itself.
ranks 4
repeat 10 { group { send 1MiB to=+1 ; recv 1MiB from=-1 } }
rank 0 { send 4KiB to=1 }
rank 1 { recv 4KiB from=0 }
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 82, ABI v5
--- ncclscope report capture | sed '/^Communicators/,/^$/d; /^  Recv /d; /^  Send /d'
Capture capture
  command  <folder>/fake-nccl rank-process
  job      4 processes of 4 ranks on <host>
  NCCL     2.28.9; mode trace, timing stamps
  GPU      <gpu>; driver <driver>
  run      <s> s on the longest rank

Completeness and trust
  82 of 82 announced calls recorded, 82 timed.

Ranks (over 4; nccl_ms is the union of a rank's NCCL intervals, share_% that by wall_ms)
  figure  clock   min median   max
  calls   -        10     10    11
  nccl_ms gpu   0.135  0.135 0.145
  wall_ms host      ·      ·     ·
  share_% gpu       ·      ·     ·

Functions (largest GPU time first; sums over ranks; api to proxy: mean/p50 of a part of one call, µs)
  function calls calls_% gpu_ms gpu_% host_ms api enqueue launch    kernel proxy
  SendRecv    40    95.2  0.485  96.0       ·   ·       ·      · 13.5/13.5     -
  all         42   100.0  0.505 100.0       ·   -       -      -         -     -

Operations by GPU time (largest sum over ranks first; calls are timed/all; µs; bandwidths in GB/s)
  function bytes type comm algorithm calls sum_ms mean  min  p50  p95 p99  max algbw busbw call_bw
  SendRecv  1MiB f32  8869 -            40  0.485 13.5 13.5 13.5 13.5   - 13.5     -     -    77.8

Warm-up: first call of each rank on a communicator, in `calls` only above (longest first; µs)
  function comm calls gpu_min gpu_p50 gpu_max host_min host_p50 host_max
  SendRecv 8869     4    13.5    13.5    13.5        ·        ·        ·

Notes
  GPU times of TREE, NVLS and send/receive are lower bounds: NCCL stamps the end before the last warps are done.

SendRecv of 1 MiB took 96 % of the GPU time in NCCL: 0.485 ms over ranks in 36 calls.
Next: ncclscope export capture --to perfetto -o capture.pftrace
--- ncclscope report capture | sed -n '/^Operations/,/^$/p' | grep '^  Send'
  SendRecv  1MiB f32  8869 -            40  0.485 13.5 13.5 13.5 13.5   - 13.5     -     -    77.8
  Send      4KiB f32  8869 -             1  0.010 10.0 10.0 10.0 10.0   - 10.0     -     -   0.409
--- ncclscope report capture | sed -n '/^Operations/,/^$/p' | grep '^  Recv'
  Recv      4KiB f32  8869 -             1  0.010 10.0 10.0 10.0 10.0   - 10.0     -     -   0.409

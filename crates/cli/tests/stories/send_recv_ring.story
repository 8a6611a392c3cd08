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

Completeness
  82 of 82 announced calls recorded, 82 timed.

Operations (largest total time first)
  function bytes datatype communicator algorithm calls timed time sum_ms p50_us p95_us p99_us max_us
  SendRecv 1 MiB Float32  8869398c     -            40    40 gpu   0.539   13.5   13.5      -   13.5

Notes
  GPU times of TREE, NVLS and send/receive are lower bounds: NCCL stamps the end before the last warps are done.

SendRecv of 1 MiB took 96 % of the GPU time in NCCL: 0.539 ms in 40 calls.
Next: ncclscope report capture --json
--- ncclscope report capture | grep '^  Send'
  SendRecv 1 MiB Float32  8869398c     -            40    40 gpu   0.539   13.5   13.5      -   13.5
  Send     4 KiB Float32  8869398c     -             1     1 gpu   0.010   10.0   10.0      -   10.0
--- ncclscope report capture | grep '^  Recv'
  Recv     4 KiB Float32  8869398c     -             1     1 gpu   0.010   10.0   10.0      -   10.0

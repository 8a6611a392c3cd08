# SIGKILL in the middle: `ncclscope run` holds what the process had in memory, with what was open.
ranks 2
all_reduce 1KiB x100
sleep 400ms
rank 1 kill
all_reduce 4KiB
--- ncclscope run --timing stamps -o capture -- fake-nccl play job
announced 201, ABI v5
2| ncclscope: capture in capture: 2 processes, 201 calls; next: ncclscope report capture
--- ncclscope report capture
Capture capture
  command  fake-nccl play job
  job      2 processes of 2 ranks on <host>
  NCCL     2.28.9; mode trace, timing stamps
  run      <date> to <date>, exit status 0

Completeness
  201 of 201 announced calls recorded, 200 timed.
  not timed: 1 no_stamp

Communicators (by first use; `here` counts the ranks that this capture holds)
  communicator     nranks nodes here name parent
  a37d5f01a3151d04      2     1    2 -    -

Operations (largest total time first)
  function  bytes datatype communicator algorithm calls timed time sum_ms p50_us p95_us p99_us max_us
  AllReduce 1 KiB Float32  a37d5f01     RING/LL     200   200 gpu   2.001   10.0   10.0   10.0   10.0
  AllReduce 4 KiB Float32  a37d5f01     RING/LL       1     0 host      ·      ·      ·      -      ·

AllReduce of 1 KiB took 100 % of the GPU time in NCCL: 2.001 ms in 200 calls.
Next: ncclscope report capture --json

# SIGKILL in the middle: `ncclscope run` holds what the process had in memory, with what was open.
ranks 2
all_reduce 1KiB x100
sleep 400ms
rank 1 kill
all_reduce 4KiB
--- ncclscope run --timing stamps -o capture -- fake-nccl play job
announced 201, ABI v5
2| ncclscope: capture in capture: 2 processes, 201 calls; next: ncclscope report capture
--- ncclscope report capture | sed '1,/^$/d; /^Also/,/^$/d; /^What to do/,/^$/d; s/stops [0-9.]* ms/stops <time>/'
Evidence
  Its recording has no end, and stops <time> before that of the others.

Job capture
  command  fake-nccl play job
  ranks    2 processes of 2 ranks on <host>
  software NCCL 2.28.9
  recorded mode trace, timing stamps
  time     <time>

Completeness
  201 of 201 announced calls recorded, 200 timed.
  1 call has no GPU time: 1 unfinished (ncclscope explain unfinished).

Ranks (times in µs, nccl_% of the run; nccl: in its kernels; last: to arrive in 99 operations)
  rank host   calls nccl nccl_% waited last
     0 <host>   101  990      ·      0    0
     1 <host>   100  990      ·      0    0

Operations by GPU time (largest sum over ranks first, sum in ms, mean to max in µs, bandwidths in GB/s)
  function   size type    algorithm calls  sum mean  p50  p95  max busbw call_bw
  AllReduce 1 KiB float32 RING/LL     200 1.98 10.0 10.0 10.0 10.0 0.102   0.102
  1 operation has no GPU time (host times: --all).
  On average, a rank makes <n> collectives a second.

Waiting
  0.0 % of the GPU time in 99 operations was waiting for late ranks: 0 µs, summed over ranks. The transfers took 990 µs.

Next: ncclscope hang capture

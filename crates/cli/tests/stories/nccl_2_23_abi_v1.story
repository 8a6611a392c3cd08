# The oldest NCCL with profiler plugins (ABI v1): names as numbers, no ranks.
nccl 2.23.4
ranks 2
virtual_time
all_reduce 1MiB x3
all_gather 1MiB x2 ; broadcast 1KiB
group { send 1MiB to=+1 ; recv 1MiB from=-1 }
--- fake-nccl play job
announced 16, ABI v1
--- ncclscope report capture
Which rank is late, and what communication costs, is not known: no call has a GPU time, because NCCL 2.23.4 has no GPU
stamps (2.27 on). Kernel windows on all ranks tell.

Job capture
  command  <folder>/fake-nccl rank-process
  ranks    2 processes of 2 ranks on <host>
  software NCCL 2.23.4
  recorded mode trace, timing host
  time     <time>

Completeness
  16 of 16 announced calls recorded, 0 timed.

Ranks (times in µs, nccl_% of the run)
  rank host   calls
     0 <host>     8
     1 <host>     8

Operations by host time (no GPU time; largest sum over ranks first, sum in <unit>, mean to max in <unit> from API entry to
  return)
  function   size type    algorithm  calls
  AllGather     - int8    RING/LL128     4
  AllReduce 1 MiB float32 RING/LL128     6
  Broadcast 1 KiB int8    RING/LL        2
  Recv      1 MiB float32 -              2
  Send      1 MiB float32 -              2
  On average, a rank makes <n> collectives, <n> sends and <n> receives a second.

Notes
  NCCL 2.23.4 has no GPU stamps (2.27 on): no call has a GPU time.
  This NCCL does not tell a profiler how many ranks a communicator has (before 2.27): null, and so is what needs it.

No call has a time.
Next: ncclscope view capture

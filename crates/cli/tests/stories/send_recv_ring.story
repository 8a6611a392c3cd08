# A ring: every rank sends to the next and receives from the one before, in one group; and one send by itself.
ranks 4
virtual_time
repeat 10 { group { send 1MiB to=+1 ; recv 1MiB from=-1 } }
rank 0 { send 4KiB to=1 }
rank 1 { recv 4KiB from=0 }
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 82, ABI v5
--- ncclscope report capture | sed '/^Communicators/,/^$/d; /^  Recv /d; /^  Send /d'
Which rank is late, and what communication costs, is not known: no call has a GPU time. Kernel windows on all ranks
tell.
in NCCL's calls on the host <n> % of the time (median rank)

Job capture
  command  <folder>/fake-nccl rank-process
  ranks    4 processes of 4 ranks on <host>
  software NCCL 2.28.9
  recorded mode trace, timing stamps
  time     <time>

Completeness
  82 of 82 announced calls recorded, 0 timed.
  82 calls have no GPU time: 82 early_stop (ncclscope explain early_stop).

Ranks (in API calls, times in <unit>, nccl_% of the run)
  rank host   calls nccl nccl_%
     0 <host>    11    ·      ·
     1 <host>    11    ·      ·
     2 <host>    10    ·      ·
     3 <host>    10    ·      ·

Operations by host time (no GPU time; largest sum over ranks first, sum in <unit>, mean to max in <unit> from API entry to
  return)
  function  size type    calls sum mean p50 p95 max
  SendRecv 1 MiB float32    40   ·    ·   ·   ·   ·
  On average, a rank makes <n> sends and <n> receives a second.

Next: NCCLSCOPE_TIMING=auto ncclscope run -- <folder>/fake-nccl rank-process
--- ncclscope report capture | sed -n '/^Operations/,/^$/p' | awk '/^  Send/ { print $1, $2, $3, $4, $5 }'
SendRecv 1 MiB float32 40
Send 4 KiB float32 1
--- ncclscope report capture | sed -n '/^Operations/,/^$/p' | awk '/^  Recv/ { print $1, $2, $3, $4, $5 }'
Recv 4 KiB float32 1

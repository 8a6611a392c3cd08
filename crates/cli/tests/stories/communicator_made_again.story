# A communicator that is destroyed and made again with the same hash is another one.
ranks 2
virtual_time
comm dp hash 0xabcd
all_reduce 1KiB comm=dp x3
reinit dp
all_reduce 1KiB comm=dp x2
--- fake-nccl play job
announced 10, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^Notes/p'
Completeness
  10 of 10 announced calls recorded, 0 timed.

Ranks (in API calls, times in <unit>, nccl_% of the run)
  rank host   calls nccl nccl_%
     0 <host>     5    ·      ·
     1 <host>     5    ·      ·

Operations by host time (no GPU time; largest sum over ranks first, sum in <unit>, mean to max in <unit> from API entry to
  return)
  function   size type    comm   algorithm calls sum mean p50 p95 max
  AllReduce 1 KiB float32 0000   RING/LL       6   ·    ·   ·   ·   ·
  AllReduce 1 KiB float32 0000#2 RING/LL       4   ·    ·   ·   ·   ·
  On average, a rank makes <n> collectives a second.

Communicators (by first use; ranks are the launcher's, here: in this capture)
  communicator       nranks nodes here ranks
  000000000000abcd        2     1    2 0-1
  000000000000abcd#2      2     1    2 0-1

Notes

# A communicator that is destroyed and made again with the same hash is another one.
ranks 2
comm dp hash 0xabcd
all_reduce 1KiB comm=dp x3
reinit dp
all_reduce 1KiB comm=dp x2
--- fake-nccl play job
announced 10, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^Notes/p'
Completeness
  10 of 10 announced calls recorded, 0 timed.

Communicators (by first use; `here` counts the ranks that this capture holds)
  communicator       nranks nodes here name parent
  000000000000abcd        2     1    2 -    -
  000000000000abcd#2      2     1    2 -    -

Operations (largest total time first)
  function  bytes datatype communicator algorithm calls timed time sum_ms p50_us p95_us p99_us max_us
  AllReduce 1 KiB Float32  00000000     RING/LL       6     0 host      ·      ·      ·      -      ·
  AllReduce 1 KiB Float32  00000000#2   RING/LL       4     0 host      ·      ·      ·      -      ·

Notes

# Dumps of torch 2.11 from two ranks on CPUs, as a pickle and as JSON: rank 1 left out the last AllReduce. The files are
# in crates/convert/tests/gloo, with the program that made them.
--- cp -r data/../crates/convert/tests/gloo dumps; touch -d @1795922953 dumps/*/*; ncclscope hang dumps/pickle
Rank 1 has not made AllReduce of 256 KiB, sequence number 8 on communicator 19ce1d315035431f (default_pg), which rank 0
waits in for 4.20 s.
  The last call of rank 1 there (unknown host 2) is AllReduce, sequence number 7 on communicator 19ce1d315035431f
    (default_pg): ended, 4.20 s ago.

Communicator 19ce1d315035431f (default_pg) (last call of each rank, and how far it came, as call numbers; seconds)
  ranks state   last_call         entered_ago entered enqueued launched started finished seen_ago
  0     running AllReduce 256 KiB        4.20       8        8        8       7        7     <0.1
  1     running AllReduce                4.20       7        7        7       7        7     <0.1

Communicator 0d1f3a06d2e5d8bc (pair) (last call of each rank, and how far it came, as call numbers; seconds)
  ranks state   last_call       entered_ago entered enqueued launched started finished seen_ago
  0-1   running AllReduce 4 KiB        4.21       1        1        1       1        1     <0.1

Next: py-spy dump --pid PID (of rank 1)
[exit 1]
--- ncclscope hang dumps/pickle > pickle; ncclscope hang dumps/json | diff -I '^Next' pickle - && echo the same
the same
--- ncclscope report dumps/json | sed -n '/^Operations/,/^$/p'
Operations by host time (no GPU time; largest sum over ranks first, sum in <unit>, mean to max in <unit> from API entry to
  return)
  function     size type    comm calls
  AllReduce       - -       19ce     2
  AllReduce 256 KiB float32 19ce     7
  AllReduce   4 KiB float32 0d1f     2
  Broadcast 256 KiB float32 19ce     6

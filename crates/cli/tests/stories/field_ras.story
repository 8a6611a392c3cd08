# An answer of NCCL's RAS: 30 of 32 ranks have not come to an AllGather. Source: NVIDIA/nccl#1911. One answer does not
# say for how long; NCCL's own JSON, asked twice, does.
# Each file begins with a line `@NAME`.
@ras.txt
NCCL version 2.26.2 compiled with CUDA 12.6
CUDA runtime version 12060, driver version 12060

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         8        32        32   RUNNING  MISMATCH

Warnings
========

#0-0 (fa93daea854b060b) MISMATCH
  Communicator ranks have different AllGather operation counts
  30 ranks have launched up to operation 640
  2 ranks have launched up to operation 641
  Rank 12 -- GPU 4 managed by process 2012 on node 10.0.0.2
  Rank 13 -- GPU 5 managed by process 2013 on node 10.0.0.2
--- awk '/^@/ { f = substr($0, 2); next } f { print > f }' job; ncclscope hang ras.txt
Ranks 0-11,14-31 have not made AllGather, sequence number 641 on communicator fa93daea854b060b, which ranks 12-13 wait
in.
  The last call of rank 0 there (unknown host of rank 0) is AllGather, sequence number 640 on communicator
    fa93daea854b060b: launched.
  How long is not known: its times are not.

Communicator fa93daea854b060b, 32 ranks (last call of each rank, and how far it came, as call numbers; seconds)
  ranks      state   last_call entered_ago entered enqueued launched started finished seen_ago
  0-11,14-31 running AllGather           -     640      640      640       -        -     <0.1
  12-13      running AllGather           -     641      641      641       -        -     <0.1

Next: py-spy dump --pid PID (of rank 0)
[exit 2]
--- rank() { printf '{"rank":%s,"host":"10.0.0.1","pid":%s,"cuda_dev":%s,"status":{"init_state":0,"async_error":0},"collective_counts":{"AllReduce":%s}}' $1 $((4000 + $1)) $1 $2; }; answer() { printf '{"nccl_version":"2.29.1","timestamp":"2025-12-19 13:%s","communicators_count":1,"communicators":[{"hash":"0xae94423cfbb2ef4a","secondary_hash":"0x1:0x2","size":2,"ranks":[%s,%s],"missing_ranks":[]}]}' $1 "$(rank 0 42)" "$(rank 1 41)"; }; mkdir answers; answer 06:00 > answers/1.json; answer 08:30 > answers/2.json; ncclscope hang answers
Rank 1 has not made AllReduce, sequence number 42 on communicator ae94423cfbb2ef4a, which rank 0 waits in for 2.50 min.
  The last call of rank 1 there (pid <pid> on 10.0.0.1) is AllReduce, sequence number 41 on communicator
    ae94423cfbb2ef4a: launched.

Communicator ae94423cfbb2ef4a, 2 ranks (last call of each rank, and how far it came, as call numbers; seconds)
  ranks state   last_call entered_ago entered enqueued launched started finished seen_ago
  0     running AllReduce         150      42       42       42       -        -     <0.1
  1     running AllReduce           -      41       41       41       -        -     <0.1

Next: py-spy dump --pid <pid> (on 10.0.0.1)
[exit 1]

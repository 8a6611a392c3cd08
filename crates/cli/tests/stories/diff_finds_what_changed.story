# Two runs of which the truth is known: AllReduces 10 % slower by another algorithm, AllGathers 10 % faster, Reduces gone.
ranks 4
comm tp split world every 2
comm dp split world stride 2
repeat 40 {
  all_reduce 1MiB time=100us ; all_gather 2MiB comm=tp time=50us ; reduce_scatter 4MiB comm=dp time=80us
  reduce 8MiB time=30us
}
--- NCCL_ALGO=RING NCCLSCOPE_TIMING=stamps NCCLSCOPE_OUT=before fake-nccl play job
announced 640, ABI v5
--- sed 's/time=100us/algo=TREE time=110us/; s/time=50us/time=45us/; s/reduce 8MiB time=30us//' job | NCCLSCOPE_TIMING=stamps NCCLSCOPE_OUT=after fake-nccl play -
announced 480, ABI v5
--- ncclscope diff before after --fail-on slower=5% --fail-on missing --fail-on environment --fail-on algorithm --fail-on incomplete
A  before
     <folder>/fake-nccl rank-process
     4 processes on 1 host; NCCL 2.28.9; mode trace, timing stamps; 640 of 640 announced calls recorded
B  after
     <folder>/fake-nccl rank-process
     4 processes on 1 host; NCCL 2.28.9; mode trace, timing stamps; 480 of 480 announced calls recorded

ratio = B / A of the mean time per call; percent = (ratio − 1) × 100; negative is faster.
Brackets are 95 % intervals. `slower` and `faster` hold for all kinds together (Holm).

Verdict: failed
  slower=5%: undecided
    too noisy for it: all operations together (host time) +3019.7 % [-40.1, +162431.7]
  missing: failed
    Reduce of 8388608 bytes Float32, communicator role 0
  environment: failed
    NCCL_ALGO
  algorithm: failed
    AllReduce of 1048576 bytes Float32, communicator role 0
  incomplete: passed

Environment (what changed, A -> B)
  NCCL_ALGO: RING -> not set

Communicators by role (`A` and `B` count them, `members` are one's; hashes differ from run to run)
  role nranks nodes A B name members paired by
     0      4     1 1 1 -    0-3     name, ranks, nodes, members
     1      2     1 2 2 -    0-1     name, ranks, nodes, members
     2      2     1 2 2 -    0,2     name, ranks, nodes, members

Kinds of operations (largest change of A's total time first; mean µs per call, without each rank's first)
  function      bytes datatype role time mean_A mean_B                     percent              difference finding
  AllReduce     1 MiB Float32     0 host   4.38 136.74 +3019.7 [-40.12, +162431.7] +132.4 [-408.4, +673.2] no change found
  AllGather     2 MiB Float32     1  gpu  50.00  45.00      -10.00 [-10.06, -9.94]    -5.00 [-5.03, -4.97] faster
  ReduceScatter 4 MiB Float32     2  gpu  80.00  80.00        +0.00 [-0.04, +0.04]    +0.00 [-0.03, +0.03] no change found
  Reduce        8 MiB Float32     0  gpu  30.00      -                           -                       - only in A
  all               - 2 kinds     -  gpu  65.00  62.50        -3.85 [-3.90, -3.80]    -2.50 [-2.53, -2.47] faster
  all               - 1 kind      - host   4.38 136.74 +3019.7 [-40.12, +162431.7] +132.4 [-408.4, +673.2] no change found

The same in total (warm-up included) and in the middle (p50 in µs)
  function      bytes datatype role calls_A calls_B sum_A_ms sum_B_ms p50_A p50_B  p50 %
  AllReduce     1 MiB Float32     0     160     160     2.35    21.65  4.21  4.18  -0.71
  AllGather     2 MiB Float32     1     160     160     8.00     7.20 50.02 44.99 -10.04
  ReduceScatter 4 MiB Float32     2     160     160    12.80    12.80 80.00 80.00  +0.00
  Reduce        8 MiB Float32     0     160       -     4.80        - 29.98     -      -

Algorithm, protocol or channels changed (calls)
  AllReduce 1 MiB, role 0: RING/LL128 16ch (160) -> TREE/LL128 16ch (160)

Notes
  An interval knows the noise within these two runs only. What differs from start to start (placement, clocks, other
    jobs) shows when two equal runs are compared.
  GPU time is from a rank's start to its stop and includes waiting for ranks that come later.
  Host time is from API entry to return: it says what the calls cost the program, not how long the operations took.
    NCCLSCOPE_TIMING=stamps in both runs gives GPU times.
  Kinds with GPU times in A and none in B, so compared by host time: 1. `ncclscope report` on B says why.

NCCL calls took 3.8 % less GPU time in B than in A [-3.9, -3.8] over 2 kinds of operations, 57 % of the compared GPU
time.
No change of the host time of NCCL calls is found: +3019.7 % [-40.1, +162431.7] over 1 kind of operation, 0 % of the
compared host time.
Next: ncclscope report after
[exit 1]
--- ncclscope diff before after --fail-on slower=15% --fail-on incomplete | sed -n '/^Verdict/,/^$/p'
Verdict: undecided
  slower=15%: undecided
    too noisy for it: all operations together (host time) +3019.7 % [-40.1, +162431.7]
  incomplete: passed
--- ncclscope diff before after --fail-on slower
2| error: invalid value 'slower' for '--fail-on <WHAT>': expected slower=N%, missing, environment, algorithm or incomplete
2| 
2| For more information, try '--help'.
[exit 2]
--- ncclscope diff before nowhere
2| error: `nowhere`: expected a capture folder or a trace file, found nothing
2|   hint: `ncclscope run -o DIR -- COMMAND` records one into DIR
[exit 2]

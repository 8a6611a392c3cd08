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
--- sed 's/time=100us/algo=COLLNET_CHAIN time=110us/; s/time=50us/time=45us/; s/reduce 8MiB time=30us//' job | NCCLSCOPE_TIMING=stamps NCCLSCOPE_OUT=after fake-nccl play -
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
  slower=5%: failed
    AllReduce of 1048576 bytes Float32, communicator role 0: +10.0 % [+10.0, +10.0]
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
  function      bytes datatype role time mean_A mean_B                percent             difference finding
  AllReduce     1 MiB Float32     0  gpu 100.00 110.00 +10.00 [+9.96, +10.04] +10.00 [+9.97, +10.03] slower
  AllGather     2 MiB Float32     1  gpu  50.00  45.00 -10.00 [-10.06, -9.94]   -5.00 [-5.03, -4.97] faster
  ReduceScatter 4 MiB Float32     2  gpu  80.00  80.00   +0.00 [-0.04, +0.04]   +0.00 [-0.03, +0.03] no change found
  Reduce        8 MiB Float32     0  gpu  30.00      -                      -                      - only in A
  all               - 3 kinds     -  gpu  76.67  78.33   +2.17 [+2.13, +2.22]   +1.67 [+1.63, +1.70] slower

The same in total (warm-up included) and in the middle (p50 in µs; p50 %: B's against A's)
  function      bytes datatype role calls_A calls_B sum_A_ms sum_B_ms  p50_A  p50_B  p50 %
  AllReduce     1 MiB Float32     0     160     160    16.00    17.60 100.00 109.98  +9.98
  AllGather     2 MiB Float32     1     160     160     8.00     7.20  50.02  44.99 -10.04
  ReduceScatter 4 MiB Float32     2     160     160    12.80    12.80  80.00  80.00  +0.00
  Reduce        8 MiB Float32     0     160       -     4.80        -  30.00      -      -

Algorithm, protocol or channels changed (calls)
  AllReduce 1 MiB, role 0: RING/LL128 16ch (160) -> COLLNET_CHAIN/LL128 (160)

Notes
  An interval knows the noise within these two runs only. What differs from start to start (placement, clocks, other
    jobs) shows when two equal runs are compared.
  GPU time is from a rank's start to its stop and includes waiting for ranks that come later.

NCCL calls took 2.2 % more GPU time in B than in A [+2.1, +2.2] over 3 kinds of operations, 100 % of the compared GPU
time.
Next: ncclscope report after
[exit 1]
--- ncclscope diff before after --fail-on slower=15% --fail-on incomplete | sed -n '/^Verdict/,/^$/p'
Verdict: passed
  slower=15%: passed
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

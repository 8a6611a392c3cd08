# One rank that was late once makes the mean a quarter longer: no finding, because it is one moment of many, and too noisy for
# a verdict. The same run against itself does not differ, and a short one can't be judged.
ranks 2
repeat 100 { all_reduce 1MiB time=100us }
--- NCCLSCOPE_TIMING=stamps NCCLSCOPE_OUT=before fake-nccl play job
announced 200, ABI v5
--- sed 's/repeat 100/repeat 60 { all_reduce 1MiB time=100us }; rank 1 late 10ms; repeat 40/' job | NCCLSCOPE_TIMING=stamps NCCLSCOPE_OUT=after fake-nccl play -
announced 200, ABI v5
--- ncclscope diff before after --fail-on slower=5% | sed -n '/^Verdict/,/^$/p;/^Kinds/,/^$/p'
Verdict: undecided
  slower=5%: undecided
    too noisy for it: all operations together (gpu time) +23.2 % [-27.0, +108.0]

Kinds of operations (largest change of A's total time first; mean µs per call, without each rank's first)
  function  bytes datatype role time mean_A mean_B                 percent              difference finding
  AllReduce 1 MiB Float32     0  gpu 100.00 123.23 +23.23 [-26.99, +108.0] +23.23 [-41.27, +87.74] no change found
  all           - 1 kind      -  gpu 100.00 123.23 +23.23 [-26.99, +108.0] +23.23 [-41.27, +87.74] no change found
--- ncclscope diff before before --fail-on slower=0% --fail-on environment --fail-on missing
A  before
     <folder>/fake-nccl rank-process
     2 processes on 1 host; NCCL 2.28.9; mode trace, timing stamps; 200 of 200 announced calls recorded
B  before
     <folder>/fake-nccl rank-process
     2 processes on 1 host; NCCL 2.28.9; mode trace, timing stamps; 200 of 200 announced calls recorded

ratio = B / A of the mean time per call; percent = (ratio − 1) × 100; negative is faster.
Brackets are 95 % intervals. `slower` and `faster` hold for all kinds together (Holm).

Verdict: passed
  slower=0%: passed
  environment: passed
  missing: passed

Nothing changed in the environment.

Communicators by role (`A` and `B` count them, `members` are one's; hashes differ from run to run)
  role nranks nodes A B name members paired by
     0      2     1 1 1 -    0-1     name, ranks, nodes, members

Kinds of operations (largest change of A's total time first; mean µs per call, without each rank's first)
  function  bytes datatype role time mean_A mean_B              percent           difference finding
  AllReduce 1 MiB Float32     0  gpu 100.00 100.00 +0.00 [-0.03, +0.03] +0.00 [-0.03, +0.03] no change found
  all           - 1 kind      -  gpu 100.00 100.00 +0.00 [-0.03, +0.03] +0.00 [-0.03, +0.03] no change found

The same in total (warm-up included) and in the middle (p50 in µs; p50 %: B's against A's)
  function  bytes datatype role calls_A calls_B sum_A_ms sum_B_ms  p50_A  p50_B p50 %
  AllReduce 1 MiB Float32     0     200     200    20.00    20.00 100.00 100.00 +0.00

Notes
  An interval knows the noise within these two runs only. What differs from start to start (placement, clocks, other
    jobs) shows when two equal runs are compared.
  GPU time is from a rank's start to its stop and includes waiting for ranks that come later.

No change of the GPU time of NCCL calls is found: +0.0 % [-0.0, +0.0] over 1 kind of operation, 100 % of the compared
GPU time.
Next: ncclscope report before
--- sed 's/repeat 100/repeat 10/' job | NCCLSCOPE_TIMING=stamps NCCLSCOPE_OUT=short fake-nccl play -
announced 20, ABI v5
--- ncclscope diff before short --fail-on slower=5% | sed -n '/^Verdict/,/^$/p;/^Kinds/,/^$/p'
Verdict: undecided
  slower=5%: undecided
    no kind of operation has an interval (it takes rows of 16 operations in both runs, after the first)

Kinds of operations (largest change of A's total time first; mean µs per call, without each rank's first)
  function  bytes datatype role time mean_A mean_B percent difference finding
  AllReduce 1 MiB Float32     0  gpu 100.00 100.00   +0.00      +0.00 -

# One rank that was late once makes the mean a quarter longer: no finding, because it is one moment of many, and too noisy for
# a verdict. An equal run does not differ, and a short one can't be judged.
ranks 2
virtual_time
repeat 100 { all_reduce 1MiB time=100us }
--- NCCLSCOPE_TIMING=stamps NCCLSCOPE_OUT=before fake-nccl play job
announced 200, ABI v5
--- sed 's/repeat 100/repeat 60 { all_reduce 1MiB time=100us }; rank 1 late 10ms; repeat 40/' job | NCCLSCOPE_TIMING=stamps NCCLSCOPE_OUT=after fake-nccl play -
announced 200, ABI v5
--- ncclscope diff before after --fail-on nccl-slower=5% | sed -n '/^Verdict/,/^$/p;/^Kinds/,/^$/p'
Verdict: undecided
  nccl-slower=5%: undecided
    too noisy for it: all operations together (gpu time) +23.2 % [-27.0, +108.0]

Kinds of operations (largest change of A's total time first; mean µs per call, without each rank's first)
  function   size type    role time mean_A mean_B                 change finding
  AllReduce 1 MiB float32    0  gpu    100    123 +23.2% [-27.0%, ×2.08] no change found
  all           - 1 kind     -  gpu    100    123 +23.2% [-27.0%, ×2.08] no change found
--- NCCLSCOPE_TIMING=stamps NCCLSCOPE_OUT=again fake-nccl play job >/dev/null; ncclscope diff before again --fail-on nccl-slower=0% --fail-on environment --fail-on missing
The run took <time> and <time>.

A before
     2 processes on 1 host; NCCL 2.28.9; mode trace, timing stamps; 200 of 200 announced calls recorded
B again
     2 processes on 1 host; NCCL 2.28.9; mode trace, timing stamps; 200 of 200 announced calls recorded

The run (waiting: of the time in NCCL; busbw: of the operation that moved most bytes)
  figure A B change
  wall <time>
  waiting 0.0 % 0.0 % +0.0 points
  busbw 10.5 GB/s 10.5 GB/s +0.0 %

Nothing changed in the environment.

No finding is new or gone.

Verdict: passed
  nccl-slower=0%: passed
  environment: passed
  missing: passed

Kinds of operations (largest change of A's total time first; mean µs per call, without each rank's first)
  function   size type    role time mean_A mean_B               change finding
  AllReduce 1 MiB float32    0  gpu    100    100 +0.0% [+0.0%, +0.0%] no change found
  all           - 1 kind     -  gpu    100    100 +0.0% [+0.0%, +0.0%] no change found

Notes
  ratio = B / A of the mean time per call; percent = (ratio − 1) × 100; negative is faster. Brackets are 95 % intervals.
    `slower` and `faster` hold for all kinds together (Holm).
  An interval knows the noise within these two runs only. What differs from start to start (placement, clocks, other
    jobs) shows when two equal runs are compared.
  GPU time is from a rank's start to its stop and includes waiting for ranks that come later.

The run took <time> and <time>.
Next: ncclscope report again
--- sed 's/repeat 100/repeat 10/' job | NCCLSCOPE_TIMING=stamps NCCLSCOPE_OUT=short fake-nccl play -
announced 20, ABI v5
--- ncclscope diff before short --fail-on nccl-slower=5% | sed -n '/^Verdict/,/^$/p;/^Kinds/,/^$/p'
Verdict: undecided
  nccl-slower=5%: undecided
    no kind of operation has an interval (it takes rows of 16 operations in both runs, after the first)

Kinds of operations (largest change of A's total time first; mean µs per call, without each rank's first)
  function   size type    role time mean_A mean_B change
  AllReduce 1 MiB float32    0  gpu    100    100  +0.0%

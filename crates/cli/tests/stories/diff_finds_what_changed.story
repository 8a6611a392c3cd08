# Two runs of which the truth is known: AllReduces 10 % slower by another algorithm, AllGathers 10 % faster, Reduces gone.
ranks 4
virtual_time
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
--- ncclscope diff before after --fail-on nccl-slower=5% --fail-on missing --fail-on environment --fail-on algorithm --fail-on incomplete
The run took <time> and <time>.

A before
     4 processes on 1 host; NCCL 2.28.9; mode trace, timing stamps; 640 of 640 announced calls recorded
B after
     4 processes on 1 host; NCCL 2.28.9; mode trace, timing stamps; 480 of 480 announced calls recorded

The run (waiting: of the time in NCCL; busbw: of the operation that moved most bytes)
  figure A B change
  wall <time>
  waiting 0.0 % 0.0 % +0.0 points
  busbw 280 GB/s 26.2 GB/s -90.6 %

Environment (what changed, A -> B)
  NCCL_ALGO: RING -> not set

No finding is new or gone.

Verdict: failed
  nccl-slower=5%: failed
    AllReduce of 1048576 bytes Float32, communicator role 0: +10.0 % [+10.0, +10.0]
  missing: failed
    Reduce of 8388608 bytes Float32, communicator role 0
  environment: failed
    NCCL_ALGO
  algorithm: failed
    AllReduce of 1048576 bytes Float32, communicator role 0
  incomplete: passed

Kinds of operations (largest change of A's total time first; mean µs per call, without each rank's first)
  function       size type    role time mean_A mean_B                  change finding
  AllReduce     1 MiB float32    0  gpu    100    110 +10.0% [+10.0%, +10.0%] slower
  AllGather     2 MiB float32    1  gpu   50.0   45.0  -10.0% [-10.1%, -9.9%] faster
  ReduceScatter 4 MiB float32    2  gpu   80.0   80.0    +0.0% [+0.0%, +0.0%] no change found
  Reduce        8 MiB float32    0  gpu   30.0      -                       - only in A
  all               - 3 kinds    -  gpu   76.7   78.3    +2.2% [+2.1%, +2.2%] slower

Algorithm, protocol or channels changed (calls)
  AllReduce 1 MiB, role 0: RING/LL128 16ch (160) -> COLLNET_CHAIN/LL128 (160)

Communicators by role (A and B count them, members are one's; hashes differ from run to run)
  role nranks nodes A B members paired_by
     0      4     1 1 1 0-3     name, ranks, nodes, members
     1      2     1 2 2 0-1     name, ranks, nodes, members
     2      2     1 2 2 0,2     name, ranks, nodes, members

Notes
  ratio = B / A of the mean time per call; percent = (ratio − 1) × 100; negative is faster. Brackets are 95 % intervals.
    `slower` and `faster` hold for all kinds together (Holm).
  An interval knows the noise within these two runs only. What differs from start to start (placement, clocks, other
    jobs) shows when two equal runs are compared.
  GPU time is from a rank's start to its stop and includes waiting for ranks that come later.

The run took <time> and <time>.
Next: ncclscope report after
[exit 1]
--- ncclscope diff before after --fail-on nccl-slower=15% --fail-on incomplete | sed -n '/^Verdict/,/^$/p'
Verdict: passed
  nccl-slower=15%: passed
  incomplete: passed
--- ncclscope diff before after --fail-on slower
2| error: invalid value 'slower' for '--fail-on <WHAT>': expected slower=N%, nccl-slower=N%, missing, environment, algorithm or incomplete
2| 
2| For more information, try 'ncclscope diff --help'.
[exit 2]
--- ncclscope diff before nowhere
2| error: `nowhere`: expected a capture folder or a trace file, found nothing
2|   hint: `ncclscope run -o DIR -- COMMAND` records one into DIR
[exit 2]

# A forked child that exits touches nothing of its parent's.
ranks 2
all_reduce 1KiB x10
rank 0 fork
all_reduce 1KiB x10
--- fake-nccl play job
announced 40, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p'
Completeness
  40 of 40 announced calls recorded, 0 timed.
--- find capture -name '*.trace' | wc -l
2

# `run --stacks`: each call has its caller, and sums by caller are those of the functions.
ranks 2
virtual_time
all_reduce 1KiB x20
all_gather 1MiB x5
--- ncclscope run --stacks --timing stamps -o capture -- fake-nccl play job
announced 50, ABI v5
2| ncclscope: capture in capture: 2 processes, 50 calls; next: ncclscope report capture
--- ncclscope report capture --json | jq -c '[([.callers[].calls] | add) == ([.functions[].calls] | add)]'
[true]
--- ncclscope report capture --json | jq -c '([.callers[].sum_over_ranks_us] | add) == ([.functions[].sum_over_ranks_us] | add)'
true
--- ncclscope report capture --json | jq -c '[.callers[].caller != null] | all'
true
--- ncclscope hang capture | grep -c 'Last call of ranks 0-1: '
1

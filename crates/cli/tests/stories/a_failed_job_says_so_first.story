# The command fails, and no rank is seen to have left early.
ranks 2
all_reduce 1MiB x10
--- ncclscope run -o run -- sh -c 'fake-nccl play job; exit 3'
announced 20, ABI v5
2| ncclscope: capture in run: 2 processes, 20 calls; next: ncclscope report run
[exit 3]
--- ncclscope report run | sed -n '1,2p'
The job failed: exit status 3. Which rank is late, and what communication costs, is not known: no call has a GPU time,
because the process has no CUDA driver.

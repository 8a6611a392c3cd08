# If all ranks are killed at once, nobody waits for another; report and hang say that they were killed.
ranks 2
cuda
repeat 40 { compute 5ms ; all_reduce 1MiB ; sync }
rank 0,1 kill
--- fake-nccl play job
--- ncclscope report capture | sed -n '1,/^$/p'
--- ncclscope hang capture | sed -n '1,/^$/p'

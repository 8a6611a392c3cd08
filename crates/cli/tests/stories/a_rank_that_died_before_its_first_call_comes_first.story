# A rank that is killed before it makes a call is told as one that dies later.
ranks 4
cuda
linger 2s
rank 1 kill
repeat 10 { compute 1ms ; all_reduce 1MiB ; sync }
--- fake-nccl play job
--- ncclscope report capture | sed -n '1,/^$/p'

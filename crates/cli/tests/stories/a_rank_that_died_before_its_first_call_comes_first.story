# A rank that is killed before it makes a call is told as one that dies later.
ranks 4
cuda
linger 2s
rank 1 kill
repeat 10 { compute 1ms ; all_reduce 1MiB ; sync }
--- fake-nccl play job
announced 3, ABI v5
--- ncclscope report capture | sed -n '1,/^$/p'
Rank 1 (pid <pid> on <host>) died at <date>, before its first call on communicator 8869398c7032ecc5;
ranks 0,2-3 wait for it in call 1.

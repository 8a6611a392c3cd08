# A job that hung and was ended by its launcher: nobody died first, and the first line says who was waited for.
ranks 3
linger 7s
all_reduce 1MiB x10
rank 1 hang
all_reduce 4MiB
sync
--- fake-nccl play job
announced 32, ABI v5
--- ncclscope report capture | sed '/^$/,$d' | tr '\n' ' ' | sed 's/ for [0-9.]* s\./ for <n> s./'
Rank 1 has not made AllReduce of 4 MiB, call 11 on communicator c00df69fc6fcf19e, which ranks 0,2 wait in for <n> s. in NCCL's calls on the host <n> % of the time (median rank)
--- ncclscope report capture | tail -n 1
Next: ncclscope hang capture
--- ncclscope hang capture --after 1s | tail -n 1
Next: ncclscope run --stacks -- …

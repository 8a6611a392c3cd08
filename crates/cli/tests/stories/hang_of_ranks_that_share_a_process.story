# Two ranks in each process: the launcher's rank does not tell them apart, so they have the communicator's.
ranks 4
per_process 2
linger 5s
all_reduce 1MiB x10
sync
rank 2 hang
all_reduce 1MiB
--- fake-nccl play job
announced 43, ABI v5
--- ncclscope hang capture | sed -n '1,/^$/p' | tr -s ' \n' ' ' | sed 's/[0-9.]* \(ms\|s\)\b/<time>/g'
Rank 2 has not made AllReduce of 1 MiB, call 11 on communicator 8869398c7032ecc5, which ranks 0-1,3 wait in for <time>. The last call of rank 2 there (pid <pid> on <host>) is AllReduce of 1 MiB, call 10 on communicator 8869398c7032ecc5: launched, <time> ago. Long computing, or a checkpoint, looks the same: from 2 min on it counts as a hang (--after).
--- ncclscope hang capture --json | jq -c '.waits[] | [.call.function, .waiting, .missing]'
["AllReduce","0-1,3","2"]

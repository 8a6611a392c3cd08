# A rank that never makes its call: the first sentence names it and the call, and the exit status is 1. After the end of the job, a wait of 2 s is long beside its pauses.
ranks 4
linger 2s
all_reduce 1KiB x3
sync
rank 2 hang
all_reduce 8MiB
--- fake-nccl play job
announced 15, ABI v5
--- ncclscope hang capture --after 1s | sed 's/ for [0-9.]* s\././; q'
Rank 2 has not made AllReduce of 8 MiB, call 4 on communicator 8869398c7032ecc5, which ranks 0-1,3 wait in.
--- ncclscope hang capture --after 1s >/dev/null
[exit 1]
--- ncclscope hang capture | sed 's/, which.*//; q'
Rank 2 has not made AllReduce of 8 MiB, call 4 on communicator 8869398c7032ecc5
--- ncclscope hang capture >/dev/null
[exit 2]
--- ncclscope hang capture --after soon
2| error: invalid value 'soon' for '--after <TIME>': expected a time like 10s, 500ms or 5min, found `soon`
2| 
2| For more information, try 'ncclscope hang --help'.
[exit 2]

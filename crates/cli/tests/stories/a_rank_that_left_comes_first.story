# A rank ends itself, as by an exception, and the others wait for it until the launcher ends them.
ranks 4
all_reduce 1MiB x10
rank 2 exit 1
all_reduce 1MiB
sync
--- fake-nccl play job
announced 43, ABI v5
--- ncclscope report capture | sed -n '1,2p'
Rank 2 (pid <pid> on <host>) exited at <date>, after call 10 (AllReduce of 1 MiB) on communicator
8869398c7032ecc5; ranks 0-1,3 wait for it in call 11.

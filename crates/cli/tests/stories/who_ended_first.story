# A rank fails, and the launcher ends the others. `ncclscope run` sees how each ended, and in which order.
ranks 4
all_reduce 1MiB x10
sleep 2.5s
all_reduce 1MiB x10
rank 2 exit 3
all_reduce 1MiB
sync
--- ncclscope run --no-sampler -o capture -- fake-nccl play job
announced 83, ABI v5
2| ncclscope: capture in capture: 4 processes, 83 calls; next: ncclscope report capture
--- ncclscope hang capture | sed -n '1,/^$/p' | tr -s ' \n' ' ' | sed 's/[0-9.]* ms/<ms>/g'
Rank 2 has ended (exit status 3), and has not made AllReduce of 1 MiB, call 21 on communicator 8869398c7032ecc5, which ranks 0-1,3 wait in for <ms>. The last call of rank 2 there (pid <pid> on <host>) is AllReduce of 1 MiB, call 20 on communicator 8869398c7032ecc5: launched, <ms> ago. Rank 2 (pid <pid> on <host>) ended first, at <date> (exit status 3). <ms> later and after, ranks 0-1,3 ended (SIGTERM).
--- ncclscope hang capture --json | jq -c '.exits[] | [.rank, .exit_status, .signal, .out_of_memory, .last_function, .last_bytes]'
[2,3,null,false,"AllReduce",1048576]
[0,null,15,false,"AllReduce",1048576]
[1,null,15,false,"AllReduce",1048576]
[3,null,15,false,"AllReduce",1048576]
--- ncclscope report capture | sed -n '1,2p'
Rank 2 (pid <pid> on <host>) exited (exit status 3) at <date>, after call 20 (AllReduce of 1 MiB) on
communicator 8869398c7032ecc5; ranks 0-1,3 wait for it in call 21.
--- ncclscope report capture | sed -n '/^  ended/,/^$/p' | tr -s ' \n' ' ' | sed 's/[0-9.]* ms/<ms>/g'
 ended Rank 2 (pid <pid> on <host>) ended first, at <date> (exit status 3); its last call was AllReduce of 1 MiB. <ms> later and after, ranks 0-1,3 ended (SIGTERM).
--- ncclscope report capture --json | jq -c '.exits[0].exit_status, (.deaths[0] | .exit_status, .signal)'
3
3
null

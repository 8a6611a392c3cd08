# A GPU that gives nothing and takes nothing: it is named, and not the network that waits for it.
ranks 2
hosts 2
linger 2s
all_reduce 1MiB x3
sync
rank 0 stuck recv_gpu step=3
rank 0 stuck send_gpu step=3
rank 1 stuck recv_network step=3
rank 1 stuck send_gpu step=4
all_reduce 64MiB channels=2
sync
--- fake-nccl play job
announced 8, ABI v5
--- ncclscope hang capture --after 1s --json | jq -r '.sentence, .details[]' | sed 's/ for [0-9.]* s/ for _ s/'
The GPU of rank 0 on <host> holds up AllReduce of 64 MiB, call 4 on communicator a37d5f01a3151d04, not the network: rank 0's send to rank 1 on channel 0 has waited for its GPU's data (SendGPUWait) for _ s, 3 of 64 steps done; rank 1's receive waits for the network (RecvWait), 3 done.
All 2 ranks are in AllReduce of 64 MiB, call 4 on communicator a37d5f01a3151d04, and it has not ended for _ s.
Work that was given to it before may keep it busy.
Likewise on channel 1.
4 other network operations of it wait behind that.
--- ncclscope hang capture --after 1s --json | jq -c '.verdict, .cause, .certain, [.blamed[].global_rank]'
"no_progress"
"gpu"
true
[0]
--- ncclscope hang capture --after 1s --json | jq -r '.net_ops[] | select(.cause) | "\(.rank) \(.direction) \(.channel) \(.state) \(.steps_done)"' | sort
0 receive 0 recv_gpu 3
0 receive 1 recv_gpu 3
0 send 0 send_gpu 3
0 send 1 send_gpu 3

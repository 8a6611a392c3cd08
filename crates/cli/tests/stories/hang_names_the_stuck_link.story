# Two hosts whose link stops in the middle of a call: both halves of the network operation are named, with states, channel and steps.
# Without states only the open network operations are.
ranks 2
hosts 2
linger 2s
all_reduce 1MiB x3
sync
rank 0 stuck send_network step=5 channel=1
rank 1 stuck recv_network step=5 channel=1
all_reduce 64MiB channels=2
sync
--- fake-nccl play job
announced 8, ABI v5
--- ncclscope hang capture --after 1s | sed 's/ for [0-9.]* s/ for _ s/; /^$/,$d'
Rank 1's receive from rank 0 on channel 1 of AllReduce of 64 MiB, call 4 on communicator a37d5f01a3151d04, has waited
for the network (RecvWait) for _ s, 5 of 64 steps done; rank 0's send waits for the network (SendWait), 5 done: look
at the path between the two (NIC, link, NCCL_IB_*, NCCL_SOCKET_*).
  All 2 ranks are in AllReduce of 64 MiB, call 4 on communicator a37d5f01a3151d04, and it has not ended for _ s.
  3 other network operations of it wait behind that.
--- ncclscope hang capture --after 1s --json | jq -c '.verdict, .cause, .certain, [.blamed[].global_rank], (.net_ops[] | [.rank, .direction, .peer, .channel, .state, .steps_done, .steps, .cause])'
"no_progress"
"network"
true
[1,0]
[1,"receive",0,1,"recv_network",5,64,"network"]
[0,"receive",1,1,"recv_network",5,64,null]
[0,"send",1,1,"send_network",5,64,null]
[1,"send",0,1,"send_gpu",5,64,null]
--- rm -r capture; NCCLSCOPE_NET=ops fake-nccl play job
announced 8, ABI v5
--- ncclscope hang capture --after 1s | sed 's/ for [0-9.]* s/ for _ s/; /^$/,$d'
All 2 ranks are in AllReduce of 64 MiB, call 4 on communicator a37d5f01a3151d04, and it has not ended for _ s.
  Not over: rank 0's receive from rank 1 on channel 1; rank 0's send to rank 1 on channel 1; rank 1's receive from rank
    0 on channel 1; rank 1's send to rank 0 on channel 1. With NCCLSCOPE_NET=steps it is also known what they wait for.
--- rm -r capture; NCCLSCOPE_NET=off fake-nccl play job
announced 8, ABI v5
--- ncclscope hang capture --after 1s | sed 's/[0-9.]* s ago/_ s ago/; q'
Can't tell: all 2 ranks have made the same calls, the newest _ s ago, and whether their GPUs have ended them is not

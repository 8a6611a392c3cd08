# Mode profile has the same network totals as mode trace; only what steps waited for depends on the machine.
ranks 4
hosts 2
all_reduce 1MiB x33
rank 1 { send 4KiB to=2 x5 }
rank 2 { recv 4KiB from=1 x5 }
--- NCCLSCOPE_MODE=profile NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 142, ABI v5
--- NCCLSCOPE_OUT=trace NCCLSCOPE_TIMING=stamps fake-nccl play job >/dev/null 2>&1; for d in capture trace; do ncclscope report $d --json | jq -c '.network[] | [.function, .calls, .operations, .operations_done, .steps, .bytes_sent, .bytes_received, ([.wait_us[] | . != null] | tostring)]' > $d.txt; done; diff capture.txt trace.txt && cat capture.txt
["AllReduce",132,2112,2112,2112,103809024,103809024,"[true,true,true,true,true,true]"]
["Send",5,5,5,5,20480,0,"[true,true,true,false,false,false]"]
["Recv",5,5,5,5,0,20480,"[false,false,false,true,true,true]"]
--- test $(du -s capture | cut -f1) -le $(du -s trace | cut -f1) && echo no more disk than trace
no more disk than trace
--- ncclscope report capture | sed -n '/^Notes/,/^$/p'
Notes
  No operation has a row with a GPU time from every rank of its communicator: there is no algbw or busbw of the shortest
    rank.
  Percentiles of calls that were counted without rows come from histograms: error at most 1 %.

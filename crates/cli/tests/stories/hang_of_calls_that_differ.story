# A job that is ended soon after two ranks made a Broadcast with different roots: whether it hung can't be told, and nobody makes calls any more.
ranks 2
linger 700ms
all_reduce 1MiB x20
rank 0 { broadcast 1MiB root=0 }
rank 1 { broadcast 1MiB root=1 }
--- fake-nccl play job
announced 42, ABI v5
--- ncclscope hang capture | head -3 | sed -E "s/[0-9.]+ (ms|s) before/<time> before/"
Rank 1 made Broadcast of 1 MiB (root 1) where rank 0 made Broadcast of 1 MiB (root 0), call 21 on communicator
a37d5f01a3151d04.
  Some of them made a call <time> before the newest evidence, so whether the job hangs can't be told from it.
--- ncclscope hang capture > hang; echo $?
2
--- ncclscope hang capture --json | jq -c '.waits[] | [.call.function, .call.bytes, .waiting, .missing]'
["Broadcast",1048576,"0","1"]
["Broadcast",1048576,"1","0"]

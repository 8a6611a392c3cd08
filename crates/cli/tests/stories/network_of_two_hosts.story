# Two hosts: what the network moved for each function, and what its steps waited for.
ranks 4
virtual_time
hosts 2
all_reduce 8MiB x3
sync
all_to_all 4MiB
--- fake-nccl play job
announced 44, ABI v5
--- ncclscope report capture --all | sed -n '/^Completeness/,/^$/p; /^Network/,$p'
Completeness
  44 of 44 announced calls recorded, 0 timed.
  Recording cost this job: callbacks <n> % (estimated).

Network (most bytes first; waits in <unit>, summed over steps and channels)
  function  comm calls ops steps   sent   recv send_gpu send_peer send_network recv_network recv_flush recv_gpu
  AllReduce 8869    12 192   384 72 MiB 72 MiB        ·         ·            ·            ·          ·        ·
  AlltoAll  8869    16  32    32  8 MiB  8 MiB        ·         ·            ·            ·          ·        ·

Notes
  There are no GPU times: the process has no CUDA driver.

Next: ncclscope view capture
--- ncclscope report capture --json | jq -c '.network[] | [.function, .calls, .operations, .bytes_sent, .bytes_received]'
["AllReduce",12,192,75497472,75497472]
["AlltoAll",16,32,8388608,8388608]
--- rm -r capture; echo ranks 2 '; hosts 2 ; all_reduce 8MiB' | NCCLSCOPE_NET=ops fake-nccl play -
announced 2, ABI v5
--- ncclscope report capture --all | sed -n '/^Network/,/^$/p'
Network (most bytes first; waits in <unit>, summed over steps and channels)
  function  comm calls ops steps sent recv send_gpu send_peer send_network recv_network recv_flush recv_gpu
  AllReduce a37d     2  64     0    -    -        -         -            -            -          -        -
--- rm -r capture; echo ranks 2 '; hosts 2 ; all_reduce 8MiB' | NCCLSCOPE_NET=off fake-nccl play -
announced 2, ABI v5
--- ncclscope report capture | grep -c Network
0
[exit 1]

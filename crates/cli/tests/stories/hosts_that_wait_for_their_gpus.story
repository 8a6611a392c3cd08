# Hosts wait for a collective before they launch anything else. No stream waits for it then, and GPUs stand still all
# the same. The host of rank 2 sleeps for 4 ms longer than the others compute, in each of 60 steps. A busy machine wakes
# hosts up late, so the price is not compared.
ranks 4
cuda
repeat 60 {
  compute 2ms
  join
  rank 2 { sleep 6ms }
  all_reduce 64KiB time=20us
  sync
}
--- fake-nccl play job
announced 240, ABI v5
--- ncclscope report capture --json | jq -c '.findings[0] | [.kind, .ranks, .cause]'
["late_rank",[2],"host"]

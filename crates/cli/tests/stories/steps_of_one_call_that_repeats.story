# Steps of four equal calls are found by the pauses between them. Calls of two sizes in any order are no steps.
ranks 2
virtual_time
all_reduce 256KiB x4
repeat 30 {
  sleep 20ms
  all_reduce 256KiB x4 time=30us
  sync
}
--- NCCLSCOPE_TIMING=host fake-nccl play job
--- ncclscope report capture --json | jq -c '.steps | .steps, .calls, [.rows[] | {rank, steps, calls}]'
--- rm -r capture; awk 'BEGIN { srand(3); print "ranks 2\nvirtual_time"; for (i = 0; i < 200; i++) print (rand() < 0.3 ? "sleep 20ms\n" : "") "all_reduce " (rand() < 0.5 ? "256KiB" : "1MiB") }' > other; NCCLSCOPE_TIMING=host fake-nccl play other
--- ncclscope report capture --json | jq -c .steps

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
announced 248, ABI v5
--- ncclscope report capture --json | jq -c '.steps | .steps, .calls, [.rows[] | {rank, steps, calls}]'
{"n":2,"min":30,"median":30,"max":30}
{"n":2,"min":4,"median":4,"max":4}
[{"rank":0,"steps":30,"calls":4},{"rank":1,"steps":30,"calls":4}]
--- rm -r capture; awk 'BEGIN { srand(3); print "ranks 2\nvirtual_time"; for (i = 0; i < 200; i++) print (rand() < 0.3 ? "sleep 20ms\n" : "") "all_reduce " (rand() < 0.5 ? "256KiB" : "1MiB") }' > other; NCCLSCOPE_TIMING=host fake-nccl play other
announced 400, ABI v5
--- ncclscope report capture --json | jq -c .steps
null

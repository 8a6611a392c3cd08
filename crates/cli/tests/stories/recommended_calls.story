# Communication that could be overlapped, warm-up in the timed part, and buffers in CUDA graphs that are not registered: each
# has its evidence, and none is named in a job that does it right.
ranks 2
cuda
all_reduce 1KiB
repeat 20 {
  all_reduce 1MiB time=4ms
  compute 10ms
  join
  compute 1ms
  all_reduce 2MiB time=4ms
  join
  compute 1ms
}
sleep 500ms
sync
--- NCCLSCOPE_WINDOWS=off fake-nccl play job
announced 82, ABI v5
--- ncclscope report capture --json | jq -c '.recommendations[] | [.rule, .gain_source, .effort, .risk, .gain_us, .gain_at_most_us > 60000]'
["exposed_communication","measured","high","medium",null,true]
--- rm -r capture; sed '/2MiB/,+1d' job | NCCLSCOPE_WINDOWS=off fake-nccl play -
announced 42, ABI v5
--- ncclscope report capture --json | jq -c .recommendations
[]
--- rm -r capture; printf 'ranks 2\nvirtual_time\nall_reduce 1MiB\nrank 0..1 late 300ms\nall_reduce 2MiB\nsync\nsleep 3ms\nrepeat 20 {\nall_reduce 1MiB\nall_reduce 2MiB\nsync\nsleep 3ms\n}' > timed; NCCLSCOPE_TIMING=stamps fake-nccl play timed
announced 84, ABI v5
--- ncclscope report capture --json | jq -c .recommendations
[]
--- ncclscope report capture --all | tr -s ' \n' ' ' | grep -o 'The first calls on comm.* larger with it.' | sed -E 's/[0-9.]+ (ms|µs|%)/<n>/g; s/mean of .* steps/mean of <n> steps/'
The first calls on communicators are in step 1, and NCCL connects ranks and loads kernels then. Step 1 takes <n>, and the median step <n>: the mean of <n> steps is <n> larger with it.
--- rm -r capture; sed 's/^rank.*late/all_reduce 4KiB\n&/; 3d' timed | NCCLSCOPE_TIMING=stamps fake-nccl play -
announced 84, ABI v5
--- ncclscope report capture --json | jq -c '.steps.steps.min > 10, .recommendations'
true
[]
--- rm -r capture; printf 'ranks 2\nall_reduce 1MiB\ngraph g { all_reduce 1MiB x4 }\nreplay g x10' > graphs; NCCL_GRAPH_REGISTER=0 NCCLSCOPE_TIMING=stamps fake-nccl play graphs
announced 90, ABI v5
--- ncclscope report capture --json | jq -c '.recommendations[] | .rule, .subject, .evidence'
"registration_off"
"NCCL_GRAPH_REGISTER"
"NCCL_GRAPH_REGISTER=0 was set, and this job has CUDA graphs with NCCL calls."
--- rm -r capture; NCCL_GRAPH_REGISTER=1 NCCLSCOPE_TIMING=stamps fake-nccl play graphs
announced 90, ABI v5
--- ncclscope report capture --json | jq -c .recommendations
[]
--- rm -r capture; NCCL_GRAPH_REGISTER=0 NCCLSCOPE_TIMING=stamps fake-nccl play timed
announced 84, ABI v5
--- ncclscope report capture --json | jq -c '[.recommendations[] | .rule | select(. == "registration_off")]'
[]

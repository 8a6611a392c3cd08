# A step is found through start-up and evaluation: its calls, how many, and for how long the GPU is in NCCL. Step times are the host's.
ranks 2
virtual_time
all_gather 1KiB
broadcast 4MiB root=0 x3
repeat 4 {
  repeat 6 {
    sleep 4ms
    all_reduce 8MiB time=300us
    all_reduce 2MiB time=100us
    all_reduce 8MiB time=300us
    all_gather 1MiB time=50us
    sync
  }
  all_gather 64KiB x2
  sync
}
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 216, ABI v5
--- ncclscope report capture --json | jq -c '.steps | .rank, .steps, .calls, .communication_us, .without, [.rows[] | {rank, steps, calls, n: .step_us.n}]'
0
{"n":2,"min":24,"median":24,"max":24}
{"n":2,"min":4,"median":4,"max":4}
{"n":2,"min":750.016,"median":750.016,"max":750.016}
0
[{"rank":0,"steps":24,"calls":4,"n":20},{"rank":1,"steps":24,"calls":4,"n":20}]
--- ncclscope report capture --json | jq -c '.steps.step_us | .max >= 4700'
true
--- ncclscope report capture | sed -n '/^Steps/,/^$/p' | grep -v 'Critical path' | sed -E 's/[0-9.]+ (µs|ms)/T/g; s/[(][0-9.]+ %/(P %/; s/; (T between|no gaps).*/; gaps/'
Steps (calls that repeat, from the first after their longest pause)
  24 steps of 4 calls on each of 2 ranks; p50 T, p95 T, longest T.
  Of a step, T (P %) is in NCCL kernels on the median rank.
  Start-up before step 1: T; gaps
--- rm -r capture; NCCLSCOPE_TIMING=host fake-nccl play job
announced 216, ABI v5
--- ncclscope report capture --json | jq -c '.steps | .steps, .communication_us'
{"n":2,"min":24,"median":24,"max":24}
null

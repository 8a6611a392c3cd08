# The calls are as quick as before, and the host sleeps longer between them: the job is slower, NCCL is not.
# Calls in CUDA graphs have times in kernel windows only. There, NCCL's kernels of a step count.
ranks 2
virtual_time
repeat 60 { all_reduce 1MiB ; all_gather 1MiB ; reduce_scatter 1MiB ; sleep 5ms }
--- NCCLSCOPE_TIMING=stamps NCCLSCOPE_OUT=before fake-nccl play job >/dev/null

--- sed s/5ms/8ms/ job > slower; NCCLSCOPE_TIMING=stamps NCCLSCOPE_OUT=after fake-nccl play slower >/dev/null

--- ncclscope diff before after --fail-on slower=5% --fail-on nccl-slower=5% | sed -n '1p;/^Verdict/,/^$/p'
The step went from 5.03 ms to 8.03 ms (+59.6 %). No finding says why, and nothing changed in the environment.
Verdict: failed
  slower=5%: failed
    the step: +59.6 % [+59.6, +59.6]
  nccl-slower=5%: passed
--- ncclscope diff before after --fail-on slower=5% >/dev/null
[exit 1]
--- ncclscope diff before after --fail-on nccl-slower=5% >/dev/null

--- ncclscope diff data/decode_plain data/decode_slow_gpu --fail-on nccl-slower=5% | sed -n '/^Verdict/,/^$/p'
Verdict: failed
  nccl-slower=5%: failed
    NCCL's kernels of a step, by kernel windows: +73.7 % [+60.0, +87.4]
--- ncclscope diff data/decode_slow_gpu data/decode_plain --fail-on nccl-slower=5% >/dev/null


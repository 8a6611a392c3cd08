# In profile mode there are totals and no rows: means are compared, without intervals, so nothing is called slower.
ranks 2
virtual_time
repeat 50 { all_reduce 1MiB time=100us }
--- NCCLSCOPE_MODE=profile NCCLSCOPE_TIMING=stamps NCCLSCOPE_OUT=before fake-nccl play job
announced 100, ABI v5
--- sed 's/100us/150us/' job | NCCLSCOPE_MODE=profile NCCLSCOPE_TIMING=stamps NCCLSCOPE_OUT=after fake-nccl play -
announced 100, ABI v5
--- ncclscope diff before after --fail-on nccl-slower=5% | sed -n '/^Verdict/,/^$/p;/^Kinds/,/^$/p;/^No kind/p'
Verdict: undecided
  nccl-slower=5%: undecided
    no kind of operation has an interval (it takes rows of 16 operations in both runs, after the first)

Kinds of operations (largest change of A's total time first; mean µs per call, without each rank's first)
  function   size type    role time mean_A mean_B change
  AllReduce 1 MiB float32    0  gpu    100    150 +50.0%
--- ncclscope diff before after --json | grep -A2 -E '"no_interval"|"status"'
    "status": null,
    "exit_status": 0,
    "criteria": []
--
      "no_interval": "calls counted without rows",
      "how_changed": false
    }

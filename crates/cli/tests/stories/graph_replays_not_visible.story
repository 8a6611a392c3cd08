# Without stamps and network NCCL shows no replay: said, and never zero.
ranks 2
graph step { all_reduce 1KiB x2 }
replay step x10
all_reduce 1KiB
--- fake-nccl play job
announced 6, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Notes/,$p'
Completeness and trust
  6 of 6 announced calls recorded, 0 timed.

Notes
  There are no GPU times: the process has no CUDA driver.
  4 calls were captured into CUDA graphs; replays not visible: NCCL announces them only with GPU stamps
    (NCCLSCOPE_TIMING=stamps) or over a network.

Only first calls have a time; they are under Warm-up.
Next: ncclscope export capture --to perfetto -o capture.pftrace
--- ncclscope report capture --json | jq -c '.operations[] | {function, calls, captured, replays}'
{"function":"AllReduce","calls":2,"captured":4,"replays":0}

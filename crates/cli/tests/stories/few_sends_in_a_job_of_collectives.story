# A send and receive in a job that otherwise has none: what to do about it, and both kinds apart. More of them are
# meant.
ranks 2
virtual_time
repeat 200 { all_reduce 1MiB }
rank 0 { send 4KiB to=1 }
rank 1 { recv 4KiB from=0 }
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 402, ABI v5
--- ncclscope report capture --all | sed -n '/^What to do/,/^$/p; /^Functions/,/^$/p'
What to do
  If these sends and receives are not meant, leave them out, or use a collective that the job makes anyway. `ncclscope
    run --stacks` records which line makes them. There are 2 sends and receives by ranks 0-1 in a job of 400 collective
    calls. The first on a pair of ranks connects it, which takes long. Effort low, risk low.

Functions (largest GPU time first; sums over ranks, calls_per_s of one; gpu in ms, host in <unit>; % of all)
  function   calls calls_% calls_per_s  gpu gpu_% host
  AllReduce    400    99.5           · 5.37 100.0 ·
  Recv           1     0.2           ·    -     - ·
  Send           1     0.2           ·    -     - ·
  collective   400    99.5           · 5.37 100.0 ·
  p2p            2     0.5           ·    -     - ·
  all          402   100.0           · 5.37 100.0 ·
--- ncclscope report capture --json | jq -c '.kinds[] | del(.host_sum_over_ranks_us)'
{"kind":"collective","calls":400,"bytes":419430400,"sum_over_ranks_us":5371.008,"sum_interval_us":null}
{"kind":"p2p","calls":2,"bytes":8192,"sum_over_ranks_us":null,"sum_interval_us":null}
--- rm -r capture; sed 's/repeat 200/repeat 20/' job | NCCLSCOPE_TIMING=stamps fake-nccl play -
announced 42, ABI v5
--- ncclscope report capture --json | jq -c .recommendations
[]

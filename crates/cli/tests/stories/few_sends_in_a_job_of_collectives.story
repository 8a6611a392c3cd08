# A send and receive in a job that otherwise has none: a warning, and both kinds apart.
ranks 2
repeat 200 { all_reduce 1MiB }
rank 0 { send 4KiB to=1 }
rank 1 { recv 4KiB from=0 }
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 402, ABI v5
--- ncclscope report capture --all | sed -n '/^Functions/,/^$/p; /^Notes/,/^$/p'
Functions (largest GPU time first; sums over ranks, gpu in ms, host in <unit>; % of all calls and GPU time)
  function   calls calls_%  gpu gpu_% host
  AllReduce    400    99.5 5.37 100.0 ·
  Recv           1     0.2    -     - ·
  Send           1     0.2    -     - ·
  collective   400    99.5 5.37 100.0 ·
  p2p            2     0.5    -     - ·
  all          402   100.0 5.37 100.0 ·

Notes
  Warning: 2 sends and receives by ranks 0-1 in a job of 400 collective calls: is that meant? The first on a pair of
    ranks connects it, which takes long.
--- ncclscope report capture --json | jq -c '.kinds[] | del(.host_sum_over_ranks_us)'
{"kind":"collective","calls":400,"bytes":419430400,"sum_over_ranks_us":5371.008}
{"kind":"p2p","calls":2,"bytes":8192,"sum_over_ranks_us":null}

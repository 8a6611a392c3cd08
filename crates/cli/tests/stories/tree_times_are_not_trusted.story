# NCCL stamps the end of TREE, NVLS and send/receive kernels too early: such calls have no time, and the report says why.
ranks 2
all_reduce 1MiB algo=TREE x4
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 8, ABI v5
--- ncclscope report capture | sed -n '/^Operations/,$p'
Operations by host time (no GPU time; largest sum over ranks first; µs from API entry to return)
  function  bytes type comm algorithm  calls sum_ms mean min p50 p95 p99 max
  AllReduce  1MiB f32  a37d TREE/LL128     8      ·    ·   ·   ·   ·   -   ·

Warm-up: first call of each rank on a communicator, in `calls` only above (longest first; µs)
  function  comm calls gpu_min gpu_p50 gpu_max host_min host_p50 host_max
  AllReduce a37d     2       -       -       -        ·        ·        ·

<function> of <size> took <n> % of the host time in NCCL: <s> over ranks in <n> calls.
Next: ncclscope export capture --to perfetto -o capture.pftrace

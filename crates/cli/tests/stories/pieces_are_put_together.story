# AlltoAll, Gather and Scatter reach a profiler as sends and receives: counted one by one, reported as what they are.
ranks 4
all_to_all 4MiB x3
gather 1MiB root=2 x2
scatter 1MiB root=1
sync
group { send 1KiB to=+1 ; recv 1KiB from=-1 ; send 1KiB to=-1 ; recv 1KiB from=+1 }
--- fake-nccl play job
announced 136, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Operations/,$p'
Completeness and trust
  136 of 136 announced calls recorded, 0 timed.

Operations by host time (no GPU time; largest sum over ranks first; µs from API entry to return)
  function bytes type comm algorithm calls sum_ms mean min p50 p95 p99 max
  AlltoAll  4MiB f32  8869 -            12      ·    ·   ·   ·   ·   -   ·
  Gather    1MiB f32  8869 -             8      ·    ·   ·   ·   ·   -   ·
  Recv      1KiB f32  8869 -             8      ·    ·   ·   ·   ·   -   ·
  Scatter   1MiB f32  8869 -             4      ·    ·   ·   ·   ·   -   ·
  Send      1KiB f32  8869 -             8      ·    ·   ·   ·   ·   -   ·

Warm-up: first call of each rank on a communicator, in `calls` only above (longest first; µs)
  function comm calls gpu_min gpu_p50 gpu_max host_min host_p50 host_max
  AlltoAll 8869     4       -       -       -        ·        ·        ·

Notes
  There are no GPU times: the process has no CUDA driver.

<function> of <size> took <n> % of the host time in NCCL: <s> over ranks in <n> calls.
Next: ncclscope export capture --to perfetto -o capture.pftrace

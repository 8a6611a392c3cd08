# Copy engines and symmetric kernels on NCCL 2.32.3, with their tags; and what an older NCCL does not tell of them.
nccl 2.32.3
ranks 2
virtual_time
all_gather 1MiB ce tag=7 x2
all_reduce 1MiB symmetric x3
all_reduce 1MiB tag=42
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 12, ABI v7
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Operations/,$p'
Completeness
  12 of 12 announced calls recorded, 8 timed.
  4 calls have no GPU time: 4 no_stamp (ncclscope explain no_stamp).

Operations by GPU time (largest sum over ranks first, sum in µs, mean to max in µs, bandwidths in GB/s)
  function   size type    algorithm         calls  sum mean  p50  p95  max busbw call_bw
  AllReduce 1 MiB float32 RSxLDMC_AGxSTMC/-     6 81.0 13.5 13.5 13.5 13.5  77.6    77.6
  AllReduce 1 MiB float32 RING/LL128            2 27.0 13.5 13.5 13.5 13.5  77.6    77.6
  1 operation has no GPU time (host times: --all).
  On average, a rank makes <n> collectives a second.

Waiting
  0.0 % of the GPU time in 4 operations was waiting for late ranks: 0 µs, summed over ranks. The transfers took 54.0 µs.

Notes
  4 calls were done by copy engines, without a kernel: host time only.

Next: ncclscope view capture
--- rm -r capture; NCCLSCOPE_TIMING=stamps fake-nccl play job --nccl 2.28.9
announced 12, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Operations/,$p'
Completeness
  12 of 12 announced calls recorded, 2 timed.
  10 calls have no GPU time: 10 no_stamp (ncclscope explain no_stamp).

Operations by GPU time (largest sum over ranks first, sum in µs, mean to max in µs, bandwidths in GB/s)
  function   size type    algorithm  calls  sum mean  p50  p95  max busbw call_bw
  AllReduce 1 MiB float32 RING/LL128     2 27.0 13.5 13.5 13.5 13.5  77.6    77.6
  2 operations have no GPU time (host times: --all).
  On average, a rank makes <n> collectives a second.

Waiting
  0.0 % of the GPU time in 1 operation was waiting for late ranks: 0 µs, summed over ranks. The transfers took 13.5 µs.

Notes
  NCCL 2.28.9 announced 10 calls at the API only, as it does with symmetric-memory kernels and copy engines: they have
    no algorithm, protocol or GPU time.

Next: ncclscope view capture

# Two logs of nccl-tests: which is slower, for which messages, and is it good for the machine? After an upgrade a link
# lost a tenth of its bandwidth, and latency is what it was. Figures are invented.
# Each file begins with a line `@NAME`.
@before.txt
# nccl-tests version 2.17.8 nccl-headers=22809 nccl-library=22809
# Collective test starting: all_reduce_perf
#
# Using devices
#  Rank  0 Group  0 Pid 1000 on     node-1 device  0 [0000:10:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid 1001 on     node-1 device  1 [0000:11:00] NVIDIA H100 80GB HBM3
#
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
        1024           256     float     sum      -1      8.00    0.13    0.13       0      7.92    0.13    0.13       0
        4096          1024     float     sum      -1      7.98    0.51    0.51       0      7.90    0.52    0.52       0
       16384          4096     float     sum      -1      8.07    2.03    2.03       0      7.99    2.05    2.05       0
       65536         16384     float     sum      -1      8.16    8.03    8.03       0      8.08    8.11    8.11       0
      262144         65536     float     sum      -1      8.62   30.41   30.41       0      8.53   30.72   30.72       0
     1048576        262144     float     sum      -1     10.66   98.33   98.33       0     10.56   99.32   99.32       0
     4194304       1048576     float     sum      -1     18.49  226.89  226.89       0     18.30  229.19  229.19       0
    16777216       4194304     float     sum      -1     49.74  337.28  337.28       0     49.25  340.68  340.68       0
    67108864      16777216     float     sum      -1    176.48  380.27  380.27       0    174.71  384.11  384.11       0
   268435456      67108864     float     sum      -1    679.09  395.29  395.29       0    672.30  399.28  399.28       0
  1073741824     268435456     float     sum      -1   2681.59  400.41  400.41       0   2654.77  404.46  404.46       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 133.3333
#
@after.txt
# nccl-tests version 2.17.8 nccl-headers=22809 nccl-library=22809
# Collective test starting: all_reduce_perf
#
# Using devices
#  Rank  0 Group  0 Pid 1000 on     node-1 device  0 [0000:10:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid 1001 on     node-1 device  1 [0000:11:00] NVIDIA H100 80GB HBM3
#
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
        1024           256     float     sum      -1      8.00    0.13    0.13       0      7.92    0.13    0.13       0
        4096          1024     float     sum      -1      7.98    0.51    0.51       0      7.90    0.52    0.52       0
       16384          4096     float     sum      -1      8.08    2.03    2.03       0      8.00    2.05    2.05       0
       65536         16384     float     sum      -1      8.18    8.01    8.01       0      8.10    8.09    8.09       0
      262144         65536     float     sum      -1      8.69   30.15   30.15       0      8.61   30.46   30.46       0
     1048576        262144     float     sum      -1     10.96   95.70   95.70       0     10.85   96.67   96.67       0
     4194304       1048576     float     sum      -1     19.65  213.44  213.44       0     19.45  215.60  215.60       0
    16777216       4194304     float     sum      -1     54.38  308.49  308.49       0     53.84  311.61  311.61       0
    67108864      16777216     float     sum      -1    195.19  343.81  343.81       0    193.24  347.28  347.28       0
   268435456      67108864     float     sum      -1    753.65  356.18  356.18       0    746.12  359.78  359.78       0
  1073741824     268435456     float     sum      -1   2978.65  360.48  360.48       0   2948.87  364.12  364.12       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 120.0000
#
--- awk '/^@/ { f = substr($0, 2); next } f { print > f }' job; ncclscope diff before.txt after.txt --ceiling 450GB/s
B is slower than A for large messages (from 4 MiB on): calls take 9.6 % longer (95 % interval 7.1 % to 12.2 %, 5 sizes).
For small messages (up to 1 MiB) nothing shows a difference.
  At its best, A reaches 89.9 % of 450 GB/s (--ceiling 450GB/s) with AllReduce of 1 GiB; B reaches 80.9 % of 450 GB/s
    (--ceiling 450GB/s) with AllReduce of 1 GiB.
  A: before.txt, 2 x NVIDIA H100 80GB HBM3, NCCL 2.28.9, average bus bandwidth 133.3333 GB/s as printed
  A: the average bus bandwidth that was read is 133.3333; of the lines here it is 171.7341
  B: after.txt, 2 x NVIDIA H100 80GB HBM3, NCCL 2.28.9, average bus bandwidth 120 GB/s as printed
  B: the average bus bandwidth that was read is 120.0000; of the lines here it is 157.0564
  Both are one run. How far runs differ from start to start is not known: repeat each run before you act on a small
    difference.

Time of B by that of A (bound by latency: up to twice the shortest time of A)
  function  ranks bound_by  sizes          n_sizes   B/A B/A_low B/A_high
  AllReduce     2 latency   1 KiB to 1 MiB       6 1.007   0.995    1.018
  AllReduce     2 bandwidth 4 MiB to 1 GiB       5 1.096   1.071    1.122

Sizes (mean time of both sides in µs, bus bandwidth of the better side in GB/s)
  function  ranks    size type  A_us B_us   B/A A_busbw B_busbw    A_%    B_%
  AllReduce     2   1 KiB float 7.96 7.96 1.000   0.130   0.130 0.0289 0.0289
  AllReduce     2   4 KiB float 7.94 7.94 1.000   0.520   0.520  0.116  0.116
  AllReduce     2  16 KiB float 8.03 8.04 1.001    2.05    2.05  0.456  0.456
  AllReduce     2  64 KiB float 8.12 8.14 1.002    8.11    8.09   1.80   1.80
  AllReduce     2 256 KiB float 8.57 8.65 1.009    30.7    30.5   6.83   6.77
  AllReduce     2   1 MiB float 10.6 10.9 1.028    99.3    96.7   22.1   21.5
  AllReduce     2   4 MiB float 18.4 19.5 1.063     229     216   50.9   47.9
  AllReduce     2  16 MiB float 49.5 54.1 1.093     341     312   75.7   69.2
  AllReduce     2  64 MiB float  176  194 1.106     384     347   85.4   77.2
  AllReduce     2 256 MiB float  676  750 1.110     399     360   88.7   80.0
  AllReduce     2   1 GiB float 2668 2964 1.111     404     364   89.9   80.9
--- ncclscope diff before.txt after.txt --fail-on slower=5% | head -1
B is slower than A for large messages (from 4 MiB on): calls take 9.6 % longer (95 % interval 7.1 % to 12.2 %, 5 sizes).
--- ncclscope report after.txt | sed -n '/^Operations/,/^$/p'
Operations by GPU time (largest sum over ranks first, sum in ms, mean to max in ms, bandwidths in GB/s)
  function     size type    calls    sum   mean    p50    p95    max busbw call_bw
  AllReduce   1 GiB float32     4   11.9   2.96   2.96   2.98   2.98   362     362
  AllReduce 256 MiB float32     4   3.00  0.750  0.750  0.754  0.754   358     358
  AllReduce  64 MiB float32     4  0.777  0.194  0.194  0.195  0.195   346     346
  AllReduce  16 MiB float32     4  0.216 0.0541 0.0541 0.0544 0.0544   310     310
  AllReduce   4 MiB float32     4 0.0782 0.0196 0.0196 0.0196 0.0196   215     215
  … 6 more operations (--all)

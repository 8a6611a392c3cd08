# Times of more than 4.3 s are told as they are.
ranks 2
virtual_time
repeat 20 { all_reduce 1MiB ; sleep 1ms }
rank 1 late 30s
repeat 20 { all_reduce 1MiB ; sleep 1ms }
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 80, ABI v5
--- ncclscope report capture | sed -n '1,/^What/p'
Rank 1 costs this job <time> of <time>: its host launched late.
step 406 ms on average, 1.01 ms mostly · in NCCL <n> % of the time (median rank) · waiting 100 % of the time in NCCL ·
AllReduce of 1 MiB at 77.8 GB/s (busbw)

Evidence
  It arrived last in 1 of 39 operations and held them up for 30.0 s, most of that from 20.2 ms to 30.0 s after its first
    kernel. Otherwise the last rank is late by 997 µs or less in three of four operations. Basis: shortest GPU time of
    each operation, as if it ended on all ranks at once.

What to do
--- rm -r capture; sed 's/rank 1 late 30s/rank 1 { compute 30s }/; s/all_reduce 1MiB ; sleep 1ms/compute 5ms ; all_reduce 64KiB time=1ms ; join ; sync/' job | NCCLSCOPE_TIMING=stamps fake-nccl play -
announced 80, ABI v5
--- ncclscope report capture | sed -n '1s/ of .*//p'
Rank 1 costs this job 30.0 s

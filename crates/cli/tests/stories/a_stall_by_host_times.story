# A stall is one stall, and costs what it costs, where only host times are known.
ranks 4
virtual_time
repeat 20 { sleep 100ms ; all_reduce 1MiB ; sync }
rank 2 { sleep 100s }
all_reduce 1MiB
sync
repeat 20 { sleep 100ms ; all_reduce 1MiB ; sync }
--- fake-nccl play job
announced 164, ABI v5
--- ncclscope report capture | sed -n '1p'
Rank 2 costs this job <time> of <time>: its host launched late.

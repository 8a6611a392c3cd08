# If all ranks are killed at once, nobody waits for another; report and hang say that they were killed.
ranks 2
cuda
repeat 40 { compute 5ms ; all_reduce 1MiB ; sync }
rank 0,1 kill
--- fake-nccl play job
announced 80, ABI v5
--- ncclscope report capture | tr '\n' ' ' | grep -o 'All 2 processes were killed'
All 2 processes were killed
--- ncclscope hang capture | sed -n '1p' | cut -d';' -f1
No hang: nobody waited for another when all processes were killed

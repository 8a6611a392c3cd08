# NCCL numbers calls of copy engines apart, so the first one has the number of the first other call.
nccl 2.32.3
ranks 4
virtual_time
repeat 3 { all_gather 64KiB }
all_gather 1MiB ce
sync
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 16, ABI v7
--- ncclscope report capture | sed -n '1,/^$/p'
No rank is proved to hold this job up. How long communication stops computing is not known: compute kernels were not
recorded. Kernel windows on all ranks tell.
in NCCL <n> % of the time (median rank) · waiting 0.0 % of the time in NCCL

# A job that ended well does not hang.
ranks 4
all_reduce 1KiB x3
--- fake-nccl play job
announced 12, ABI v5
--- ncclscope hang capture | head -1
No hang: all communicators that are in the capture have ended.

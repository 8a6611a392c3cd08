# Without a GPU time nobody is judged, and the first line says why. A communicator of one rank makes no call.
ranks 2
virtual_time
all_reduce 1KiB x10
--- fake-nccl play job
announced 20, ABI v5
--- ncclscope report capture | sed '/^$/,$d' | tr '\n' ' ' | sed 's/[0-9.]* % of/<n> % of/'
Which rank is late, and what communication costs, is not known: no call has a GPU time, because the process has no CUDA driver. in NCCL's calls on the host <n> % of the time (median rank)
--- echo 'ranks 1 ; all_reduce 1KiB' > one; NCCLSCOPE_OUT=alone fake-nccl play one >/dev/null; ncclscope report alone | sed -n '1p;$p'
This job made no NCCL call that a profiler sees: all of its communicators have one rank.
Next: ncclscope doctor alone
--- echo 'ranks 2 ; group { send 1MiB to=+1 ; recv 1MiB from=-1 }' > ring; NCCLSCOPE_TIMING=stamps NCCLSCOPE_OUT=sends fake-nccl play ring >/dev/null; ncclscope report sends | sed -n '1p;/no GPU time:/p;$p'
Which rank is late, and what communication costs, is not known: no call has a GPU time. Kernel windows on all ranks
  4 calls have no GPU time: 4 early_stop (ncclscope explain early_stop).
Next: NCCLSCOPE_TIMING=auto ncclscope run -- <folder>/fake-nccl rank-process
--- cp -r sends/* alone; ncclscope report alone | sed -n 1p
This folder holds 2 jobs, and all figures mix them: report each from a folder of its own.

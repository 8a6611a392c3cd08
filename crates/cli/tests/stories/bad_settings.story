# A value that can't be used gives one line and the default.
ranks 2
all_reduce 1KiB
--- NCCLSCOPE_MODE=tarce NCCLSCOPE_TIMING=gpu NCCLSCOPE_NET=all fake-nccl play job 2>&1 | sort -u
ncclscope: NCCLSCOPE_MODE=tarce is none of profile, trace, full, callbacks; using trace
ncclscope: NCCLSCOPE_NET=all is none of steps, ops, off; using steps
ncclscope: NCCLSCOPE_TIMING=gpu is none of auto, events, stamps, host; using auto
announced 2, ABI v5
--- NCCLSCOPE_MEMORY=1PB NCCLSCOPE_MAX_SIZE=7 NCCLSCOPE_FLUSH=soon fake-nccl play job 2>&1 | sort -u
ncclscope: NCCLSCOPE_FLUSH=soon is not a number of seconds from 0.05 to 3600; using the default
ncclscope: NCCLSCOPE_MAX_SIZE=7 is not a size from 64KiB to 1024TiB (like 64MiB); using 8GiB
ncclscope: NCCLSCOPE_MEMORY=1PB is not a size from 1MiB to 64MiB (like 64MiB); using 64MiB
announced 2, ABI v5
--- ncclscope report capture | sed -n '/^  ranks/,/^  software/p'
  ranks    2 processes of 2 ranks on <host>
  attempt  2 of 2; left out: attempt 1 (2 processes, ranks 0-1, <date> to <date>).
           `--attempt 1` reads attempt 1.
  software NCCL 2.28.9

# NCCL's own phases of kernels say how long a rank waited, without the clock of another rank. The times of all
# ranks say the same.
nccl 2.32.3
ranks 2
virtual_time
rank 1 slow 2ms
all_reduce 1MiB symmetric time=1ms x20
--- NCCLSCOPE_MODE=full NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 40, ABI v7
--- ncclscope report capture | sed -n '/^Notes/,/^$/p'
Notes
  NCCL's own phases of 40 kernels: of their GPU time, 34.6 % was waiting for other ranks, and 65.4 % moving bytes. Of 20
    operations, all ranks have phases: 21.2 ms of waiting, and 21.2 ms by the GPU times of all ranks.
--- rm -r capture; NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 40, ABI v7
--- ncclscope report capture | grep -c phases
0
[exit 1]

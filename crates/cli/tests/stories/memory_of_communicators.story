# What communicators take of the GPU's memory is told from what NCCL says of its allocations.
ranks 2
virtual_time
all_reduce 1MiB x20
--- NCCLSCOPE_NCCL_LOG=on ncclscope run -o capture -- fake-nccl play job
announced 40, ABI v5
2| ncclscope: capture in capture: 2 processes, 40 calls; next: ncclscope report capture
--- ncclscope memory capture | sed "s/$(uname -n | cut -d. -f1)/HOST/" | tr -s " "
The largest communicator (2 ranks) took 12 MiB of GPU memory on rank 0: all of it in its init.

Communicators (largest first, MiB; of each its largest rank, all ranks with --all)
 communicator nranks rank host gpu at_init gpu_memory pinned shared
 a37d5f01a3151d04 2 0 HOST 0 12.0 12.0 0.0 0.0

What rank 0 of the largest allocated it for (in order of time, MiB)
 step gpu_memory pinned shared
 init 12.0 0.0 0.0

GPUs (when the communicators on it held most, MiB)
 host gpu communicators gpu_memory
 HOST device 0 1 12.0
 HOST device 1 1 12.0

Frees are unseen: NCCL says what it allocates, and not what it frees. So these figures may be too large. They hold
neither GPU memory of NCCL's kernels nor the program's own buffers.
--- ncclscope memory --communicators 100 --ranks 8 capture | sed -n '/^Projection/,/^$/p'
Projection (a model)
  100 communicators of 8 ranks would take 1.17 GiB of each GPU. One takes 12 MiB in its init, 0 B for collectives, and 0
    B for sends to and receives from all others.
--- ncclscope memory --json capture | grep -c '"init_gpu_bytes": 12582912'
2
--- ncclscope report --all capture | grep -A2 '^Communicators'
Communicators (by first use; ranks are the launcher's, here: in this capture)
  communicator     nranks nodes here ranks name parent gpu_memory
  a37d5f01a3151d04      2     1    2 0-1   -    -          12 MiB
--- ncclscope report capture | grep -c "NCCL's buffers take"
0
[exit 1]
--- rm -r capture; ncclscope run -o capture -- fake-nccl play job; ncclscope memory capture
announced 40, ABI v5
NCCL's memory is not known.

The memory that NCCL holds is not recorded. `NCCLSCOPE_NCCL_LOG=on ncclscope run` records it; from NCCL 2.29.7 on, what
NCCL itself counts, too (docs/guides/memory.md).
2| ncclscope: capture in capture: 2 processes, 40 calls; next: ncclscope report capture
--- echo hello > other; ncclscope memory other
2| error: expected lines about communicators and allocations of NCCL, found none in `other`
2|   hint: NCCL prints them with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,ALLOC; or record with `NCCLSCOPE_NCCL_LOG=on ncclscope run`
[exit 2]

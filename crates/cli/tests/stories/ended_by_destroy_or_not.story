# However a process ends, nothing is lost: destroy, exit without destroy, _exit, abort.
ranks 4
all_reduce 1KiB x100
sync
rank 1 exit 3 ; rank 2 _exit 4 ; rank 3 abort
sleep 10ms
--- ncclscope run -o capture -- fake-nccl play job
announced 400, ABI v5
2| ncclscope: capture in capture: 4 processes, 400 calls; next: ncclscope report capture
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p'
Completeness
  400 of 400 announced calls recorded, 0 timed.

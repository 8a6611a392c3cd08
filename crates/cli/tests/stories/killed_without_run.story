# SIGKILL without `ncclscope run`: the live part outlives the process on its host.
ranks 2
all_reduce 1KiB x100
sleep 400ms
rank 1 kill
--- fake-nccl play job
announced 200, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Problems/,$p'
Completeness
  200 of 200 announced calls recorded, 0 timed.
--- ncclscope collect capture
adopted    <host>  <folder>/r1-p<pid>-<id>.live
2| <host>: 1 adopted, 0 alive, 0 elsewhere; next: ncclscope report capture
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Problems/,$p'
Completeness
  200 of 200 announced calls recorded, 0 timed.

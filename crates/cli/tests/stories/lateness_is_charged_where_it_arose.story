# Rank 0 is late to its pair; its partner then comes late to the other communicator, and is not blamed for it.
ranks 4
comm row split world every 2
comm column split world stride 2
all_reduce 1MiB comm=row time=1ms
all_reduce 1MiB comm=column time=1ms
repeat 40 {
  rank 0 late 4ms
  all_reduce 1MiB comm=row time=1ms
  sync
  all_reduce 1MiB comm=column time=1ms
  sync
}
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 328, ABI v5
--- ncclscope report capture --all | sed -n '/^Arrivals/,/^$/p' | sed -E 's,( +[0-9.]+){2}$,,; s,^( +[0-9]+ [^ ]+ +[0-9]+ +[0-9]+ +[0-9.]+ +)[0-9.]+ ,\1T ,'
Arrivals by rank (largest saving first; wall: ms of the wall, rank: ms summed over ranks; the run loses loses_wall)
  rank host operations last saves_wall loses_wall cost_rank inherited_rank waited_rank late_launch_wall busy_gpu_wall
     0 <host>           80   80    159.610    T   318.040         40.010       0.000
     1 <host>           80   40      0.600          -   159.020        158.420     159.020
     2 <host>           80    0      0.000          -     0.000          0.000     159.020
     3 <host>           80    0      0.000          -     0.000          0.000     159.020
--- ncclscope report capture --json | jq -r '.findings[] | (.sentence | split(";")[0]), (.evidence | split("; ")[3]), (.wall_us > 143000 and .wall_us < 175000)'
Rank 0 arrived last in 100 % of 80 operations
its launches came late from the host
true

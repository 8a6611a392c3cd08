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
--- ncclscope report capture --all | sed -n '/^Arrivals/,/^$/p' | awk '/^ +[0-9]+ +[^% ]/ { print $1, $3, $4, $5, $7, $8, $9; next } /operations last/ { print "rank operations last saves_wall cost_rank inherited_rank waited_rank"; next } { print }'
Arrivals by rank (largest saving first; wall: ms of the wall, rank: ms summed over ranks; the run loses loses_wall)
rank operations last saves_wall cost_rank inherited_rank waited_rank
0 80 80 159.610 318.040 40.010 0.000
1 80 40 0.600 159.020 158.420 159.020
2 80 0 0.000 0.000 0.000 159.020
3 80 0 0.000 0.000 0.000 159.020

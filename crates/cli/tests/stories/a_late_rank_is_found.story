# One rank is late before every other call. The cost to the others and the saving are the script's, and the host's late launch is why.
ranks 4
all_reduce 1MiB time=1ms
repeat 20 {
  all_reduce 1MiB time=1ms
  rank 2 late 5ms
  all_reduce 1MiB time=1ms
}
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 164, ABI v5
--- ncclscope report capture --all | sed -n '/^Waiting/,/^$/p; /^Arrivals/,/^$/p' | awk '/^ +[0-9]+ +[^% ]/ { print $1, $3, $4, $5, $7, $8, $9; next } /operations last/ { print "rank operations last saves_wall cost_rank inherited_rank waited_rank"; next } { print }'
Waiting for the last rank (shortest GPU time of each operation; assumes common ends)
  53 % of the GPU time in 40 matched operations was waiting: 181.200 rank-ms; transfer took 40.000 ms of the wall.

Arrivals by rank (largest saving first; wall: ms of the wall, rank: ms summed over ranks; the run loses loses_wall)
rank operations last saves_wall cost_rank inherited_rank waited_rank
2 40 20 60.400 181.200 0.000 0.000
0 40 0 0.000 0.000 0.000 60.400
1 40 0 0.000 0.000 0.000 60.400
3 40 0 0.000 0.000 0.000 60.400

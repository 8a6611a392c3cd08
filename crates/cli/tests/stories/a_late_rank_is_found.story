# One rank is late before every other call. The cost to the others and the saving are the script's, and the host's late launch is
# why. What the run would save is the host's, whose sleeps a busy machine prolongs: so that sentence, if it is there, is left out.
ranks 4
virtual_time
all_reduce 1MiB time=1ms
repeat 20 {
  all_reduce 1MiB time=1ms
  rank 2 late 5ms
  all_reduce 1MiB time=1ms
}
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 164, ABI v5
--- ncclscope report capture --all | sed -n '/^Waiting/,/^$/p; /^Arrivals/,/^$/p' | sed '/^  Rank 2 arrived last/,/)[.]$/d' | awk '/^ +[0-9]+ +[^% ]/ { print $1, $3, $4, $5, $6, $7, $8; next } /operations last/ { print "rank operations last saves_wall cost_rank inherited_rank waited_rank"; next } { print }'
Waiting
  53.1 % of the GPU time in 40 operations was waiting for late ranks: 181 ms, summed over ranks. The transfers took 40.0
    ms.

Arrivals by rank (largest saving first, in ms; wall: of the run, rank: summed over ranks; shortest GPU time of each
  operation, as if it ended on all ranks at once)
rank operations last saves_wall cost_rank inherited_rank waited_rank
2 40 20 60.4 181 0 0
0 40 0 0 0 0 60.4
1 40 0 0 0 0 60.4
3 40 0 0 0 0 60.4

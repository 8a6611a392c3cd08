# Rank 0 is late to its pair; its partner then comes late to the other communicator, and is not blamed for it.
ranks 4
virtual_time
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
--- ncclscope report capture --all | sed -n '/^Arrivals/,/^$/p' | awk '/^ +[0-9]+ +[^% ]/ { print $1, $3, $4, $5, $6, $7, $8; next } /operations last/ { print "rank operations last saves_wall cost_rank inherited_rank waited_rank"; next } { print }'
Arrivals by rank (largest saving first, in ms; wall: of the run, rank: summed over ranks; shortest GPU time of each
  operation, as if it ended on all ranks at once)
rank operations last saves_wall cost_rank inherited_rank waited_rank
0 80 80 160 318 40.0 0
1 80 40 0.600 159 158 159
2 80 0 0 0 0 159
3 80 0 0 0 0 159
--- ncclscope report capture | sed -n '/^Waiting/,/^$/p'
Waiting
  59.9 % of the GPU time in 160 operations was waiting for late ranks: 477 ms, summed over ranks. The transfers took 160
    ms.
  Rank 1 was late mostly because of other operations: of 159 ms of waiting for it, 158 ms from communicator
    9d8cda5aa69d8b63, where it waited for rank 0 (75 % of that).
--- ncclscope report capture --json | jq -c '.arrivals.ranks[] | [.rank, .inherited_rank_us, (.inherited_from[] | [.communicator, .cost_rank_us, .waiting_rank_us, .waited_for])]'
[0,40010.016,["9d8cda5aa69d8b63",40000,0,null],["56473c1c653b4cec",10.016,0,null]]
[1,158419.67999999996,["9d8cda5aa69d8b63",158419.68,118419.68,0]]
[2,0]
[3,0]

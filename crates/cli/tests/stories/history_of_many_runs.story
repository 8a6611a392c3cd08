# Rank 5 is late in three of four runs, always on one host. One run alone proves nothing, and a copy of a run is refused.
ranks 8
virtual_time
hosts 4
host_clock 0 0ms
repeat 60 { all_reduce 1MiB time=1ms }
--- : Three runs with the fault, and one without it; for i in 1 2 3; do sed 's/time=1ms/time=1ms; rank 5 late 5ms/' job | NCCLSCOPE_TIMING=stamps NCCLSCOPE_OUT=late-$i fake-nccl play - >/dev/null; done; NCCLSCOPE_TIMING=stamps NCCLSCOPE_OUT=healthy fake-nccl play job >/dev/null

--- ncclscope history late-1 healthy late-2 late-3 | sed '/^Runs/,$d; s/[0-9][0-9][.][0-9] %/NN.N %/'
Rank 5 was to blame in 3 of the 4 runs that it was in. It cost 710 ms, NN.N % of their time. The rank was always on
fake-host-2: run once with the ranks on other nodes, to tell the rank from the node.

Suspects (most runs first; lost: the largest finding of each run; chance: to blame any so often)
  suspect          blamed_in runs_of_it   lost of_time chance findings
  host fake-host-2         3          4 710 ms  NN.N %  6.2 % late_rank
  rank 5                   3          4 710 ms  NN.N %  1.6 % late_rank
--- ncclscope history late-1 healthy late-2 late-3 --json | jq -c '.culprit as $c | .suspects[$c] | [.part, .ranks, .hosts, .blamed, .present, .captures]'
["rank",[5],["fake-host-2"],3,4,["late-1","late-2","late-3"]]
--- ncclscope history late-1 healthy | sed q
No culprit: nobody was to blame in more than one of 2 runs.
--- ncclscope history healthy | sed q
Nobody is to blame: no rank, host, GPU or link cost time in 1 run.
--- cp -r late-1 copy; ncclscope history late-1 copy
2| error: `late-1` and `copy` are the same recording
2|   hint: name each capture once
[exit 2]

# Rank 5 is late in three of four runs, always on one host. One run alone proves nothing, and a copy of a run is skipped.
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
--- cp -r late-1 copy; mkdir empty; ncclscope history late-1 copy empty healthy | sed q
No culprit: nobody was to blame in more than one of 2 runs.
2| ncclscope: note: skipped: `copy` is the same recording as `late-1`
2| ncclscope: note: skipped: `empty`: expected a capture with a readable trace file, found no trace file
--- ncclscope history empty
2| error: `empty`: expected a capture with a readable trace file, found no trace file
2|   hint: `ncclscope doctor empty` says why; a trace file appears with the first communicator of a process
[exit 2]
--- : Without GPU times, a late host has an upper limit of its cost; printf 'ranks 4\nhosts 2\nvirtual_time\nrepeat 60 { rank 2 late 5ms; all_reduce 16MiB x2; compute 3ms; sync }\n' > hidden; for i in 1 2 3 4; do ncclscope run -o runs/$i -- fake-nccl play hidden 2>/dev/null >/dev/null; done

--- ncclscope history runs/* | sed '/^Runs/,$d'
Rank 2 may be to blame in 4 of the 4 runs that it was in: it cost 1.62 s at most. Their reports know no more. The rank
was always on <host>: run once with the ranks on other nodes, to tell the rank from the node.

Suspects (most runs first; lost: the largest finding of each run; chance: to blame any so often)
  suspect blamed_in runs_of_it chance at_most_in at_most
  rank 2          0          4  1.6 %          4  1.62 s
--- ncclscope history runs/* --json | jq -c '.runs[0] | [.blamed, .named]'
[[],[2]]
--- : A folder of captures is none; ncclscope report runs
2| error: `runs`: expected one capture, found 4 of different runs: `runs/1`, `runs/2`, `runs/3` and 1 more
2|   hint: `ncclscope list runs` lists them; name one of them
[exit 2]
--- ncclscope history runs late-1 | sed q
No culprit: nobody was to blame in more than one of 1 run.
2| ncclscope: note: skipped: `runs`: expected one capture, found 4 of different runs: `runs/1`, `runs/2`, `runs/3` and 1 more

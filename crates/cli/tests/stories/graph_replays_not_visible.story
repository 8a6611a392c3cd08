# Without stamps and network NCCL shows no replay: said, and never zero.
ranks 2
virtual_time
graph step { all_reduce 1KiB x2 }
replay step x10
all_reduce 1KiB
--- fake-nccl play job
announced 6, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p; /^Notes/,$p'
Completeness
  Not all calls were counted: some ran in CUDA graphs that were not seen. Of the others, 6 were announced, 6 recorded, 0
    timed.
  2 graphs_not_watched: processes that captured calls and whose graph launches were not watched: NCCLSCOPE_GRAPHS=off
    was set, or the CUDA driver was not found.
  2 graphs_unplaced: graphs with captured calls that were not instantiated in the recorder's sight: the program gave
    them up, or it calls the driver through pointers that the recorder did not find. If they should have run, please
    report which program that is.

Notes
  There are no GPU times: the process has no CUDA driver.

Only first calls have a time; they are under Warm-up.
Next: ncclscope view capture
--- ncclscope report capture --json | jq -c '.operations[] | {function, calls, captured, replays}'
{"function":"AllReduce","calls":2,"captured":4,"replays":0}

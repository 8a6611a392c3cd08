# `list` has the newest capture first, and `report` takes it if none is named. Times of files say nothing: a
# copy has others.
ranks 2
virtual_time
all_reduce 1MiB x3
--- NCCLSCOPE_OUT=runs/first fake-nccl play job > log; touch -d 2026-01-01 runs/first/*/*.trace

--- NCCLSCOPE_OUT=runs/second fake-nccl play job > log; touch -d 2025-01-01 runs/second/*/*.trace

--- ncclscope list runs --quick
runs/second
  <date>:00, 2 ranks, ended
runs/first
  <date>:00, 2 ranks, ended

Next: ncclscope report runs/second
--- ncclscope report > page
2| ncclscope: the newest capture here: runs/second
--- grep '^Job' page
Job runs/second

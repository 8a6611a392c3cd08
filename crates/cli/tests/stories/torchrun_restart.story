# torchrun starts the workers again: a sub-capture for each restart, one report.
ranks 2
all_reduce 1KiB x10
--- fake-nccl play job
announced 20, ABI v5
--- TORCHELASTIC_RESTART_COUNT=1 fake-nccl play job
announced 20, ABI v5
--- find capture -name '*.trace' | sort
capture/restart-1/<host>/r0-p<pid>-<id>.trace
capture/restart-1/<host>/r1-p<pid>-<id>.trace
capture/<host>/r0-p<pid>-<id>.trace
capture/<host>/r1-p<pid>-<id>.trace
--- ncclscope report capture | sed -n '1,/^Operations/p'
Capture capture
  command  <folder>/fake-nccl rank-process
  job      4 processes of 2 ranks, 1 restart on <host>
  NCCL     2.28.9; mode trace, timing host

Completeness
  40 of 40 announced calls recorded, 0 timed.

Communicators (by first use; `here` counts the ranks that this capture holds)
  communicator       nranks nodes here name parent
  a37d5f01a3151d04        2     1    2 -    -
  a37d5f01a3151d04#2      2     1    2 -    -

Operations (largest total time first)

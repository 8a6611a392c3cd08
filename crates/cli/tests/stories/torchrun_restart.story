# torchrun starts the workers again: a sub-capture for each restart, one report.
ranks 2
virtual_time
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
Which rank is late, and what communication costs, is not known: no call has a GPU time, because the process has no CUDA
driver.
in NCCL's calls on the host <n> % of the time (median rank)

Job capture
  command  <folder>/fake-nccl rank-process
  ranks    4 processes of 2 ranks, 1 restart on <host>
  software NCCL 2.28.9
  recorded mode trace, timing host
  time     <time>

Completeness
  40 of 40 announced calls recorded, 0 timed.

Ranks (in API calls, times in <unit>)
  rank host   calls nccl nccl_%
     0 <host>    10    ·      ·
     1 <host>    10    ·      ·
     0 <host>    10    ·      ·
     1 <host>    10    ·      ·

Operations by host time (no GPU time; largest sum over ranks first, sum in <unit>, mean to max in <unit> from API entry to

# torchrun starts the workers again: a sub-capture for each restart. The last attempt is judged, and the others
# are named.
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
  ranks    2 processes of 2 ranks, 1 restart on <host>
  attempt  2 of 2; left out: attempt 1 (2 processes, ranks 0-1, <date> to <date>).
           `--attempt 1` reads attempt 1.
  software NCCL 2.28.9
  recorded mode trace, timing host
  time     <time>

Completeness
  20 of 20 announced calls recorded, 0 timed.

Ranks (in API calls, times in <unit>, nccl_% of the run)
  rank host   calls nccl nccl_%
     0 <host>    10    ·      ·
     1 <host>    10    ·      ·

Operations by host time (no GPU time; largest sum over ranks first, sum in <unit>, mean to max in <unit> from API entry to
--- ncclscope report capture --attempt 1 | grep -A1 '^  attempt'
  attempt  1 of 2; left out: attempt 2 (2 processes, ranks 0-1, <date> to <date>).
           `--attempt 2` reads attempt 2.
--- ncclscope report capture --attempt 3
2| error: `capture`: expected an attempt from 1 to 2, found 3
2|   hint: leave out `--attempt` to read the last attempt
[exit 2]
--- ncclscope hang capture | head -1
No hang: all communicators that are in the capture have ended.
2| ncclscope: note: this job was started 2 times, and this is attempt 2 only; `--attempt N` reads another one
--- ncclscope startup capture | sed -E 's/^The (last|start of rank).*/found/;q'
found
2| ncclscope: note: this job was started 2 times, and this is attempt 2 only; `--attempt N` reads another one
--- ncclscope export capture -o last.csv; sed 1d last.csv | wc -l
20
2| ncclscope: note: this job was started 2 times, and this is attempt 2 only; `--attempt N` reads another one
2| 20 calls written to last.csv
--- ncclscope export capture --attempt 1 --to csv 2>/dev/null | sed 1d | wc -l
20

# Mode profile: why sends have no time, no more disk than trace, and an export without a call to write fails.
ranks 2
virtual_time
all_reduce 1MiB x20
rank 0 { send 4KiB to=1 x5 }
rank 1 { recv 4KiB from=0 x5 }
--- NCCLSCOPE_MODE=profile NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 50, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p'
Completeness
  50 of 50 announced calls recorded, 40 timed.
  10 calls have no GPU time: 10 early_stop (ncclscope explain early_stop).
--- ncclscope export capture --to perfetto -o x.pftrace; ls x.pftrace
2| error: `capture` holds totals only, and no single call that could be written
2|   hint: `ncclscope report capture` shows the totals; NCCLSCOPE_MODE=trace records calls (this was recorded in mode profile)
2| ls: cannot access 'x.pftrace': No such file or directory
[exit 2]
--- ncclscope export capture --to parquet -o x
2| error: `capture` holds totals only, and no single call that could be written
2|   hint: `ncclscope report capture` shows the totals; NCCLSCOPE_MODE=trace records calls (this was recorded in mode profile)
[exit 2]
--- NCCLSCOPE_OUT=trace NCCLSCOPE_TIMING=stamps fake-nccl play job >/dev/null 2>&1; test $(du -s capture | cut -f1) -le $(du -s trace | cut -f1) && echo no more than trace
no more than trace

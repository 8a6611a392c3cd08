# A folder that can't be made: one line from each process, and the job goes on; `run` refuses before it starts.
ranks 2
all_reduce 1KiB
--- NCCLSCOPE_OUT=/proc/nowhere fake-nccl play job 2>&1 | sort -u
ncclscope: cannot write /proc/nowhere/<host>/r0-p<pid>-<id>: No such file or directory (os error 2); calls are counted in totals until it works again
ncclscope: cannot write /proc/nowhere/<host>/r1-p<pid>-<id>: No such file or directory (os error 2); calls are counted in totals until it works again
announced 2, ABI v5
--- ncclscope run -o /proc/nowhere -- echo started
2| error: the capture folder `/proc/nowhere` can't be made: No such file or directory (os error 2)
2|   hint: name a folder on a disk that you may write to with -o, or leave -o out
[exit 2]
--- ncclscope report capture
2| error: `capture`: expected a capture folder or a trace file, found nothing
2|   hint: `ncclscope run -o DIR -- COMMAND` records one into DIR
[exit 2]

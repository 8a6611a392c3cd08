# A folder that can't be made: one line from each process, and the job goes on; `run` takes another.
ranks 2
all_reduce 1KiB
--- NCCLSCOPE_OUT=/proc/nowhere fake-nccl play job 2>&1 | sort -u
ncclscope: cannot write /proc/nowhere/<host>/r0-p<pid>-<id>: No such file or directory (os error 2); calls are counted in totals until it works again
ncclscope: cannot write /proc/nowhere/<host>/r1-p<pid>-<id>: No such file or directory (os error 2); calls are counted in totals until it works again
announced 2, ABI v5
--- mkdir here; cd here; ncclscope run -o /proc/nowhere -- echo started 2>&1 | head -2 | sed 's/ncclscope-[0-9a-f-]*/<new>/'
ncclscope: note: `/proc/nowhere` can't be made (No such file or directory (os error 2)), so this capture is in `<new>`
started
--- ncclscope report capture
2| error: `capture`: expected a capture folder or a trace file, found nothing
2|   hint: `ncclscope run -o DIR -- COMMAND` records one into DIR
[exit 2]

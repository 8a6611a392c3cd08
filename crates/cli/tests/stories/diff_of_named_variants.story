# Runs of two programs with one command, in turns: their names say which are repeats. Without names they are one variant.
ranks 2
virtual_time
all_reduce 1MiB x40
--- : Two programs; cp job fast; sed 's/1MiB/64MiB/' job >slow; for i in 1 2 3; do for p in fast slow; do cp $p job; NCCLSCOPE_TIMING=stamps NCCLSCOPE_OUT=$p-$i fake-nccl play job >/dev/null; done; done

--- ncclscope diff fast-1 slow-1 fast-2 slow-2 fast-3 slow-3 | sed -n '1,/^$/p'
All of these are runs of one variant, as far as command, software and settings tell. If something else differs, such as
the code, name each run's variant: `ncclscope diff old=DIR new=DIR old=DIR new=DIR`.
--- ncclscope diff a=fast-1 b=slow-1 a=fast-2 b=slow-2 a=fast-3 b=slow-3 --json | jq -c '.variants[] | [.name, .captures]'
["a",["fast-1","fast-2","fast-3"]]
["b",["slow-1","slow-2","slow-3"]]
--- ncclscope diff a=fast-1 b=slow-1 | sed -E 's/ (went|took) .*//; q'
A and B have no kind of operation in common. The run
--- ncclscope diff a=fast-1 b=nowhere
2| error: `nowhere`: expected a capture folder or a trace file, found nothing
2|   hint: `ncclscope run -o DIR -- COMMAND` records one into DIR
[exit 2]

# A copy beside itself, a run that died, and another job: the first line says so before it says any time.
ranks 2
virtual_time
all_reduce 1MiB x20
--- fake-nccl play job
announced 40, ABI v5
--- cp -r capture copy; ncclscope diff capture copy --fail-on missing | sed -n 1p
A and B are the same recording: there is nothing to compare.
--- ncclscope diff capture copy --fail-on missing >/dev/null
[exit 2]
--- ncclscope diff capture copy capture
2| error: `capture` and `copy` are the same recording
2|   hint: name each capture once
[exit 2]
--- printf 'ranks 2\nlinger 1s\nall_reduce 1MiB x20\nrank 1 kill\nall_reduce 1MiB\n' > dies; NCCLSCOPE_OUT=died fake-nccl play dies >/dev/null; ncclscope diff capture died | sed '/^$/,$d' | tr '\n' ' '
B did not come to its end. Rank 1 (pid <pid> on <host>) died at <date>, after call 20 (AllReduce of 1 MiB) on communicator a37d5f01a3151d04; rank 0 waits for it in call 21.
--- printf 'ranks 2\nall_gather 1MiB x20\n' > other; NCCLSCOPE_OUT=others fake-nccl play other >/dev/null; ncclscope diff capture others | sed '1s/\(common\.\).*/\1/;q'
A and B have no kind of operation in common.

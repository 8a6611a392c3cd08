# A rank is killed while the others go on: who died, when and after which call is the first line of the report. Ranks have made their files by then.
ranks 4
linger 1s
all_reduce 1MiB x10
sleep 400ms
rank 1 kill
all_reduce 4MiB
sync
--- fake-nccl play job
announced 43, ABI v5
--- ncclscope report capture | sed '/^$/,$d' | tr '\n' ' '
Rank 1 (pid <pid> on <host>) died at <date>, after call 10 (AllReduce of 1 MiB) on communicator 8869398c7032ecc5; ranks 0,2-3 wait for it in call 11. in NCCL's calls on the host <n> % of the time (median rank)
--- ncclscope report capture | sed -n '/^Evidence/,/^Job/p' | grep '^[A-Z]'
Evidence
What to do
Job capture
--- ncclscope report capture --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["deaths"][0]["left"])'
[0, 2, 3]
--- ncclscope report capture --svg - | grep -oE '>(rank [0-9]|(waits in|died: no) call 11)<'
>rank 0<
>waits in call 11<
>rank 1<
>died: no call 11<
>rank 2<
>waits in call 11<
>rank 3<
>waits in call 11<
--- ncclscope report capture | tail -n 1
Next: ncclscope hang capture

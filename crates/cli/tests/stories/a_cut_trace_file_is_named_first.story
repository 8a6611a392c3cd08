# A rank's trace file is emptied, then cut with its snapshot gone: the first line says which rank lacks calls, and how many.
ranks 4
virtual_time
all_reduce 1MiB x33
--- fake-nccl play job
announced 132, ABI v5
--- cp -r capture empty; for f in empty/*/r2-*.trace; do : > $f; done; ncclscope report empty | sed '/^$/,$d' | head -n 1
Not all of this job is here. 33 of 33 calls of rank 2 are not here (damaged).
--- ncclscope report empty | tail -n 1
Next: ncclscope doctor empty
--- ncclscope diff capture empty --fail-on incomplete >/dev/null
[exit 1]
--- cp -r capture cut; truncate -s 704 cut/*/r2-*.trace; rm cut/*/r2-*.snap; ncclscope report cut | sed '/^in NCCL/,$d' | tr '\n' ' '
Not all of this job is here. Rank 2 of 4 of communicator 8869398c7032ecc5 is missing: no file of the capture says that it took part, and the block that says so may be damaged. At least 33 of its calls are missing: operations that ended on other ranks prove them.
--- ncclscope collect cut 2>/dev/null

--- ncclscope report cut | tail -n 1
Next: ncclscope doctor cut

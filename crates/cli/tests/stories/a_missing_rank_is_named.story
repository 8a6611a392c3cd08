# Nothing is here of a rank, or nothing that can be read: the other ranks prove that it made calls.
ranks 4
virtual_time
all_reduce 1MiB x33
--- fake-nccl play job
announced 132, ABI v5
--- mkdir part && cp -r capture/* part && rm part/*/r3-* && ncclscope report part | sed -n '/^Completeness/,/^$/p; /^Next/p'
Completeness
  Rank 3 is missing: no file of it is here. At least 33 of its calls are missing: operations that ended on other ranks
    prove them.
  99 of at least 132 announced calls recorded, 0 timed.

Next: ncclscope doctor part
--- ncclscope report part --json | jq -c '.completeness | .absent[0], .missing_at_least, .announced_is_lower_bound'
{"ranks":"3","nranks":1,"world_size":4,"restart":0,"calls_at_least":33,"calls_begun":33,"communicators":[{"communicator":"8869398c7032ecc5","ranks":"3","of":4,"calls_at_least":33}],"unreadable":[]}
33
true
--- ncclscope diff capture part --fail-on incomplete | sed -n '/recorded$/p; /^Verdict/,/^$/p'
     4 processes on 1 host; NCCL 2.28.9; mode trace, timing host; 132 of 132 announced calls recorded
     3 processes on 1 host; NCCL 2.28.9; mode trace, timing host; 99 of at least 132 announced calls recorded
Verdict: failed
  incomplete: failed
    B: rank 3 missing with at least 33 calls
--- ncclscope diff capture part --fail-on incomplete >/dev/null
[exit 1]
--- rm part/*/r2-*.snap; : >"$(echo part/*/r2-*.trace)"; ncclscope report part | sed -n '/^Completeness/,/^$/p; /^Problems/,/^$/p'
Completeness
  Ranks 2-3 are missing: no file of them is here but <host>/r2-p<pid>-<id>.trace, in which nothing can be read (found an
    empty file). At least 66 of their calls are missing: operations that ended on other ranks prove them.
  66 of at least 132 announced calls recorded, 0 timed.

Problems
  <host>/r2-p<pid>-<id>.trace, byte 0: expected a trace file's header, found an empty file

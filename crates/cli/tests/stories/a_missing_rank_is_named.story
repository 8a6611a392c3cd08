# Nothing is here of a rank, or nothing that can be read: the other ranks prove that it made calls.
ranks 4
all_reduce 1MiB x33
--- fake-nccl play job
announced 132, ABI v5
--- mkdir part && cp -r capture/* part && rm part/*/r3-* && ncclscope report part | sed -n '/^Completeness/,/^$/p; /^Next/p'
--- ncclscope report part --json | jq -c '.completeness | .absent[0], .missing_at_least, .announced_is_lower_bound'
--- ncclscope diff capture part --fail-on incomplete | sed -n '/recorded$/p; /^Verdict/,/^$/p'
--- ncclscope diff capture part --fail-on incomplete >/dev/null
--- rm part/*/r2-*.snap; : >"$(echo part/*/r2-*.trace)"; ncclscope report part | sed -n '/^Completeness/,/^$/p; /^Problems/,/^$/p'

# The folder of a host was not copied: its ranks are named, with their calls on all communicators. A copy counts once.
ranks 4
hosts 2
split tp by rank/2
all_reduce 1MiB x10
all_reduce 4KiB x5 comm=tp
--- fake-nccl play job
--- cp -r capture/fake-host-0 capture/copy; ncclscope report capture | sed -n '/^  job/p; /^Completeness/,/^$/p; /^Problems/,/^$/p'
--- rm -r capture/copy capture/fake-host-1; ncclscope report capture | sed -n '/^  job/p; /^Completeness/,/^$/p; /^Next/p'
--- ncclscope report capture --json | jq -c '.completeness.absent[] | .ranks, .communicators'
--- ncclscope hang capture
--- ncclscope doctor capture | grep -A4 '^Capture'

# The folder of a host was not copied: its ranks are named, with their calls on all communicators. A copy counts once.
ranks 4
virtual_time
hosts 2
host_clock 1 3s
comm tp split world every 2
all_reduce 1MiB x10
all_reduce 4KiB x5 comm=tp
--- fake-nccl play job
announced 60, ABI v5
--- cp -r capture part; cp -r part/fake-host-0 part/copy; ncclscope report part | sed -n 's/trace [0-9a-f]\{16\}/trace <id>/; /^  ranks/p; /^Completeness/,/^$/p; /^Problems/,/^$/p'
  ranks    4 processes of 4 ranks on fake-host-0, fake-host-1
Completeness
  60 of 60 announced calls recorded, 0 timed.

Problems
  fake-host-0/r0-p<pid>-<id>.trace, its header: expected each process once in a capture, found a copy of
    copy/r0-p<pid>-<id>.trace (trace <id>), which is left out
  fake-host-0/r1-p<pid>-<id>.trace, its header: expected each process once in a capture, found a copy of
    copy/r1-p<pid>-<id>.trace (trace <id>), which is left out
--- rm -r part/copy part/fake-host-1; ncclscope report part | sed -n '/^  ranks/p; /^Completeness/,/^$/p; /^Next/p'
  ranks    2 processes of 4 ranks on fake-host-0
Completeness
  Ranks 2-3 are missing: no file of them is here. At least 20 of their calls are missing: operations that ended on other
    ranks prove them.
  30 of at least 50 announced calls recorded, 0 timed.

Next: ncclscope doctor part
--- ncclscope report part --json | jq -c '.completeness.absent[] | .ranks, .communicators'
"2-3"
[{"communicator":"8869398c7032ecc5","ranks":"2-3","of":4,"calls_at_least":20}]
--- ncclscope doctor part | grep -A6 '^Capture'
Capture
  fail    Ranks 2-3 are missing: no file of them is here. At least 20 of their calls are missing: operations that ended
          on other ranks prove them.
          remedy: their hosts may not see this folder (`ncclscope collect --into` there), may not have the plugin at
            this path, or their launcher did not pass the variables on; ranks that made no communicator leave none
  fail    30 of at least 50 announced calls are recorded
          remedy: bring what is missing of these ranks into this folder; figures over ranks leave it out
--- ncclscope hang part
No hang: all communicators that are in the capture have ended.

Communicator 8869398c7032ecc5, 4 ranks, destroyed by all; not in the capture: 2-3 (last call of each rank, and how far
  it came, as call numbers; seconds)
  ranks state last_call       entered_ago entered enqueued launched started finished seen_ago
  0-1   ended AllReduce 1 MiB        <0.1      10       10       10       -        -     <0.1

Communicator 9d8cda5aa69d8b63, 2 ranks, destroyed by all (last call of each rank, and how far it came, as call numbers;
  seconds)
  ranks state last_call       entered_ago entered enqueued launched started finished seen_ago
  0-1   ended AllReduce 4 KiB        <0.1       5        5        5       -        -     <0.1

Next: ncclscope report part

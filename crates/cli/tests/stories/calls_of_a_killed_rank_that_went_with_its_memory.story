# A rank is killed and its live part is gone: the other rank proves how many calls it made after its last flush.
ranks 2
rate 200/s
all_reduce 1MiB x400
sync
rank 1 kill
all_reduce 1KiB
--- NCCLSCOPE_TIMING=stamps NCCLSCOPE_FLUSH=1.5 fake-nccl play job
announced 801, ABI v5
--- cp -r capture part; mkdir away; mv /dev/shm/ncclscope-$(id -u)/$(basename part/*/r1-*.trace .trace)-*.live away

--- ncclscope report part | sed -n '/^Completeness/,/^$/p' | sed -n '2,3p' | sed 's/least [0-9]* more/least <n> more/; s/[0-9]* of at least \([0-9]*\) .*/<n> of at least \1/'
  Rank 1 made at least <n> more calls than are here: operations that ended on other ranks prove them.
  <n> of at least 801
--- ncclscope diff part part --fail-on incomplete >/dev/null
[exit 1]
--- ncclscope report part --json | jq -c '.completeness | .announced + .missing_at_least, (.ranks[] | .rank, .live)'
801
1
"snapshot"
--- mv away/* /dev/shm/ncclscope-$(id -u); ncclscope report part | sed -n '/^Completeness/,/^$/p' | sed -n '2p' | cut -d, -f1
  801 of 801 announced calls recorded

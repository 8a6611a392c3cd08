# The critical path of a step over all ranks is the planted one: rank 2 is late to its pair by 5 ms, rank 3 comes late to the
# other communicator for it, and rank 1 is late to the last call by itself.
ranks 4
virtual_time
comm row split world every 2
comm column split world stride 2
all_reduce 4MiB
all_reduce 1MiB comm=row time=1ms
all_reduce 2MiB comm=column time=2ms
repeat 12 {
  rank 2 late 5ms
  all_reduce 1MiB comm=row time=1ms
  sync
  all_reduce 2MiB comm=column time=2ms
  sync
  rank 1 late 3ms
  all_reduce 4MiB time=1.5ms
  sync
  sleep 10ms
}
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 156, ABI v5
--- ncclscope report capture --json | jq -c '.critical_path | .steps, (.step.segments[] | [.what, .rank, .time_us])'
11
["work before AllReduce 1 MiB",2,15015.008]
["AllReduce 1 MiB",2,1000]
["work before AllReduce 2 MiB",3,15.008]
["AllReduce 2 MiB",3,2000]
["work before AllReduce 4 MiB",1,3014.976]
["AllReduce 4 MiB",1,1500]
--- ncclscope report capture | grep 'Critical path'
  Critical path: the largest part is work before AllReduce 1 MiB on rank 2: 66.6 % of a step. (--all)
--- ncclscope report capture --all | sed -n '/^Critical path/,/^$/p' | sed -n '/^  Step /,$p' | tr -s ' ' | sed -E 's/(launched then|GPU was busy)/WHY/'
 Step 9, the one of median time (22.5 ms), in order:
 at time rank segment comm why
 0 15.0 2 work before AllReduce 1 MiB 6a8a WHY
 15.0 1.00 2 AllReduce 1 MiB 6a8a -
 16.0 0.0150 3 work before AllReduce 2 MiB a446 WHY
 16.0 2.00 3 AllReduce 2 MiB a446 -
 18.0 3.01 1 work before AllReduce 4 MiB 8869 WHY
 21.0 1.50 1 AllReduce 4 MiB 8869 -
--- ncclscope report capture --html report.html >/dev/null 2>&1; grep -c '<rect class="work"' report.html; grep -c '<rect class="operation"' report.html
3
3
--- rm -r capture; NCCLSCOPE_TIMING=host fake-nccl play job
announced 156, ABI v5
--- ncclscope report capture --json | jq -c .critical_path
null

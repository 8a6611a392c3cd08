# Somebody clears the mask of NCCL's profiler after half of the calls. The other half is not announced: said.
ranks 2
all_reduce 1KiB x50
mask none
all_reduce 1KiB x50
--- fake-nccl play job
announced 100, ABI v5
2| ncclscope: NCCL no longer announces all events that were asked for: somebody changed the mask of its profiler, which was 0x1e1e (for example with `ncclras CONTROL PROFILER_MASK none`). What is not announced can't be recorded; the report says since when
2| ncclscope: NCCL no longer announces all events that were asked for: somebody changed the mask of its profiler, which was 0x1e1e (for example with `ncclras CONTROL PROFILER_MASK none`). What is not announced can't be recorded; the report says since when
--- ncclscope report capture | sed -n '1p; /^Completeness/,/mask_changed/p'
Not all calls were counted: somebody changed the mask of NCCL's profiler while the job ran.
Completeness
  Not all calls were counted: somebody changed the mask of NCCL's profiler while the job ran. Of the others, at least
    100 were announced, 100 recorded, 0 timed.
  2 mask_changed: processes in which somebody else changed the mask of NCCL's profiler, for example with `ncclras
--- ncclscope report capture --json | jq -c '.completeness | {announced, recorded, announced_is_lower_bound, unseen}'
{"announced":100,"recorded":100,"announced_is_lower_bound":true,"unseen":{"mask_changed":2}}
--- ncclscope diff capture capture --fail-on incomplete | grep -o 'not counted: mask_changed' | sort -u
not counted: mask_changed

# NCCL_ALGO asked for TREE: what each function used instead, and why where that is certain.
ranks 4
virtual_time
all_reduce 1MiB algo=TREE proto=SIMPLE x30
all_reduce 1KiB algo=RING proto=LL x10
all_gather 1MiB algo=RING proto=SIMPLE x5
all_to_all 1MiB
--- NCCL_ALGO=Tree NCCL_PROTO=^LL128 fake-nccl play job
announced 212, ABI v5
--- ncclscope report capture | sed -n '/^Settings/,/^$/p'
Settings
  NCCL_ALGO=Tree asked; 0 of 20 AllGather calls used it, 20 used RING (AllGather has RING, COLLNET_DIRECT, NVLS, PAT
    only).
  NCCL_ALGO=Tree asked; 120 of 160 AllReduce calls used it, 40 used RING; why, NCCL does not tell.
  NCCL_PROTO=^LL128 asked; 20 of 20 AllGather calls used it.
  … 1 more settings (--all)
--- ncclscope report capture --json | jq -c '.settings[0], .job.environment'
{"variable":"NCCL_ALGO","value":"Tree","nprocesses":4,"function":"AllGather","calls":20,"obeyed":0,"others":{"RING":20},"not_told":0,"why":"AllGather has RING, COLLNET_DIRECT, NVLS, PAT only","summary":"NCCL_ALGO=Tree asked; 0 of 20 AllGather calls used it, 20 used RING (AllGather has RING, COLLNET_DIRECT, NVLS, PAT only)."}
{"NCCL_ALGO":["Tree"],"NCCL_PROFILER_PLUGIN":["<folder>/libnccl-profiler-ncclscope.so"],"NCCL_PROTO":["^LL128"]}
--- rm -r capture; NCCL_ALGO='allreduce:tree;ring' fake-nccl play job
announced 212, ABI v5
--- ncclscope report capture | sed -n '/^Settings/,/^$/p'
Settings
  NCCL_ALGO=allreduce:tree;ring asked; 20 of 20 AllGather calls used it.
  NCCL_ALGO=allreduce:tree;ring asked; 120 of 160 AllReduce calls used it, 40 used RING; why, NCCL does not tell.

# Tags that the program gives its calls (NCCL 2.31 on) are columns of the callbacks and of each call.
nccl 2.31.2
ranks 2
virtual_time
all_reduce 1KiB tag=7
all_reduce 1KiB tag=8
--- NCCLSCOPE_MODE=callbacks fake-nccl play job
announced 4, ABI v7
--- ncclscope export capture --to jsonl | jq -c 'select(.type == "CollApi") | [.global_rank, .fields.func, .fields.user_tag]' | sort
[0,"AllReduce",7]
[0,"AllReduce",8]
[1,"AllReduce",7]
[1,"AllReduce",8]

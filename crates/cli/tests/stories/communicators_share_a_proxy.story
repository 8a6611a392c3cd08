# A split and a shrunk communicator use their parent's proxy thread, and each event is still its own's.
ranks 4
hosts 2
comm all name "all"
comm odd split all stride 2 share name "odd"
comm less shrink all without 3 share name "less"
all_reduce 1MiB comm=all channels=1 x2
all_reduce 1MiB comm=odd channels=1 x3
rank 0..2 { all_reduce 1MiB comm=less channels=1 x4 }
--- NCCLSCOPE_MODE=callbacks fake-nccl play job
--- ncclscope report capture | grep recorded
--- ncclscope export capture --to jsonl | jq -c 'select(.global_rank == 0 and .role == "proxy") | .thread_name' | sort | uniq -c | awk '{print NF, $2, $3}'
--- ncclscope export capture --to jsonl | jq -r 'select(.callback == "startEvent") | [.global_rank, .type, .role] | join(" ")' | sort | uniq -c | grep 'Proxy\(Op\|Step\)'
--- ncclscope export capture --events --to chrome -o events.json
--- jq -r '.traceEvents[] | select(.name == "thread_name") | .args.name' events.json | grep 'rank 0.*proxy' | sed 's/ ([0-9]*)//' | sort -u
--- jq -r '.traceEvents[] | select(.ph == "X" and .name == "ProxyStep 0") | "rank \(.args.global_rank) of \(.args.communicator): \(.args.role)"' events.json | sort | uniq -c

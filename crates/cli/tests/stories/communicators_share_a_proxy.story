# A split and a shrunk communicator use their parent's proxy thread, and each event is still its own's.
ranks 4
virtual_time
hosts 2
comm all name "all"
comm odd split all stride 2 share name "odd"
comm less shrink all without 3 share name "less"
all_reduce 1MiB comm=all channels=1 x2
all_reduce 1MiB comm=odd channels=1 x3
rank 0..2 { all_reduce 1MiB comm=less channels=1 x4 }
--- NCCLSCOPE_MODE=callbacks fake-nccl play job
announced 32, ABI v5
--- ncclscope report capture | grep recorded
  recorded mode callbacks, timing host
  32 of 32 announced calls recorded, 0 timed.
--- ncclscope export capture --to jsonl | jq -s -c 'map(select(.role == "proxy")) | group_by(.global_rank)[] | [.[0].thread_name, (map(.tid) | unique | length), (map(.context) | unique | length - 1)]'
["NCCL Progress",1,3]
["NCCL Progress",1,3]
["NCCL Progress",1,3]
["NCCL Progress",1,2]
--- ncclscope export capture --to jsonl | jq -r 'select(.callback == "startEvent") | [.global_rank, .type, .role] | join(" ")' | sort | uniq -c | grep 'Proxy\(Op\|Step\)'
     12 0 ProxyOp proxy
     30 0 ProxyStep proxy
     12 1 ProxyOp proxy
     30 1 ProxyStep proxy
     16 2 ProxyOp proxy
     42 2 ProxyStep proxy
      8 3 ProxyOp proxy
     18 3 ProxyStep proxy
--- ncclscope export capture --events --to chrome -o events.json 2>/dev/null

--- jq -r '.traceEvents[] | select(.name == "thread_name") | .args.name' events.json | grep 'rank 0.*proxy' | sed 's/thread [0-9]*.*/thread/' | sort -u
<host>, rank 0, all (ranks 0-3), proxy thread
<host>, rank 0, less (ranks 0-2), proxy thread
<host>, rank 0, odd (ranks 0,2), proxy thread
--- jq -r '.traceEvents[] | select(.ph == "X" and .name == "ProxyStep 0") | "rank \(.args.global_rank) of \(.args.communicator): \(.args.role)"' events.json | sort | uniq -c
      2 rank 0 of 8869398c7032ecc5: proxy
      6 rank 0 of 9d8cda5aa69d8b63: proxy
      4 rank 0 of e5f263747a3fafb7: proxy
      6 rank 1 of 6a8aa713136bfab7: proxy
      2 rank 1 of 8869398c7032ecc5: proxy
      4 rank 1 of e5f263747a3fafb7: proxy
      2 rank 2 of 8869398c7032ecc5: proxy
      6 rank 2 of 9d8cda5aa69d8b63: proxy
      8 rank 2 of e5f263747a3fafb7: proxy
      6 rank 3 of 6a8aa713136bfab7: proxy
      2 rank 3 of 8869398c7032ecc5: proxy

# Mode callbacks keeps every callback; a line of JSON each. User tags and kernel variants come from ABI v7.
nccl 2.32.3
ranks 2
all_reduce 1KiB symmetric tag=42
--- NCCLSCOPE_MODE=callbacks NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 2, ABI v7
--- ncclscope report capture | grep announced
  2 of 2 announced calls recorded, 2 timed.
--- ncclscope export capture --to jsonl | jq -r '[.callback, .type, .state] | map(. // empty) | join(" ")' | sort | uniq -c
      2 finalize
      2 init
      2 recordEventState GroupEndApiStart
      2 recordEventState GroupStartApiStop
      2 recordEventState KernelChStop
      2 startEvent Coll
      2 startEvent CollApi
      2 startEvent Group
      2 startEvent GroupApi
      2 startEvent KernelCh
      2 startEvent KernelLaunch
     12 stopEvent
--- ncclscope export capture --to jsonl | grep -m1 CollApi | sed 's/"tid":[0-9]*/"tid":<tid>/'
{"host":"<host>","pid":<pid>,"global_rank":0,"thread":0,"tid":<tid>,"thread_name":"fake-nccl","role":"caller","t_ns":<ns>,"ticks":<ticks>,"abi":7,"callback":"startEvent","event":2,"type":"CollApi","type_bits":"0x200","context":"0x<address>","handle":"0x<address>","parent":"0x<address>","parent_event":1,"fields":{"rank":0,"func":"AllReduce","count":256,"datatype":"ncclFloat32","root":0,"stream":"0x<address>","graph_captured":false,"user_tag":42}}
--- ncclscope export capture --to jsonl | jq -c 'select(.type == "Coll") | [.fields | .func, .count, .kernel_variant, .user_tag, .n_channels]'
["AllReduce",256,"AllReduce_RSxLDMC_AGxSTMC",42,1]
["AllReduce",256,"AllReduce_RSxLDMC_AGxSTMC",42,1]
--- NCCL_PROFILER_PLUGIN=none fake-nccl replay capture
announced 0, no plugin: NCCL_PROFILER_PLUGIN is `none`
2| fake-nccl: no plugin: NCCL_PROFILER_PLUGIN is `none`

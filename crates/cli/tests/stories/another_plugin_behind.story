# Another profiler plugin runs behind ncclscope, and the report says so. It gets what it would get alone.
ranks 2
virtual_time
all_reduce 1KiB x3
--- NCCLSCOPE_CHAIN=$PLUGINS/liblog_plugin.so LOG_PLUGIN_MASK=42 LOG_PLUGIN_OUT=. fake-nccl play job
announced 6, ABI v5
--- ncclscope report capture | sed -n '/recorded/p; /^Notes/,$p' | sed "s|$PLUGINS|<plugins>|"
  recorded mode trace, timing host
  6 of 6 announced calls recorded, 0 timed.
Notes
  Another profiler plugin ran behind ncclscope on ranks 0-1: log (`<plugins>/liblog_plugin.so`, ABI v5).
    It asked for Coll, KernelCh. What it cost is a part of the job's times, and no part of what recording cost.
  There are no GPU times: the process has no CUDA driver.

Next: ncclscope view capture
--- grep -ho '"type":"[A-Za-z]*"' *.jsonl | sort | uniq -c
      6 "type":"Coll"
      6 "type":"CollApi"
      6 "type":"Group"
      6 "type":"GroupApi"
      6 "type":"KernelCh"
--- rm -r capture *.jsonl

--- NCCL_PROFILER_PLUGIN=$PLUGINS/liblog_plugin.so LOG_PLUGIN_MASK=42 LOG_PLUGIN_OUT=. fake-nccl play job
announced 6, ABI v5
--- grep -ho '"type":"[A-Za-z]*"' *.jsonl | sort | uniq -c
      6 "type":"Coll"
      6 "type":"CollApi"
      6 "type":"Group"
      6 "type":"GroupApi"
      6 "type":"KernelCh"

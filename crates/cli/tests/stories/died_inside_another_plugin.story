# A plugin behind ncclscope ends its process. The calls survive, and report and hang say where the process was.
ranks 2
all_reduce 1KiB x40
--- LOG_PLUGIN_FAULT='abort 100' LOG_PLUGIN_OUT=none LOG_PLUGIN_MASK=2 NCCLSCOPE_CHAIN=$PLUGINS/liblog_plugin.so fake-nccl play job
announced a crash, ABI v5
2| fake-nccl: rank 0 (pid <pid>) ended with signal 6, which the script didn't ask for
2| fake-nccl: rank 1 (pid <pid>) ended with signal 6, which the script didn't ask for
[exit 1]
--- ncclscope collect capture > adopted 2>&1

--- ncclscope report capture | sed -n '/recorded,/p'
  50 of 50 announced calls recorded, 0 timed.
--- ncclscope report capture --json | jq -r '.notes[]' | grep CHAIN | sed "s|$PLUGINS|<plugins>|; s|thread ([0-9]*)|thread (<tid>)|"
Of rank 0 (pid <pid> on <host>), one thread (<tid>) was inside the profiler plugin `<plugins>/liblog_plugin.so` of NCCLSCOPE_CHAIN at its end, or when it was last seen.
Of rank 1 (pid <pid> on <host>), one thread (<tid>) was inside the profiler plugin `<plugins>/liblog_plugin.so` of NCCLSCOPE_CHAIN at its end, or when it was last seen.
--- ncclscope hang capture --json | jq -r '.details[]' | grep CHAIN | sed "s|$PLUGINS|<plugins>|; s|thread ([0-9]*)|thread (<tid>)|"
Of rank 0 (pid <pid> on <host>), one thread (<tid>) was inside the profiler plugin `<plugins>/liblog_plugin.so` of NCCLSCOPE_CHAIN at its end, or when it was last seen.
Of rank 1 (pid <pid> on <host>), one thread (<tid>) was inside the profiler plugin `<plugins>/liblog_plugin.so` of NCCLSCOPE_CHAIN at its end, or when it was last seen.

# By short name, by path, by the default name.
ranks 2
virtual_time
all_reduce 1KiB
--- NCCL_PROFILER_PLUGIN=ncclscope LD_LIBRARY_PATH=$PLUGINS fake-nccl play job
announced 2, ABI v5
--- NCCL_PROFILER_PLUGIN=$PLUGINS/libnccl-profiler-ncclscope.so fake-nccl play job
announced 2, ABI v5
--- unset NCCL_PROFILER_PLUGIN; LD_LIBRARY_PATH=$PLUGINS fake-nccl play job
announced 2, ABI v5
--- NCCL_PROFILER_PLUGIN=none fake-nccl play job
announced 0, no plugin: NCCL_PROFILER_PLUGIN is `none`
2| fake-nccl: no plugin: NCCL_PROFILER_PLUGIN is `none`
--- ncclscope report capture | grep 'calls recorded'
  2 of 2 announced calls recorded, 0 timed.
--- cd capture && ncclscope plugin-path | sed s/.*plugins/plugins/
plugins/libnccl-profiler-ncclscope.so

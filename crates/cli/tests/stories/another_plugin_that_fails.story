# What another plugin does wrong takes nothing from the recording, and the report says what happened.
ranks 2
all_reduce 1KiB x40
--- NCCLSCOPE_CHAIN=/no/such/plugin.so fake-nccl play job
announced 80, ABI v5
2| ncclscope: the profiler plugin `/no/such/plugin.so` of NCCLSCOPE_CHAIN can't be loaded: /no/such/plugin.so: cannot open shared object file: No such file or directory. The job and the recording go on without it
2| ncclscope: the profiler plugin `/no/such/plugin.so` of NCCLSCOPE_CHAIN can't be loaded: /no/such/plugin.so: cannot open shared object file: No such file or directory. The job and the recording go on without it
--- ncclscope report capture | sed -n '/recorded,/p; /NCCLSCOPE_CHAIN/,/:/p'
  80 of 80 announced calls recorded, 0 timed.
  The profiler plugin `/no/such/plugin.so` of NCCLSCOPE_CHAIN got no events on ranks 0-1: it could not be loaded.
  There are no GPU times: the process has no CUDA driver.
--- rm -r capture

--- NCCLSCOPE_CHAIN=$PLUGINS/libnccl-profiler.so fake-nccl play job 2>&1 | sed "s|$PLUGINS|<plugins>|"
ncclscope: the profiler plugin `<plugins>/libnccl-profiler.so` of NCCLSCOPE_CHAIN is ncclscope itself. The job and the recording go on without it
ncclscope: the profiler plugin `<plugins>/libnccl-profiler.so` of NCCLSCOPE_CHAIN is ncclscope itself. The job and the recording go on without it
announced 80, ABI v5
--- rm -r capture

--- LOG_PLUGIN_FAULT=init NCCLSCOPE_CHAIN=$PLUGINS/liblog_plugin.so fake-nccl play job 2>&1 | sed "s|$PLUGINS|<plugins>|"
ncclscope: the profiler plugin `<plugins>/liblog_plugin.so` of NCCLSCOPE_CHAIN could not begin with a communicator: it returned 3. The job and the recording go on without it
ncclscope: the profiler plugin `<plugins>/liblog_plugin.so` of NCCLSCOPE_CHAIN could not begin with a communicator: it returned 3. The job and the recording go on without it
announced 80, ABI v5
--- ncclscope report capture | grep -o '80 of 80 announced calls recorded'
80 of 80 announced calls recorded
--- rm -r capture

--- LOG_PLUGIN_FAULT=errors LOG_PLUGIN_MASK=2 LOG_PLUGIN_OUT=none NCCLSCOPE_CHAIN=$PLUGINS/liblog_plugin.so fake-nccl play job
announced 80, ABI v5
--- ncclscope report capture | grep 'returned an error'
  The other profiler plugin of rank 0 (pid <pid> on <host>) returned an error for 160 calls.
  The other profiler plugin of rank 1 (pid <pid> on <host>) returned an error for 160 calls.

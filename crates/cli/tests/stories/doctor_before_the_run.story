# What would go wrong, before it does. (What it says of the machine itself differs from machine to machine.)
ranks 2
all_reduce 1KiB
--- ncclscope doctor --json | grep '"area": "Plugin"' -A4 | grep finding; ncclscope doctor | sed -n '/^Variables/,/^Launchers/p'
      "finding": "`<folder>/libnccl-profiler-ncclscope.so` opens and has all 7 profiler symbols",
      "finding": "NCCL_PROFILER_PLUGIN is `<folder>/libnccl-profiler-ncclscope.so`: ncclscope's",
Variables
  ok      3 NCCLSCOPE_* variables are set, to what can be used
  ok      NCCL_DEBUG=INFO would let NCCL's log name the profiler plugin that it loads, or why not
Launchers
--- NCCLSCOPE_MODE=tarce NCCLSCOPE_TIMMING=stamps NCCLSCOPE_MEMORY=1PB ncclscope doctor | sed -n '/^Variables/,/^Launchers/p'
Variables
  warn    NCCLSCOPE_MEMORY=1PB can't be used; the default is taken
          remedy: a size from 1MiB to 64MiB, like 64MiB
  warn    NCCLSCOPE_MODE=tarce can't be used; the default is taken
          remedy: one of profile, trace, full, callbacks
  warn    NCCLSCOPE_TIMMING is no setting, and nothing reads it
          remedy: NCCLSCOPE_TIMING? docs/reference/settings.md has them all
  ok      NCCL_DEBUG=INFO would let NCCL's log name the profiler plugin that it loads, or why not
Launchers
--- NCCL_PROFILER_PLUGIN=none ncclscope doctor | grep -A1 'NCCL_PROFILER_PLUGIN is'
  fail    NCCL_PROFILER_PLUGIN is `none`: NCCL loads no profiler plugin
          remedy: unset it; `ncclscope run` sets its own
--- NCCL_PROFILER_PLUGIN=none ncclscope doctor >/dev/null
[exit 1]
--- NCCLSCOPE_PLUGIN=$PWD/job NCCL_PROFILER_PLUGIN=inspector ncclscope doctor --json | grep '"area": "Plugin"' -A4
      "area": "Plugin",
      "check": "plugin_opens",
      "status": "fail",
      "finding": "`<folder>/job` does not open: <folder>/job: invalid ELF header",
      "remedy": "it is not a library for this machine: install ncclscope for this architecture, and see that the file is whole"
--
      "area": "Plugin",
      "check": "profiler_plugin_variable",
      "status": "unknown",
      "finding": "NCCL_PROFILER_PLUGIN is `inspector`: neither `inspector` nor `libnccl-profiler-inspector.so` is in LD_LIBRARY_PATH",
      "remedy": "unless the system's library folders have it: use `ncclscope run`, which sets it, or NCCL_PROFILER_PLUGIN=$(ncclscope plugin-path)"
--- NCCLSCOPE_OUT=/proc/nowhere ncclscope doctor | grep -o 'fail *captures go to.*can.t be written to'
fail    captures go to `/proc/nowhere`, and `/proc` can't be written to

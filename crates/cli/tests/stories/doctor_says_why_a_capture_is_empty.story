# Why nothing, or not all, came out: each line with what to do about it.
ranks 2
all_reduce 1KiB x3
--- ncclscope doctor nowhere
Capture
  fail    `nowhere` does not exist
          remedy: `ncclscope run -o DIR` or NCCLSCOPE_OUT sets the folder; the recorder's first line names it

1 fail.
Next: ncclscope doctor, in the job's environment
[exit 1]
--- ncclscope run -o gone -- true; [ -e gone ] || echo no folder
no folder
2| ncclscope: nothing was recorded, so there is no capture: no process of the program loaded NCCL's profiler plugin. Did it use NCCL, from 2.23 on, on more than one GPU?
2|   next: ncclscope doctor
--- ncclscope run -o gone -- sh -c 'exit 3'; [ -e gone ] || echo no folder
no folder
2| ncclscope: nothing was recorded, so there is no capture: the program ended with status 3 before it loaded NCCL's profiler plugin
2|   next: sh -c 'exit 3'   (see that it runs by itself)
--- SLURM_JOB_ID=9 SLURM_STEP_ID=0 SLURM_PROCID=0 ncclscope run -o no_nccl -- true; ncclscope doctor no_nccl
Capture
  fail    the program ended well, and no process of it loaded the plugin
          remedy: did it use NCCL (torch: backend nccl, on GPUs)? NCCL 2.23 or newer? did the launcher pass
            NCCL_PROFILER_PLUGIN on? `ncclscope doctor` in the job's environment checks these; NCCL_DEBUG=INFO makes
            NCCL say what it loads

1 fail.
Next: ncclscope doctor, in the job's environment
2| ncclscope: capture in no_nccl (shared by the job's ranks): nothing in it up to now; next: ncclscope doctor no_nccl
[exit 1]
--- SLURM_JOB_ID=9 SLURM_STEP_ID=0 SLURM_PROCID=0 ncclscope run -o failed -- false; ncclscope doctor failed
Capture
  fail    the program ended with status 1 before any process of it loaded the plugin
          remedy: see that it runs without `ncclscope run`

1 fail.
Next: ncclscope doctor, in the job's environment
2| ncclscope: capture in failed (shared by the job's ranks): nothing in it up to now; next: ncclscope doctor failed
[exit 1]
--- echo 'ranks 1; all_reduce 1KiB x3' | NCCLSCOPE_OUT=alone fake-nccl play -; ncclscope doctor alone
announced 0, ABI v5
Capture
  ok      all 1 ranks left a trace
  fail    all communicators have one rank: NCCL announces no call of these, as it moves nothing
          remedy: run with two or more ranks to a communicator; see WORLD_SIZE and the launcher's options
  ok      all files are sound

1 fail, 2 ok.
Next: ncclscope doctor, in the job's environment
[exit 1]
--- NCCLSCOPE_OUT=half fake-nccl play job; rm half/*/r1-*; ncclscope doctor half
announced 6, ABI v5
Capture
  fail    Rank 1 is missing: no file of it is here. At least 3 of its calls are missing: operations that ended on other
          ranks prove them.
          remedy: their hosts may not see this folder (`ncclscope collect --into` there), may not have the plugin at
            this path, or their launcher did not pass the variables on; ranks that made no communicator leave none
  fail    3 of at least 6 announced calls are recorded
          remedy: bring what is missing of these ranks into this folder; figures over ranks leave it out
  ok      of the events asked for (mask 0x1e1e), Coll came
  warn    no call has a GPU time: the process has no CUDA driver
          remedy: a program that calls NCCL has loaded libcuda.so.1; one that simulates it has not
  ok      all files are sound

2 fail, 1 warn, 2 ok.
Next: ncclscope report half
[exit 1]
--- echo 'nccl 2.30.7; ranks 2; broadcast 1KiB x3' | NCCLSCOPE_TIMING=stamps NCCLSCOPE_OUT=broadcasts fake-nccl play -; ncclscope doctor broadcasts
announced 6, ABI v6
Capture
  ok      all 2 ranks left a trace
  ok      6 of 6 announced calls are recorded
  warn    events were asked for and never came: Coll, KernelCh (mask 0x1e5e, NCCL 2.30.7)
          remedy: NCCL does not announce them for these calls (Broadcast from 2.29 on, symmetric memory up to 2.30, copy
            engines), or another client set its mask; the report's notes name the calls
  fail    0 calls have a GPU time, 6 have none (6 no_stamp)
          remedy: stamps: NCCL has none before 2.27, and none for Broadcast from 2.29 on, symmetric memory up to 2.30
            and copy engines; events: none before 2.28, and none for graph replays
  ok      all files are sound

1 fail, 1 warn, 3 ok.
Next: ncclscope report broadcasts
[exit 1]
--- NCCLSCOPE_OUT=whole fake-nccl play job; ncclscope doctor whole
announced 6, ABI v5
Capture
  ok      all 2 ranks left a trace
  ok      6 of 6 announced calls are recorded
  ok      of the events asked for (mask 0x1e1e), Coll came
  warn    no call has a GPU time: the process has no CUDA driver
          remedy: a program that calls NCCL has loaded libcuda.so.1; one that simulates it has not
  ok      all files are sound

1 warn, 4 ok.
Next: ncclscope report whole

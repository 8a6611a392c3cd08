# NCCL's phases are recorded without a line of it on the program's streams; the rank that loads kernels for
# long is named. What the job sets itself stays.
ranks 3
virtual_time
load_kernels 0,2 1.5s
load_kernels 1 52.94s
all_reduce 1MiB x20
--- NCCLSCOPE_NCCL_LOG=on ncclscope run -o capture -- sh -c 'echo $NCCLSCOPE_NCCL_LOG > place; fake-nccl play job'
announced 60, ABI v5
2| ncclscope: capture in capture: 3 processes, 60 calls; next: ncclscope report capture
--- ncclscope startup capture | sed '/^Ranks/,$d; s/ The last rank began .*//'
Making the slowest communicator (3 ranks) took 52.94 s. The largest part of it was loading NCCL's kernels onto the GPU:
52.94 s on rank 1.

What to do
  NCCL's library may hold no code for this GPU, and the driver then compiles it at each start. Use an NCCL that was
    built for this GPU (`cuobjdump --list-elf libnccl.so.2` lists what it holds), keep CUDA_MODULE_LOADING=LAZY, which
    is the default, and keep the compiled code (CUDA_CACHE_PATH on a disk that stays, CUDA_CACHE_MAXSIZE large enough).

Phases of communicator 0xc00df69fc6fcf19e (3 ranks; in NCCL's order, s)
  phase       slowest rank median shortest on critical path
  kernels       52.94    1   1.50     1.50            52.94
  alloc          0.00    0   0.00     0.00             0.00
  bootstrap     51.44    0  51.44     0.00             0.00
  allgathers     0.00    0   0.00     0.00             0.00
  topo           0.00    0   0.00     0.00             0.00
  graphs         0.00    0   0.00     0.00             0.00
  connections    0.00    0   0.00     0.00             0.00
  rest           0.00    0   0.00     0.00             0.00
  total         52.94    0  52.94    52.94            52.94
  The critical path goes through rank 1 in kernels (52.94 s).
--- ncclscope startup --json capture | grep -A3 critical_path_s
      "critical_path_s": 52.94,
      "ranks": [
        {
          "rank": 0,
--- ncclscope report capture | grep -A2 Start-up
Start-up
  Making the slowest communicator (3 ranks) took 52.94 s. The largest part of it was loading NCCL's kernels onto the
    GPU: 52.94 s on rank 1. `ncclscope startup` has each rank.
--- ncclscope report capture --html page.html >/dev/null 2>&1; grep -A2 '<ol class="legs">' page.html; grep -c 'aria-label="Critical path of start-up"' page.html
<ol class="legs">
<li>52.9 s (100 %): loading NCCL&#39;s kernels onto the GPU on rank 1</li>
</ol>
1
--- ncclscope report capture --json | jq -c '.recommendations[] | .rule, .subject, .evidence, .gain_at_most_us'
"slow_start_up"
"kernels"
"It took 52.9 s on rank 1, on the critical path of the init of 3 ranks, which took 52.9 s."
52940000
--- ls /dev/shm | grep -F "$(basename "$(cat place)")"
[exit 1]
--- rm -r capture; NCCL_DEBUG=WARN ncclscope run -o capture -- fake-nccl play job
announced 60, ABI v5
2| ncclscope: capture in capture: 3 processes, 60 calls; next: ncclscope report capture
--- ncclscope startup capture | sed '/^Start of rank/,/^$/d; /^Processes/,/^$/d; s/rank [0-2] took longest.*/rank N took longest …/'
The start of rank N took longest …

The phases of NCCL's init are not recorded, because the job set NCCL_DEBUG=WARN itself, and ncclscope leaves that as it
is. Unset it, set NCCL_DEBUG=INFO and NCCL_DEBUG_FILE, or give what NCCL printed to `ncclscope startup FILE`.
--- rm -r capture; NCCL_DEBUG=INFO NCCL_DEBUG_FILE=own.%p ncclscope run -o capture -- fake-nccl play job
announced 60, ABI v5
2| ncclscope: capture in capture: 3 processes, 60 calls; next: ncclscope report capture
--- ncclscope startup capture | head -2; cat own.* | grep -c 'Init timings'; cat own.* > log; ncclscope startup log | head -2
Making the slowest communicator (3 ranks) took 52.94 s. The largest part of it was loading NCCL's kernels onto the GPU:
52.94 s on rank 1.
3
Making the slowest communicator (3 ranks) took 52.94 s. The largest part of it was loading NCCL's kernels onto the GPU:
52.94 s on rank 1.
--- sed 's/^/\x1b[32m/; s/$/\x1b[0m/' log > coloured; ncclscope startup coloured | head -2; ncclscope startup coloured | grep -c '\[32m'
Making the slowest communicator (3 ranks) took 52.94 s. The largest part of it was loading NCCL's kernels onto the GPU:
52.94 s on rank 1.
0
[exit 1]
--- grep -v 'rank 1 nranks' log > part; ncclscope startup part | sed '/^Phases/,/total/d; s/ The last rank began .*//; /^Ranks of/,$d'
Making the slowest communicator (3 ranks) took 52.94 s. The largest part of it was meeting the other ranks (bootstrap):
51.44 s on rank 0, and 51.44 s or more on each other. There they wait for the last rank to begin: probably the one
without times.

What to do
  The ranks meet over TCP. See that NCCL_SOCKET_IFNAME names a fast interface, and that no rank is late for other
    reasons: the table has each rank's phases before it.

  The critical path goes through rank 0 in kernels, bootstrap (52.94 s).
  Ranks without a line about it: 1.
--- grep -v 'Init timings' log > old; ncclscope startup old | head -1
All 3 ranks are ready. The phases of start-up are not known: NCCL prints them from 2.22 on (`Init timings`), and this
--- echo hello > other; ncclscope startup other
2| error: expected lines `Init timings` or `Init START` of NCCL, found none in `other`
2|   hint: NCCL prints them with NCCL_DEBUG=INFO, from 2.22 on; or record with `NCCLSCOPE_NCCL_LOG=on ncclscope run`
[exit 2]
--- rm -r capture; sed 's/1.5s/0.1s/; s/52.94s/0.9s/' job > quick; NCCLSCOPE_NCCL_LOG=on ncclscope run -o capture -- fake-nccl play quick
announced 60, ABI v5
2| ncclscope: capture in capture: 3 processes, 60 calls; next: ncclscope report capture
--- ncclscope report capture --json | jq -c .recommendations
[]

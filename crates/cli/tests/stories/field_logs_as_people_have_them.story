# Logs of NCCL as people have them: without a place, deduplicated by Ray, in frames of pods, with tags and dates
# of launchers, of containers with equal names, without any line of level INFO. Rebuilt from
# NVIDIA/nccl#417, #582, #733, #2094; vllm-project/vllm#15769; ray-project/ray#59778; tags of torchrun --tee.
# Each file begins with a line `@NAME`.
@jax
[0] NCCL INFO ncclCommInitRankConfig comm 0x563cb890f420 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 1000 commId 0xfa356df9cba89de0 - Init COMPLETE
[0] NCCL INFO Init timings - ncclCommInitRankConfig: rank 0 nranks 8 total 3.03 (kernels 1.22, alloc 0.24, bootstrap 0.08, allgathers 0.06, topo 1.11, graphs 0.03, connections 0.27, rest 0.02)
[1] NCCL INFO ncclCommInitRankConfig comm 0x563cb890f421 rank 1 nranks 8 cudaDev 1 nvmlDev 1 busId 2000 commId 0xfa356df9cba89de0 - Init COMPLETE
[1] NCCL INFO Init timings - ncclCommInitRankConfig: rank 1 nranks 8 total 3.03 (kernels 1.22, alloc 0.24, bootstrap 0.08, allgathers 0.06, topo 1.11, graphs 0.03, connections 0.27, rest 0.02)
[2] NCCL INFO ncclCommInitRankConfig comm 0x563cb890f422 rank 2 nranks 8 cudaDev 2 nvmlDev 2 busId 3000 commId 0xfa356df9cba89de0 - Init COMPLETE
[2] NCCL INFO Init timings - ncclCommInitRankConfig: rank 2 nranks 8 total 3.03 (kernels 1.22, alloc 0.24, bootstrap 0.08, allgathers 0.06, topo 1.11, graphs 0.03, connections 0.27, rest 0.02)
[3] NCCL INFO ncclCommInitRankConfig comm 0x563cb890f423 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 4000 commId 0xfa356df9cba89de0 - Init COMPLETE
[3] NCCL INFO Init timings - ncclCommInitRankConfig: rank 3 nranks 8 total 3.03 (kernels 1.22, alloc 0.24, bootstrap 0.08, allgathers 0.06, topo 1.11, graphs 0.03, connections 0.27, rest 0.02)
[4] NCCL INFO ncclCommInitRankConfig comm 0x563cb890f424 rank 4 nranks 8 cudaDev 4 nvmlDev 4 busId 5000 commId 0xfa356df9cba89de0 - Init COMPLETE
[4] NCCL INFO Init timings - ncclCommInitRankConfig: rank 4 nranks 8 total 3.03 (kernels 1.22, alloc 0.24, bootstrap 0.08, allgathers 0.06, topo 1.11, graphs 0.03, connections 0.27, rest 0.02)
[5] NCCL INFO ncclCommInitRankConfig comm 0x563cb890f425 rank 5 nranks 8 cudaDev 5 nvmlDev 5 busId 6000 commId 0xfa356df9cba89de0 - Init COMPLETE
[5] NCCL INFO Init timings - ncclCommInitRankConfig: rank 5 nranks 8 total 3.03 (kernels 1.22, alloc 0.24, bootstrap 0.08, allgathers 0.06, topo 1.11, graphs 0.03, connections 0.27, rest 0.02)
[6] NCCL INFO ncclCommInitRankConfig comm 0x563cb890f426 rank 6 nranks 8 cudaDev 6 nvmlDev 6 busId 7000 commId 0xfa356df9cba89de0 - Init COMPLETE
[6] NCCL INFO Init timings - ncclCommInitRankConfig: rank 6 nranks 8 total 3.03 (kernels 1.22, alloc 0.24, bootstrap 0.08, allgathers 0.06, topo 1.11, graphs 0.03, connections 0.27, rest 0.02)
[7] NCCL INFO ncclCommInitRankConfig comm 0x563cb890f427 rank 7 nranks 8 cudaDev 7 nvmlDev 7 busId 8000 commId 0xfa356df9cba89de0 - Init COMPLETE
[7] NCCL INFO Init timings - ncclCommInitRankConfig: rank 7 nranks 8 total 3.03 (kernels 1.22, alloc 0.24, bootstrap 0.08, allgathers 0.06, topo 1.11, graphs 0.03, connections 0.27, rest 0.02)
@redacted
[0] NCCL INFO Bootstrap : Using [0]eth0:10.0.0.1<0>
NCCL version 2.7.8+cuda10.2
[0] NCCL INFO comm 0x7f4db0002f00 rank 0 nranks 3 cudaDev 0 busId 1000 - Init COMPLETE
[1] NCCL INFO comm 0x7f4db0002f10 rank 1 nranks 3 cudaDev 1 busId 2000 - Init COMPLETE
[2] NCCL INFO comm 0x7f4db0002f20 rank 2 nranks 3 cudaDev 2 busId 3000 - Init COMPLETE
@ray
(RayWorkerWrapper pid=533) serve-0:533:533 [0] NCCL INFO ncclCommInitRank comm 0x2fa81fa0 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 10000 commId 0xaab4a40f4078b738 - Init START
(RayWorkerWrapper pid=533) serve-0:533:533 [0] NCCL INFO ncclCommInitRank comm 0x2fa81fa0 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 10000 commId 0xaab4a40f4078b738 - Init COMPLETE
(RayWorkerWrapper pid=533) serve-0:533:533 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 8 total 43.52 (kernels 0.30, alloc 0.02, bootstrap 41.20, allgathers 0.40, topo 0.90, graphs 0.10, connections 0.60, rest 0.00)
(RayWorkerWrapper pid=539) serve-0:539:539 [6] NCCL INFO ncclCommInitRank comm 0x2fa82120 rank 6 nranks 8 cudaDev 6 nvmlDev 6 busId 70000 commId 0xaab4a40f4078b738 - Init START [repeated 7x across cluster]
(RayWorkerWrapper pid=539) serve-0:539:539 [6] NCCL INFO ncclCommInitRank comm 0x2fa82120 rank 6 nranks 8 cudaDev 6 nvmlDev 6 busId 70000 commId 0xaab4a40f4078b738 - Init COMPLETE [repeated 7x across cluster]
(RayWorkerWrapper pid=539) serve-0:539:539 [6] NCCL INFO Init timings - ncclCommInitRank: rank 6 nranks 8 total 43.52 (kernels 0.30, alloc 0.02, bootstrap 41.20, allgathers 0.40, topo 0.90, graphs 0.10, connections 0.60, rest 0.00) [repeated 7x across cluster]
@pods
│ task-7700-x:72:72 [0] NCCL INFO Bootstrap : Using eth0:172.17.80.63<0>    
│ task-7700-x:72:89 [0] NCCL INFO comm 0x7f4db0002f00 rank 0 nranks 8 cudaDev 0 busId 90000 - Init COMPLETE    
│ task-7700-x:73:73 [1] NCCL INFO Bootstrap : Using eth0:172.17.80.63<0>    
│ task-7700-x:73:90 [1] NCCL INFO comm 0x7f4db0002f10 rank 1 nranks 8 cudaDev 1 busId 91000 - Init COMPLETE    
│ task-7701-x:72:72 [0] NCCL INFO Bootstrap : Using eth0:172.17.80.64<0>    
│ task-7701-x:72:89 [0] NCCL INFO comm 0x7f4db0002f20 rank 2 nranks 8 cudaDev 0 busId 90000 - Init COMPLETE    
│ task-7701-x:73:73 [1] NCCL INFO Bootstrap : Using eth0:172.17.80.64<0>    
│ task-7701-x:73:90 [1] NCCL INFO comm 0x7f4db0002f30 rank 3 nranks 8 cudaDev 1 busId 91000 - Init COMPLETE    
│ task-7702-x:72:72 [0] NCCL INFO Bootstrap : Using eth0:172.17.80.65<0>    
│ task-7702-x:72:89 [0] NCCL INFO comm 0x7f4db0002f40 rank 4 nranks 8 cudaDev 0 busId 90000 - Init COMPLETE    
│ task-7702-x:73:73 [1] NCCL INFO Bootstrap : Using eth0:172.17.80.65<0>    
│ task-7702-x:73:90 [1] NCCL INFO comm 0x7f4db0002f50 rank 5 nranks 8 cudaDev 1 busId 91000 - Init COMPLETE    
│ task-7703-x:72:72 [0] NCCL INFO Bootstrap : Using eth0:172.17.80.66<0>    
│ task-7703-x:72:89 [0] NCCL INFO comm 0x7f4db0002f60 rank 6 nranks 8 cudaDev 0 busId 90000 - Init COMPLETE    
│ task-7703-x:73:73 [1] NCCL INFO Bootstrap : Using eth0:172.17.80.66<0>    
│ task-7703-x:73:90 [1] NCCL INFO comm 0x7f4db0002f70 rank 7 nranks 8 cudaDev 1 busId 91000 - Init COMPLETE    
@torchrun
[default0]:[2026-05-04 19:55:00] n1:410:500 [0] NCCL INFO ncclCommInitRank comm 0x9000 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init START
[default0]:[2026-05-04 19:55:30] n1:410:500 [0] NCCL INFO ncclCommInitRank comm 0x9000 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init COMPLETE
[default0]:[2026-05-04 19:55:30] n1:410:500 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 4 total 30.30 (kernels 0.20, alloc 0.10, bootstrap 29.50, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.20, rest 0.00)
[default1]:[2026-05-04 19:55:00] n1:411:501 [1] NCCL INFO ncclCommInitRank comm 0x9001 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xabc - Init START
[default1]:[2026-05-04 19:55:31] n1:411:501 [1] NCCL INFO ncclCommInitRank comm 0x9001 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xabc - Init COMPLETE
[default1]:[2026-05-04 19:55:31] n1:411:501 [1] NCCL INFO Init timings - ncclCommInitRank: rank 1 nranks 4 total 30.20 (kernels 0.20, alloc 0.10, bootstrap 29.40, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.20, rest 0.00)
[default2]:[2026-05-04 19:55:00] n1:412:502 [2] NCCL INFO ncclCommInitRank comm 0x9002 rank 2 nranks 4 cudaDev 2 nvmlDev 2 busId 3000 commId 0xabc - Init START
[default2]:[2026-05-04 19:55:32] n1:412:502 [2] NCCL INFO ncclCommInitRank comm 0x9002 rank 2 nranks 4 cudaDev 2 nvmlDev 2 busId 3000 commId 0xabc - Init COMPLETE
[default2]:[2026-05-04 19:55:32] n1:412:502 [2] NCCL INFO Init timings - ncclCommInitRank: rank 2 nranks 4 total 0.82 (kernels 0.20, alloc 0.10, bootstrap 0.02, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.20, rest 0.00)
[default3]:[2026-05-04 19:55:00] n1:413:503 [3] NCCL INFO ncclCommInitRank comm 0x9003 rank 3 nranks 4 cudaDev 3 nvmlDev 3 busId 4000 commId 0xabc - Init START
[default3]:[2026-05-04 19:55:33] n1:413:503 [3] NCCL INFO ncclCommInitRank comm 0x9003 rank 3 nranks 4 cudaDev 3 nvmlDev 3 busId 4000 commId 0xabc - Init COMPLETE
[default3]:[2026-05-04 19:55:33] n1:413:503 [3] NCCL INFO Init timings - ncclCommInitRank: rank 3 nranks 4 total 30.20 (kernels 0.20, alloc 0.10, bootstrap 29.40, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.20, rest 0.00)
@containers
localhost:57:57 [0] NCCL INFO ncclCommInitRank comm 0x5570 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabba - Init START
localhost:57:57 [0] NCCL INFO ncclCommInitRank comm 0x5570 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabba - Init START
localhost:57:57 [0] NCCL INFO ncclCommInitRank comm 0x5570 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabba - Init COMPLETE
localhost:57:57 [0] NCCL INFO ncclCommInitRank comm 0x5570 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabba - Init COMPLETE
localhost:57:57 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 2 total 4.10 (kernels 0.20, alloc 0.10, bootstrap 3.30, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.20, rest 0.00)
localhost:57:57 [0] NCCL INFO Init timings - ncclCommInitRank: rank 1 nranks 2 total 4.10 (kernels 3.20, alloc 0.10, bootstrap 0.30, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.20, rest 0.00)
@version
NCCL version 2.26.2+cuda12.4
[rank0]:[W703 00:59:30.440443364 ProcessGroupNCCL.cpp:981] Warning
--- awk '/^@/ { f = substr($0, 2); next } f { print > f }' job; ls | grep -v -e '^job$' -e '^data$' | tr '\n' ' '
containers jax pods ray redacted torchrun version
--- ncclscope startup jax | sed '/^What/,/^$/d' | head -5; ncclscope startup jax | grep -A2 '^  rank'
Making the slowest communicator (8 ranks) took 3.03 s. The largest part of it was loading NCCL's kernels onto the GPU:
1.22 s on rank 0, and 1.22 s or more on each other.

Phases of communicator 0xfa356df9cba89de0 (8 ranks; in NCCL's order, s)
  phase       slowest rank median shortest on critical path
  rank total kernels alloc bootstrap allgathers topo graphs connections rest
     0  3.03    1.22  0.24      0.08       0.06 1.11   0.03        0.27 0.02
     1  3.03    1.22  0.24      0.08       0.06 1.11   0.03        0.27 0.02
--- ncclscope startup redacted
All 3 ranks are ready. The phases of start-up are not known: NCCL prints them from 2.22 on (`Init timings`), and this
output has none.

Ranks of communicator of unknown id (3 ranks; slowest first, s)
  rank
     0
     1
     2
--- ncclscope startup ray | sed '/^Phases/,/total/d; /^Ranks of/,/^$/d'
Making the slowest communicator (8 ranks) took 43.52 s. The largest part of it was meeting the other ranks (bootstrap):
41.20 s on rank 0, and 41.20 s or more on each other. There they wait for the last rank to begin: probably one of the 6
without times.

What to do
  The ranks meet over TCP. See that NCCL_SOCKET_IFNAME names a fast interface, and that no rank is late for other
    reasons: the table has each rank's phases before it.

  The critical path goes through rank 0 in kernels, alloc, bootstrap, topo, graphs, allgathers, connections (43.52 s).
  Ranks without a line about it: 1-5,7.

Ray left out 21 lines that were like lines of other ranks, so ranks are missing here. Set RAY_DEDUP_LOGS=0 to keep them.
--- ncclscope startup pods | sed '/^$/,$d'
All 8 ranks are ready. The phases of start-up are not known: NCCL prints them from 2.22 on (`Init timings`), and this
output has none.
--- ncclscope startup torchrun | sed '/^$/,$d'
Making the slowest communicator (4 ranks) took 30.30 s, because rank 2 on n1 began 29.48 s after the first rank. The
others waited for it in bootstrap. Its own init took 0.82 s.
--- sed 's/^/Mon May  4 19:55:00 2026[1,0]<stdout>:/' torchrun | sed 's/\[default[0-9]\]:\[[^]]*\] //' > mpirun; ncclscope startup mpirun | sed '/^$/,$d'
Making the slowest communicator (4 ranks) took 30.30 s, because rank 2 on n1 began 29.48 s after the first rank. The
others waited for it in bootstrap. Its own init took 0.82 s.
--- sed 's/^\[default[0-9]\]:\[[^]]*\] /2026-05-04T19:55:00.25Z /' torchrun > kubectl; ncclscope startup kubectl | sed '/^$/,$d'
Making the slowest communicator (4 ranks) took 30.30 s, because rank 2 on n1 began 29.48 s after the first rank. The
others waited for it in bootstrap. Its own init took 0.82 s.
--- sed 's/.*/{"log":"&\\n","stream":"stdout"}/' torchrun > json; ncclscope startup json | sed '/^$/,$d'
Making the slowest communicator (4 ranks) took 30.30 s, because rank 2 on n1 began 29.48 s after the first rank. The
others waited for it in bootstrap. Its own init took 0.82 s.
--- ncclscope startup containers | sed '/^What/,/^$/d' | head -3; ncclscope startup containers | grep -A3 '^  rank'
Making the slowest communicator (2 ranks) took 4.10 s. The largest part of it was loading NCCL's kernels onto the GPU:
3.20 s on rank 1.

  rank host      pid thread total kernels alloc bootstrap allgathers topo graphs connections rest
     0 localhost  57     57  4.10    0.20  0.10      3.30       0.10 0.10   0.10        0.20 0.00
     1 localhost  57     57  4.10    3.20  0.10      0.30       0.10 0.10   0.10        0.20 0.00
--- grep 'rank 0' containers > rank0; grep 'rank 1' containers > rank1; ncclscope startup rank0 rank1 | sed '/^$/,$d'
Making the slowest communicator (2 ranks) took 4.10 s. The largest part of it was loading NCCL's kernels onto the GPU:
3.20 s on rank 1.
--- ncclscope startup version
2| error: `version` has NCCL's version (2.26.2+cuda12.4) and no line of its level INFO
2|   hint: run the job with NCCL_DEBUG=INFO; or record it with `NCCLSCOPE_NCCL_LOG=on ncclscope run`
[exit 2]
--- head -c 700 torchrun > cut; ncclscope startup cut | sed '/^$/,$d'; awk 'BEGIN { for (i = 0; i < 60000; i++) printf "%c", (i * 7919) % 251 }' > noise; cat noise torchrun > mixed; ncclscope startup mixed | sed '/^$/,$d' | head -1; ncclscope startup noise 2>&1 | head -1
Making the slowest communicator (4 ranks) took 30.30 s. The largest part of it was meeting the other ranks (bootstrap):
29.50 s on rank 0. There they wait for the last rank to begin: probably one of the 3 without times.
Making the slowest communicator (4 ranks) took 30.30 s, because rank 2 on n1 began 29.48 s after the first rank. The
error: expected lines `Init timings` or `Init START` of NCCL, found none in `noise`
--- printf 'n0:1:1 [0] NCCL INFO Using network Socket\n' > other; ncclscope startup other
2| error: expected lines `Init timings`, `Init START` or `Init COMPLETE` of NCCL, found 1 other lines of NCCL in `other`
2|   hint: NCCL_DEBUG_SUBSYS must have INIT, and the output must be whole
[exit 2]

# Start-ups as logs have them: several communicators, hosts and ranks that came late, and a job that was
# started again. Waits are counted for those who were waited for.
# Each file begins with a line `@NAME`.
@several
n0:100:200 [0] NCCL INFO ncclCommInitRank comm 0x90abc rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init START
n0:100:200 [0] NCCL INFO ncclCommInitRank comm 0x90abc rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init COMPLETE
n0:100:200 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 4 total 13.30 (kernels 0.20, alloc 0.10, bootstrap 12.60, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
n0:101:201 [1] NCCL INFO ncclCommInitRank comm 0x91abc rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xabc - Init START
n0:101:201 [1] NCCL INFO ncclCommInitRank comm 0x91abc rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xabc - Init COMPLETE
n0:101:201 [1] NCCL INFO Init timings - ncclCommInitRank: rank 1 nranks 4 total 13.30 (kernels 0.20, alloc 0.10, bootstrap 12.60, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
n0:102:202 [2] NCCL INFO ncclCommInitRank comm 0x92abc rank 2 nranks 4 cudaDev 2 nvmlDev 2 busId 3000 commId 0xabc - Init START
n0:102:202 [2] NCCL INFO ncclCommInitRank comm 0x92abc rank 2 nranks 4 cudaDev 2 nvmlDev 2 busId 3000 commId 0xabc - Init COMPLETE
n0:102:202 [2] NCCL INFO Init timings - ncclCommInitRank: rank 2 nranks 4 total 13.30 (kernels 0.20, alloc 0.10, bootstrap 12.60, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
n0:103:203 [3] NCCL INFO ncclCommInitRank comm 0x93abc rank 3 nranks 4 cudaDev 3 nvmlDev 3 busId 4000 commId 0xabc - Init START
n0:103:203 [3] NCCL INFO ncclCommInitRank comm 0x93abc rank 3 nranks 4 cudaDev 3 nvmlDev 3 busId 4000 commId 0xabc - Init COMPLETE
n0:103:203 [3] NCCL INFO Init timings - ncclCommInitRank: rank 3 nranks 4 total 0.80 (kernels 0.20, alloc 0.10, bootstrap 0.10, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
n0:100:200 [0] NCCL INFO ncclCommInitRank comm 0x90111 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0x111 - Init START
n0:100:200 [0] NCCL INFO ncclCommInitRank comm 0x90111 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0x111 - Init COMPLETE
n0:100:200 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 4 total 0.80 (kernels 0.20, alloc 0.10, bootstrap 0.10, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
n0:101:201 [1] NCCL INFO ncclCommInitRank comm 0x91111 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0x111 - Init START
n0:101:201 [1] NCCL INFO ncclCommInitRank comm 0x91111 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0x111 - Init COMPLETE
n0:101:201 [1] NCCL INFO Init timings - ncclCommInitRank: rank 1 nranks 4 total 0.80 (kernels 0.20, alloc 0.10, bootstrap 0.10, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
n0:102:202 [2] NCCL INFO ncclCommInitRank comm 0x92111 rank 2 nranks 4 cudaDev 2 nvmlDev 2 busId 3000 commId 0x111 - Init START
n0:102:202 [2] NCCL INFO ncclCommInitRank comm 0x92111 rank 2 nranks 4 cudaDev 2 nvmlDev 2 busId 3000 commId 0x111 - Init COMPLETE
n0:102:202 [2] NCCL INFO Init timings - ncclCommInitRank: rank 2 nranks 4 total 0.80 (kernels 0.20, alloc 0.10, bootstrap 0.10, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
n0:103:203 [3] NCCL INFO ncclCommInitRank comm 0x93111 rank 3 nranks 4 cudaDev 3 nvmlDev 3 busId 4000 commId 0x111 - Init START
n0:103:203 [3] NCCL INFO ncclCommInitRank comm 0x93111 rank 3 nranks 4 cudaDev 3 nvmlDev 3 busId 4000 commId 0x111 - Init COMPLETE
n0:103:203 [3] NCCL INFO Init timings - ncclCommInitRank: rank 3 nranks 4 total 0.80 (kernels 0.20, alloc 0.10, bootstrap 0.10, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
n0:100:200 [0] NCCL INFO ncclCommInitRank comm 0x90222 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0x222 - Init START
n0:100:200 [0] NCCL INFO ncclCommInitRank comm 0x90222 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0x222 - Init COMPLETE
n0:100:200 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 4 total 9.60 (kernels 0.20, alloc 0.10, bootstrap 8.90, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
n0:101:201 [1] NCCL INFO ncclCommInitRank comm 0x91222 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0x222 - Init START
n0:101:201 [1] NCCL INFO ncclCommInitRank comm 0x91222 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0x222 - Init COMPLETE
n0:101:201 [1] NCCL INFO Init timings - ncclCommInitRank: rank 1 nranks 4 total 9.60 (kernels 0.20, alloc 0.10, bootstrap 8.90, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
n0:102:202 [2] NCCL INFO ncclCommInitRank comm 0x92222 rank 2 nranks 4 cudaDev 2 nvmlDev 2 busId 3000 commId 0x222 - Init START
n0:102:202 [2] NCCL INFO ncclCommInitRank comm 0x92222 rank 2 nranks 4 cudaDev 2 nvmlDev 2 busId 3000 commId 0x222 - Init COMPLETE
n0:102:202 [2] NCCL INFO Init timings - ncclCommInitRank: rank 2 nranks 4 total 9.60 (kernels 9.00, alloc 0.10, bootstrap 0.10, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
n0:103:203 [3] NCCL INFO ncclCommInitRank comm 0x93222 rank 3 nranks 4 cudaDev 3 nvmlDev 3 busId 4000 commId 0x222 - Init START
n0:103:203 [3] NCCL INFO ncclCommInitRank comm 0x93222 rank 3 nranks 4 cudaDev 3 nvmlDev 3 busId 4000 commId 0x222 - Init COMPLETE
n0:103:203 [3] NCCL INFO Init timings - ncclCommInitRank: rank 3 nranks 4 total 9.60 (kernels 0.20, alloc 0.10, bootstrap 8.90, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
@two
n0:100:200 [0] NCCL INFO ncclCommInitRank comm 0x90abc rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init START
n0:100:200 [0] NCCL INFO ncclCommInitRank comm 0x90abc rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init COMPLETE
n0:100:200 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 4 total 13.30 (kernels 0.20, alloc 0.10, bootstrap 12.60, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
n0:101:201 [1] NCCL INFO ncclCommInitRank comm 0x91abc rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xabc - Init START
n0:101:201 [1] NCCL INFO ncclCommInitRank comm 0x91abc rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xabc - Init COMPLETE
n0:101:201 [1] NCCL INFO Init timings - ncclCommInitRank: rank 1 nranks 4 total 1.80 (kernels 0.20, alloc 0.10, bootstrap 1.10, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
n0:102:202 [2] NCCL INFO ncclCommInitRank comm 0x92abc rank 2 nranks 4 cudaDev 2 nvmlDev 2 busId 3000 commId 0xabc - Init START
n0:102:202 [2] NCCL INFO ncclCommInitRank comm 0x92abc rank 2 nranks 4 cudaDev 2 nvmlDev 2 busId 3000 commId 0xabc - Init COMPLETE
n0:102:202 [2] NCCL INFO Init timings - ncclCommInitRank: rank 2 nranks 4 total 13.30 (kernels 0.20, alloc 0.10, bootstrap 12.60, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
n0:103:203 [3] NCCL INFO ncclCommInitRank comm 0x93abc rank 3 nranks 4 cudaDev 3 nvmlDev 3 busId 4000 commId 0xabc - Init START
n0:103:203 [3] NCCL INFO ncclCommInitRank comm 0x93abc rank 3 nranks 4 cudaDev 3 nvmlDev 3 busId 4000 commId 0xabc - Init COMPLETE
n0:103:203 [3] NCCL INFO Init timings - ncclCommInitRank: rank 3 nranks 4 total 3.80 (kernels 0.20, alloc 0.10, bootstrap 3.10, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
@host
n0:100:200 [0] NCCL INFO ncclCommInitRank comm 0x90abc rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init START
n0:100:200 [0] NCCL INFO ncclCommInitRank comm 0x90abc rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init COMPLETE
n0:100:200 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 4 total 20.80 (kernels 0.20, alloc 0.10, bootstrap 20.10, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
n0:101:201 [1] NCCL INFO ncclCommInitRank comm 0x91abc rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xabc - Init START
n0:101:201 [1] NCCL INFO ncclCommInitRank comm 0x91abc rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xabc - Init COMPLETE
n0:101:201 [1] NCCL INFO Init timings - ncclCommInitRank: rank 1 nranks 4 total 20.80 (kernels 0.20, alloc 0.10, bootstrap 20.10, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
n1:102:202 [0] NCCL INFO ncclCommInitRank comm 0x92abc rank 2 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init START
n1:102:202 [0] NCCL INFO ncclCommInitRank comm 0x92abc rank 2 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init COMPLETE
n1:102:202 [0] NCCL INFO Init timings - ncclCommInitRank: rank 2 nranks 4 total 0.80 (kernels 0.20, alloc 0.10, bootstrap 0.10, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
n1:103:203 [1] NCCL INFO ncclCommInitRank comm 0x93abc rank 3 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xabc - Init START
n1:103:203 [1] NCCL INFO ncclCommInitRank comm 0x93abc rank 3 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xabc - Init COMPLETE
n1:103:203 [1] NCCL INFO Init timings - ncclCommInitRank: rank 3 nranks 4 total 0.80 (kernels 0.20, alloc 0.10, bootstrap 0.10, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
@again
n0:100:200 [0] NCCL INFO ncclCommInitRank comm 0x90abc rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init START
n0:101:201 [1] NCCL INFO ncclCommInitRank comm 0x91abc rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2000 commId 0xabc - Init START
n0:500:600 [0] NCCL INFO ncclCommInitRank comm 0x90def rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0xdef - Init START
n0:500:600 [0] NCCL INFO ncclCommInitRank comm 0x90def rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0xdef - Init COMPLETE
n0:500:600 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 2 total 9.60 (kernels 0.20, alloc 0.10, bootstrap 8.90, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
n0:501:601 [1] NCCL INFO ncclCommInitRank comm 0x91def rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2000 commId 0xdef - Init START
n0:501:601 [1] NCCL INFO ncclCommInitRank comm 0x91def rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2000 commId 0xdef - Init COMPLETE
n0:501:601 [1] NCCL INFO Init timings - ncclCommInitRank: rank 1 nranks 2 total 9.60 (kernels 9.00, alloc 0.10, bootstrap 0.10, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
@xla
I0821 10:00:00.123456  900 nccl_api.cc:100] NCCL INFO ncclCommInitRank comm 0x90abc rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init START
I0821 10:00:00.123456  900 nccl_api.cc:100] NCCL INFO ncclCommInitRank comm 0x90abc rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init COMPLETE
I0821 10:00:00.123456  900 nccl_api.cc:100] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 2 total 3.80 (kernels 0.20, alloc 0.10, bootstrap 3.10, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
I0821 10:00:01.123456  901 nccl_api.cc:100] NCCL INFO ncclCommInitRank comm 0x91abc rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2000 commId 0xabc - Init START
I0821 10:00:01.123456  901 nccl_api.cc:100] NCCL INFO ncclCommInitRank comm 0x91abc rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2000 commId 0xabc - Init COMPLETE
I0821 10:00:01.123456  901 nccl_api.cc:100] NCCL INFO Init timings - ncclCommInitRank: rank 1 nranks 2 total 0.80 (kernels 0.20, alloc 0.10, bootstrap 0.10, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)
@collected
{"ts":"2026-08-21T10:00:00Z","log":"n0:100:200 [0] NCCL INFO ncclCommInitRank comm 0x90abc rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init START"}
{"ts":"2026-08-21T10:00:00Z","log":"n0:100:200 [0] NCCL INFO ncclCommInitRank comm 0x90abc rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init COMPLETE"}
{"ts":"2026-08-21T10:00:00Z","log":"n0:100:200 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 2 total 3.80 (kernels 0.20, alloc 0.10, bootstrap 3.10, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)"}
{"ts":"2026-08-21T10:00:00Z","log":"n0:101:201 [1] NCCL INFO ncclCommInitRank comm 0x91abc rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2000 commId 0xabc - Init START"}
{"ts":"2026-08-21T10:00:00Z","log":"n0:101:201 [1] NCCL INFO ncclCommInitRank comm 0x91abc rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2000 commId 0xabc - Init COMPLETE"}
{"ts":"2026-08-21T10:00:00Z","log":"n0:101:201 [1] NCCL INFO Init timings - ncclCommInitRank: rank 1 nranks 2 total 0.80 (kernels 0.20, alloc 0.10, bootstrap 0.10, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.00)"}
--- awk '/^@/ { f = substr($0, 2); next } f { print > f }' job; ls | grep -v -e '^job$' -e '^data$' | tr '\n' ' '
again collected host several two xla
--- ncclscope startup several | sed '/^Phases/,$d'; ncclscope startup --json several | jq -c '.together.causes[:2][]'
Making 3 communicators one after the other took 23.70 s on rank 0 (process 100 on n0). 12.50 s of it was a wait for rank
3, which began late (in 1 of them). 9.40 s of it was loading NCCL's kernels onto the GPU on rank 2 (in 1 of them). The
slowest one (4 ranks) took 13.30 s.

What to do
  See what rank 3 did before the call of NCCL: it loaded data or a model, compiled, or its node started late. `py-spy
    dump --pid PID` shows it while the others wait. NCCL's library may hold no code for this GPU, and the driver then
    compiles it at each start. Use an NCCL that was built for this GPU (`cuobjdump --list-elf libnccl.so.2` lists what
    it holds), keep CUDA_MODULE_LOADING=LAZY, which is the default, and keep the compiled code (CUDA_CACHE_PATH on a
    disk that stays, CUDA_CACHE_MAXSIZE large enough).

{"phase":"late","time_s":12.500000000000002,"communicators":1,"rank":3,"rank_s":12.5}
{"phase":"kernels","time_s":9.4,"communicators":1,"rank":2,"rank_s":9}
--- ncclscope startup two | sed '/^Phases/,$d'; ncclscope startup host | sed '/^Phases/,$d'
Making the slowest communicator (4 ranks) took 13.30 s, because ranks 1, 3 on n0 began 9.50 to 11.50 s after the first
rank. The others waited for them in bootstrap. The init of rank 1 took 1.80 s.

What to do
  See what ranks 1, 3 did before the call of NCCL: they loaded data or a model, compiled, or their node started late.
    `py-spy dump --pid PID` shows it while the others wait.

Making the slowest communicator (4 ranks) took 20.80 s, because both ranks of n1 (2-3) began 20.00 s after the first
rank. The others waited for them in bootstrap. The init of rank 2 took 0.80 s.

What to do
  See what both ranks of n1 (2-3) did before the call of NCCL: they loaded data or a model, compiled, or their node
    started late. `py-spy dump --pid PID` shows it while the others wait.
--- ncclscope startup again | sed '/^$/,$d'; ncclscope startup again --attempt 1 | sed '/^$/,$d'; ncclscope startup again --attempt 7
Making the slowest communicator (2 ranks) took 9.60 s. The largest part of it was loading NCCL's kernels onto the GPU:
9.00 s on rank 1.
All 2 ranks began to make the communicator, and none said that it was ready.
2| ncclscope: note: this job was started 2 times, and this is attempt 2 only; `--attempt N` reads another one
2| ncclscope: note: this job was started 2 times, and this is attempt 1 only; `--attempt N` reads another one
2| error: `again`: expected an attempt from 1 to 2, found 7
2|   hint: leave out `--attempt` to read the last attempt
[exit 2]
--- for log in xla collected; do ncclscope startup $log | sed '/^$/,$d'; done
Making the slowest communicator (2 ranks) took 3.80 s, because rank 1 began 3.00 s after the first rank. The others
waited for it in bootstrap. Its own init took 0.80 s.
Making the slowest communicator (2 ranks) took 3.80 s, because rank 1 on n0 began 3.00 s after the first rank. The
others waited for it in bootstrap. Its own init took 0.80 s.
--- for end in '<br>' ' |'; do sed "s/$/$end/" two | cat -n > marked; ncclscope startup marked | sed '/^$/,$d'; done; gzip < two > two.gz; ncclscope startup two.gz; zcat two.gz | ncclscope startup - | sed '/^$/,$d'
Making the slowest communicator (4 ranks) took 13.30 s, because ranks 1, 3 on n0 began 9.50 to 11.50 s after the first
rank. The others waited for them in bootstrap. The init of rank 1 took 1.80 s.
Making the slowest communicator (4 ranks) took 13.30 s, because ranks 1, 3 on n0 began 9.50 to 11.50 s after the first
rank. The others waited for them in bootstrap. The init of rank 1 took 1.80 s.
Making the slowest communicator (4 ranks) took 13.30 s, because ranks 1, 3 on n0 began 9.50 to 11.50 s after the first
rank. The others waited for them in bootstrap. The init of rank 1 took 1.80 s.
2| error: `two.gz` is compressed
2|   hint: `zcat two.gz | ncclscope startup -` reads it; `paths` and `memory` take `-`, too

# Pieces of logs as people paste them: without lines about the init, with hosts left out, cut in the middle of a
# line when the processes were killed. Rebuilt from vllm-project/vllm#19204, #8978; sgl-project/sglang#3398;
# NVIDIA/nccl#1817, #952, #2363; argonne-lcf/alcf-nccl-tests (resnet50 on two hosts); nccl-tests without MPI on two
# hosts (ssbandjl/nccl-tests); 8 GPUs of one process with P2P off (adai995995/nccl_cc).
# Each file begins with a line `@NAME`.
@piece
n0:10:20 [3] NCCL INFO Channel 00 : 3[3] -> 4[4] via SHM/direct/direct
n0:10:21 [1] NCCL INFO Channel 00 : 1[1] -> 2[2] via SHM/direct/direct
n0:10:22 [2] NCCL INFO Channel 00/1 : 2[2] -> 3[3] via P2P/direct pointer
@leftout
<host>:920:1145 [1] NCCL INFO Channel 04/0 : 9[1] -> 10[2] via P2P/IPC/read
<host>:919:1150 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [receive] via NET/Socket/0
<host>:922:1158 [3] NCCL INFO transport/net.cc:592 -> 2
@early
n0:50:60 [0] NCCL INFO NET/IB : No device found.
n0:50:60 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
n0:50:60 [0] NCCL INFO Using network Socket
n0:50:60 [0] NCCL INFO ncclCommInitRank comm 0x7000 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0xbad - Init START

n0:50:60 [0] ras/client_support.cc:160 NCCL WARN Call to bind failed: Address already in use

n0:50:60 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer n1<59004>
@memory
b:904:984 [0] NCCL INFO ncclCommInitRank comm 0x7000 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0xbad - Init START
b:905:985 [1] NCCL INFO ncclCommInitRank comm 0x7001 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2000 commId 0xbad - Init START

[2026-08-21 10:00:07] b:905:985 [1] include/alloc.h:320 (ncclCuMemAlloc) NCCL WARN Cuda failure 2 'out of memory'
b:905:985 [1] NCCL INFO transport/net.cc:561 -> 1
@cut
n0:10:20 [0] NCCL INFO ncclCommInitRank comm 0x7000 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xbad - Init START
n0:11:21 [1] NCCL INFO ncclCommInitRank comm 0x7001 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xbad - Init START
n0:12:22 [2] NCCL INFO ncclCommInitRank comm 0x7002 rank 2 nranks 4 cudaDev 2 nvmlDev 2 busId 3000 commId 0xbad - Init START
n0:11:21 [1] NCCL INFO Channel 00/0 : 1[1] -> 2[2] vin0:10:20 [0] NCCL INFO Connected all rings
n0:12:22 [2] NCL INFO Connected all trees
n0:10:20 [0] NCCL INFO ncclCommInitRank comm 0x7000 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xbad - Init COMPLETE
@single
n0:10:20 [0] NCCL INFO Using network IB
n0:10:20 [0] NCCL INFO ncclCommInitAll comm 0x5e rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 8000 commId 0xc2 - Init START
n0:10:20 [0] NCCL INFO ncclCommInitAll comm 0x5e rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 8000 commId 0xc2 - Init COMPLETE
n0:10:20 [0] NCCL INFO Init timings - ncclCommInitAll: rank 0 nranks 1 total 0.32 (kernels 0.23, alloc 0.04, bootstrap 0.00, allgathers 0.00, topo 0.01, graphs 0.00, connections 0.03, rest 0.01)
n1:11:21 [0] NCCL INFO Using network IB
n1:11:21 [0] NCCL INFO ncclCommInitAll comm 0x5f rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 8000 commId 0x8b - Init START
n1:11:21 [0] NCCL INFO ncclCommInitAll comm 0x5f rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 8000 commId 0x8b - Init COMPLETE
n1:11:21 [0] NCCL INFO Init timings - ncclCommInitAll: rank 0 nranks 1 total 0.33 (kernels 0.22, alloc 0.05, bootstrap 0.00, allgathers 0.00, topo 0.01, graphs 0.00, connections 0.05, rest 0.00)
@nvls
n0:10:20 [0] NCCL INFO ncclCommInitAll comm 0x5e rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 8000 commId 0xc2 - Init START
n0:10:21 [1] NCCL INFO ncclCommInitAll comm 0x5f rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 9000 commId 0xc2 - Init START
n0:10:30 [0] NCCL INFO NVLS comm 0x5e headRank 0 nHeads 2 nvlsRanks 2 buffSize 1048576 nvlsPerRankSize 33554432 nvlsTotalSize 67108864
n0:10:31 [1] NCCL INFO NVLS comm 0x5f headRank 1 nHeads 2 nvlsRanks 2 buffSize 1048576 nvlsPerRankSize 33554432 nvlsTotalSize 67108864
@nearer
n0:10:20 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB lo:127.0.0.1<0>
n0:10:20 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1
n0:10:20 [0] NCCL INFO NET/IB : Made virtual device [2] name=mlx5_0+mlx5_1 speed=200000 ndevs=2
n0:10:20 [0] NCCL INFO ncclCommInitAll comm 0x5e rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 8000 commId 0xc2 - Init START
n0:10:21 [1] NCCL INFO ncclCommInitAll comm 0x5f rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 9000 commId 0xc2 - Init START
n0:10:21 [1] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [receive] via NET/IB/2/GDRDMA
--- awk '/^@/ { f = substr($0, 2); next } f { print > f }' job; ls | grep -v -e '^job$' -e '^data$' | tr '\n' ' '
cut early leftout memory nearer nvls piece single
--- for log in piece leftout early nvls nearer; do ncclscope paths $log | sed '/^$/,$d'; done
Within hosts, NCCL uses the host's memory (SHM) for 2 of 3 pairs; no line says why there is no P2P.
Within hosts, NCCL uses the GPUs' own links (P2P). Between hosts or within one, NCCL uses TCP sockets (card 0), without
GPU Direct RDMA; no line says why there is no faster network.
Between hosts, NCCL chose TCP sockets (eth0), because NCCL sees no InfiniBand or RoCE device. No line of this output is
about a connection between ranks.
The NVLink switch can reduce and send to all GPUs (NVLS). NCCL names no faster way on these hosts.
Within hosts, NCCL uses IB (mlx5_0+mlx5_1) with GPU Direct RDMA, because NCCL_P2P_DISABLE=1 is set.
--- for log in early memory cut single; do ncclscope startup $log | sed '/^Phases/,$d; /^Ranks of/,/^$/d'; done
Rank 0 (process 50 on n0, GPU 0) lost the connection to another process: `socketProgress: Connection closed by remote
peer n1<59004>` (misc/socket.cc:50), and did not end its init.

What to do
  See what the process on n1 said last: it ended or failed before, and this follows from it.
  Ranks that began and did not end: 0. Ranks without a line about it: 1.

Warnings of NCCL (2 lines; in their order)
  n0:50 Call to bind failed: Address already in use
  n0:50 socketProgress: Connection closed by remote peer n1<59004>
Rank 1 (process 905 on b, GPU 1) failed: `Cuda failure 2 'out of memory'` (include/alloc.h:320, for the buffers of the
network, called from transport/net.cc:561), and did not end its init.

What to do
  Leave NCCL more of the GPU's memory: start it before the program takes the rest, or give the program's own pool less.
    `ncclscope memory FILE` says what each communicator takes, if NCCL_DEBUG_SUBSYS has ALLOC.
  Ranks that began and did not end: 0-1.

Warnings of NCCL (1 lines; in their order)
  b:905 Cuda failure 2 'out of memory'
Rank 0 is ready, of a communicator of 4 ranks. There is no line about rank 3. The output of ranks 1, 2 ends in the
middle of a line, so what came behind it is lost. The phases of start-up are not known: NCCL prints them from 2.22 on
(`Init timings`), and this output has none.
  Ranks whose output ends in the middle of a line: 1-2. Ranks without a line about it: 3.

Each of 2 processes made a communicator of its own with one rank, so they do not communicate. Making the slowest
communicator (1 rank) took 0.33 s. The largest part of it was loading NCCL's kernels onto the GPU: 0.22 s on rank 0.
--- ncclscope paths single; grep -v network single > none; ncclscope paths none
Between hosts, NCCL chose IB. 2 communicators have one rank each, which has nothing to be connected to. No line of this
output is about a connection between ranks.
2 communicators have one rank each, which has nothing to be connected to. No line of this output is about a connection
between ranks.

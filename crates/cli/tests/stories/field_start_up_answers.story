# What public reports of slow or failed starts show, rebuilt: the first sentence is the answer.
# Sources: vllm-project/vllm#15769, #58290; ray-project/ray#59778; NVIDIA/nccl#534, #1156, #1716, #2363, #582,
# #1485; NVIDIA/nccl-tests#273.
# Each file begins with a line `@NAME`.
@ray
(RayWorkerWrapper pid=533, ip=10.0.0.0) serve-0:533:533 [0] NCCL INFO ncclCommInitRank comm 0x2fa81fa0 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 10000 commId 0xaab4a40f4078b738 - Init START
(RayWorkerWrapper pid=533, ip=10.0.0.0) serve-0:533:533 [0] NCCL INFO ncclCommInitRank comm 0x2fa81fa0 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 10000 commId 0xaab4a40f4078b738 - Init COMPLETE
(RayWorkerWrapper pid=533, ip=10.0.0.0) serve-0:533:533 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 8 total 43.52 (kernels 0.30, alloc 0.02, bootstrap 41.20, allgathers 0.40, topo 0.90, graphs 0.10, connections 0.60, rest 0.00)
(RayWorkerWrapper pid=534, ip=10.0.0.0) serve-0:534:534 [1] NCCL INFO ncclCommInitRank comm 0x2fa81fe0 rank 1 nranks 8 cudaDev 1 nvmlDev 1 busId 20000 commId 0xaab4a40f4078b738 - Init START
(RayWorkerWrapper pid=534, ip=10.0.0.0) serve-0:534:534 [1] NCCL INFO ncclCommInitRank comm 0x2fa81fe0 rank 1 nranks 8 cudaDev 1 nvmlDev 1 busId 20000 commId 0xaab4a40f4078b738 - Init COMPLETE
(RayWorkerWrapper pid=534, ip=10.0.0.0) serve-0:534:534 [1] NCCL INFO Init timings - ncclCommInitRank: rank 1 nranks 8 total 43.52 (kernels 0.30, alloc 0.02, bootstrap 41.20, allgathers 0.40, topo 0.90, graphs 0.10, connections 0.60, rest 0.00)
(RayWorkerWrapper pid=535, ip=10.0.0.0) serve-0:535:535 [2] NCCL INFO ncclCommInitRank comm 0x2fa82020 rank 2 nranks 8 cudaDev 2 nvmlDev 2 busId 30000 commId 0xaab4a40f4078b738 - Init START
(RayWorkerWrapper pid=535, ip=10.0.0.0) serve-0:535:535 [2] NCCL INFO ncclCommInitRank comm 0x2fa82020 rank 2 nranks 8 cudaDev 2 nvmlDev 2 busId 30000 commId 0xaab4a40f4078b738 - Init COMPLETE
(RayWorkerWrapper pid=535, ip=10.0.0.0) serve-0:535:535 [2] NCCL INFO Init timings - ncclCommInitRank: rank 2 nranks 8 total 43.52 (kernels 0.30, alloc 0.02, bootstrap 41.20, allgathers 0.40, topo 0.90, graphs 0.10, connections 0.60, rest 0.00)
(RayWorkerWrapper pid=536, ip=10.0.0.0) serve-0:536:536 [3] NCCL INFO ncclCommInitRank comm 0x2fa82060 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 40000 commId 0xaab4a40f4078b738 - Init START
(RayWorkerWrapper pid=536, ip=10.0.0.0) serve-0:536:536 [3] NCCL INFO ncclCommInitRank comm 0x2fa82060 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 40000 commId 0xaab4a40f4078b738 - Init COMPLETE
(RayWorkerWrapper pid=536, ip=10.0.0.0) serve-0:536:536 [3] NCCL INFO Init timings - ncclCommInitRank: rank 3 nranks 8 total 43.52 (kernels 0.30, alloc 0.02, bootstrap 41.20, allgathers 0.40, topo 0.90, graphs 0.10, connections 0.60, rest 0.00)
(RayWorkerWrapper pid=537, ip=10.0.0.1) serve-1:537:537 [0] NCCL INFO ncclCommInitRank comm 0x2fa820a0 rank 4 nranks 8 cudaDev 0 nvmlDev 0 busId 50000 commId 0xaab4a40f4078b738 - Init START
(RayWorkerWrapper pid=537, ip=10.0.0.1) serve-1:537:537 [0] NCCL INFO ncclCommInitRank comm 0x2fa820a0 rank 4 nranks 8 cudaDev 0 nvmlDev 0 busId 50000 commId 0xaab4a40f4078b738 - Init COMPLETE
(RayWorkerWrapper pid=537, ip=10.0.0.1) serve-1:537:537 [0] NCCL INFO Init timings - ncclCommInitRank: rank 4 nranks 8 total 43.52 (kernels 0.30, alloc 0.02, bootstrap 41.20, allgathers 0.40, topo 0.90, graphs 0.10, connections 0.60, rest 0.00)
(RayWorkerWrapper pid=538, ip=10.0.0.1) serve-1:538:538 [1] NCCL INFO ncclCommInitRank comm 0x2fa820e0 rank 5 nranks 8 cudaDev 1 nvmlDev 1 busId 60000 commId 0xaab4a40f4078b738 - Init START
(RayWorkerWrapper pid=538, ip=10.0.0.1) serve-1:538:538 [1] NCCL INFO ncclCommInitRank comm 0x2fa820e0 rank 5 nranks 8 cudaDev 1 nvmlDev 1 busId 60000 commId 0xaab4a40f4078b738 - Init COMPLETE
(RayWorkerWrapper pid=538, ip=10.0.0.1) serve-1:538:538 [1] NCCL INFO Init timings - ncclCommInitRank: rank 5 nranks 8 total 2.42 (kernels 0.30, alloc 0.02, bootstrap 0.10, allgathers 0.40, topo 0.90, graphs 0.10, connections 0.60, rest 0.00)
(RayWorkerWrapper pid=539, ip=10.0.0.1) serve-1:539:539 [2] NCCL INFO ncclCommInitRank comm 0x2fa82120 rank 6 nranks 8 cudaDev 2 nvmlDev 2 busId 70000 commId 0xaab4a40f4078b738 - Init START
(RayWorkerWrapper pid=539, ip=10.0.0.1) serve-1:539:539 [2] NCCL INFO ncclCommInitRank comm 0x2fa82120 rank 6 nranks 8 cudaDev 2 nvmlDev 2 busId 70000 commId 0xaab4a40f4078b738 - Init COMPLETE
(RayWorkerWrapper pid=539, ip=10.0.0.1) serve-1:539:539 [2] NCCL INFO Init timings - ncclCommInitRank: rank 6 nranks 8 total 43.52 (kernels 0.30, alloc 0.02, bootstrap 41.20, allgathers 0.40, topo 0.90, graphs 0.10, connections 0.60, rest 0.00)
(RayWorkerWrapper pid=540, ip=10.0.0.1) serve-1:540:540 [3] NCCL INFO ncclCommInitRank comm 0x2fa82160 rank 7 nranks 8 cudaDev 3 nvmlDev 3 busId 80000 commId 0xaab4a40f4078b738 - Init START
(RayWorkerWrapper pid=540, ip=10.0.0.1) serve-1:540:540 [3] NCCL INFO ncclCommInitRank comm 0x2fa82160 rank 7 nranks 8 cudaDev 3 nvmlDev 3 busId 80000 commId 0xaab4a40f4078b738 - Init COMPLETE
(RayWorkerWrapper pid=540, ip=10.0.0.1) serve-1:540:540 [3] NCCL INFO Init timings - ncclCommInitRank: rank 7 nranks 8 total 43.52 (kernels 0.30, alloc 0.02, bootstrap 41.20, allgathers 0.40, topo 0.90, graphs 0.10, connections 0.60, rest 0.00)
@half
n0:1000:1050 [0] NCCL INFO ncclCommInitRank comm 0x55550000 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 10000 commId 0x11aa22bb33cc44dd - Init START
n0:1001:1051 [1] NCCL INFO ncclCommInitRank comm 0x55550001 rank 1 nranks 8 cudaDev 1 nvmlDev 1 busId 20000 commId 0x11aa22bb33cc44dd - Init START
n0:1002:1052 [2] NCCL INFO ncclCommInitRank comm 0x55550002 rank 2 nranks 8 cudaDev 2 nvmlDev 2 busId 30000 commId 0x11aa22bb33cc44dd - Init START
n0:1003:1053 [3] NCCL INFO ncclCommInitRank comm 0x55550003 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 40000 commId 0x11aa22bb33cc44dd - Init START
n1:1004:1054 [0] NCCL INFO ncclCommInitRank comm 0x55550004 rank 4 nranks 8 cudaDev 0 nvmlDev 0 busId 10000 commId 0x11aa22bb33cc44dd - Init START
n1:1005:1055 [1] NCCL INFO ncclCommInitRank comm 0x55550005 rank 5 nranks 8 cudaDev 1 nvmlDev 1 busId 20000 commId 0x11aa22bb33cc44dd - Init START
n1:1006:1056 [2] NCCL INFO ncclCommInitRank comm 0x55550006 rank 6 nranks 8 cudaDev 2 nvmlDev 2 busId 30000 commId 0x11aa22bb33cc44dd - Init START
n1:1007:1057 [3] NCCL INFO ncclCommInitRank comm 0x55550007 rank 7 nranks 8 cudaDev 3 nvmlDev 3 busId 40000 commId 0x11aa22bb33cc44dd - Init START
n0:1000:1050 [0] NCCL INFO ncclCommInitRank comm 0x55550000 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 10000 commId 0x11aa22bb33cc44dd - Init COMPLETE
n0:1000:1050 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 8 total 1.62 (kernels 0.40, alloc 0.02, bootstrap 0.30, allgathers 0.10, topo 0.50, graphs 0.10, connections 0.20, rest 0.00)
n0:1002:1052 [2] NCCL INFO ncclCommInitRank comm 0x55550002 rank 2 nranks 8 cudaDev 2 nvmlDev 2 busId 30000 commId 0x11aa22bb33cc44dd - Init COMPLETE
n0:1002:1052 [2] NCCL INFO Init timings - ncclCommInitRank: rank 2 nranks 8 total 1.62 (kernels 0.40, alloc 0.02, bootstrap 0.30, allgathers 0.10, topo 0.50, graphs 0.10, connections 0.20, rest 0.00)
n1:1004:1054 [0] NCCL INFO ncclCommInitRank comm 0x55550004 rank 4 nranks 8 cudaDev 0 nvmlDev 0 busId 10000 commId 0x11aa22bb33cc44dd - Init COMPLETE
n1:1004:1054 [0] NCCL INFO Init timings - ncclCommInitRank: rank 4 nranks 8 total 1.62 (kernels 0.40, alloc 0.02, bootstrap 0.30, allgathers 0.10, topo 0.50, graphs 0.10, connections 0.20, rest 0.00)
n1:1006:1056 [2] NCCL INFO ncclCommInitRank comm 0x55550006 rank 6 nranks 8 cudaDev 2 nvmlDev 2 busId 30000 commId 0x11aa22bb33cc44dd - Init COMPLETE
n1:1006:1056 [2] NCCL INFO Init timings - ncclCommInitRank: rank 6 nranks 8 total 1.62 (kernels 0.40, alloc 0.02, bootstrap 0.30, allgathers 0.10, topo 0.50, graphs 0.10, connections 0.20, rest 0.00)
@threads
n12:7622:7636 [0] NCCL INFO ncclCommInitRank comm 0x55555af62920 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 18000 commId 0xb1a317b2c0f1498c - Init START
n12:7622:7637 [1] NCCL INFO ncclCommInitRank comm 0x55555af63920 rank 1 nranks 8 cudaDev 1 nvmlDev 1 busId 19000 commId 0xb1a317b2c0f1498c - Init START
n12:7622:7638 [2] NCCL INFO ncclCommInitRank comm 0x55555af64920 rank 2 nranks 8 cudaDev 2 nvmlDev 2 busId 1a000 commId 0xb1a317b2c0f1498c - Init START
n12:7622:7639 [3] NCCL INFO ncclCommInitRank comm 0x55555af65920 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 1b000 commId 0xb1a317b2c0f1498c - Init START
n12:7622:7640 [4] NCCL INFO ncclCommInitRank comm 0x55555af66920 rank 4 nranks 8 cudaDev 4 nvmlDev 4 busId 1c000 commId 0xb1a317b2c0f1498c - Init START
n12:7622:7641 [5] NCCL INFO ncclCommInitRank comm 0x55555af67920 rank 5 nranks 8 cudaDev 5 nvmlDev 5 busId 1d000 commId 0xb1a317b2c0f1498c - Init START
n12:7622:7642 [6] NCCL INFO ncclCommInitRank comm 0x55555af68920 rank 6 nranks 8 cudaDev 6 nvmlDev 6 busId 1e000 commId 0xb1a317b2c0f1498c - Init START
n12:7622:7643 [7] NCCL INFO ncclCommInitRank comm 0x55555af69920 rank 7 nranks 8 cudaDev 7 nvmlDev 7 busId 1f000 commId 0xb1a317b2c0f1498c - Init START
n12:7622:7636 [0] NCCL INFO ncclCommInitRank comm 0x55555af62920 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 18000 commId 0xb1a317b2c0f1498c - Init COMPLETE
n12:7622:7636 [0] NCCL INFO Init timings: rank 0 nranks 8 total 0.66 (kernels 0.42, bootstrap 0.07, allgathers 0.03, topo 0.06, graphs 0.05, connections 0.02, rest 0.01)
n12:7622:7637 [1] NCCL INFO ncclCommInitRank comm 0x55555af63920 rank 1 nranks 8 cudaDev 1 nvmlDev 1 busId 19000 commId 0xb1a317b2c0f1498c - Init COMPLETE
n12:7622:7637 [1] NCCL INFO Init timings: rank 1 nranks 8 total 0.66 (kernels 0.42, bootstrap 0.07, allgathers 0.03, topo 0.06, graphs 0.05, connections 0.02, rest 0.01)
n12:7622:7638 [2] NCCL INFO ncclCommInitRank comm 0x55555af64920 rank 2 nranks 8 cudaDev 2 nvmlDev 2 busId 1a000 commId 0xb1a317b2c0f1498c - Init COMPLETE
n12:7622:7638 [2] NCCL INFO Init timings: rank 2 nranks 8 total 0.66 (kernels 0.42, bootstrap 0.07, allgathers 0.03, topo 0.06, graphs 0.05, connections 0.02, rest 0.01)
n12:7622:7639 [3] NCCL INFO ncclCommInitRank comm 0x55555af65920 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 1b000 commId 0xb1a317b2c0f1498c - Init COMPLETE
n12:7622:7639 [3] NCCL INFO Init timings: rank 3 nranks 8 total 0.66 (kernels 0.42, bootstrap 0.07, allgathers 0.03, topo 0.06, graphs 0.05, connections 0.02, rest 0.01)
[Thread 0x7ffe64ffd000 (LWP 7638) exited]
n12:7622:7640 [4] NCCL INFO ncclCommInitRank comm 0x55555af66920 rank 4 nranks 8 cudaDev 4 nvmlDev 4 busId 1c000 commId 0xb1a317b2c0f1498c - Init COMPLETE
n12:7622:7640 [4] NCCL INFO Init timings: rank 4 nranks 8 total 0.66 (kernels 0.42, bootstrap 0.07, allgathers 0.03, topo 0.06, graphs 0.05, connections 0.02, rest 0.01)
n12:7622:7641 [5] NCCL INFO ncclCommInitRank comm 0x55555af67920 rank 5 nranks 8 cudaDev 5 nvmlDev 5 busId 1d000 commId 0xb1a317b2c0f1498c - Init COMPLETE
n12:7622:7641 [5] NCCL INFO Init timings: rank 5 nranks 8 total 0.66 (kernels 0.42, bootstrap 0.07, allgathers 0.03, topo 0.06, graphs 0.05, connections 0.02, rest 0.01)
n12:7622:7642 [6] NCCL INFO ncclCommInitRank comm 0x55555af68920 rank 6 nranks 8 cudaDev 6 nvmlDev 6 busId 1e000 commId 0xb1a317b2c0f1498c - Init COMPLETE
n12:7622:7642 [6] NCCL INFO Init timings: rank 6 nranks 8 total 0.66 (kernels 0.42, bootstrap 0.07, allgathers 0.03, topo 0.06, graphs 0.05, connections 0.02, rest 0.01)
n12:7622:7643 [7] NCCL INFO ncclCommInitRank comm 0x55555af69920 rank 7 nranks 8 cudaDev 7 nvmlDev 7 busId 1f000 commId 0xb1a317b2c0f1498c - Init COMPLETE
n12:7622:7643 [7] NCCL INFO Init timings: rank 7 nranks 8 total 0.66 (kernels 0.42, bootstrap 0.07, allgathers 0.03, topo 0.06, graphs 0.05, connections 0.02, rest 0.01)
@late
[1700000000.000000] n1:410:500 [0] NCCL INFO ncclCommInitRank comm 0x9000 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init START
[1700000000.100000] n1:411:501 [1] NCCL INFO ncclCommInitRank comm 0x9001 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xabc - Init START
[1700000000.200000] n1:413:503 [3] NCCL INFO ncclCommInitRank comm 0x9003 rank 3 nranks 4 cudaDev 3 nvmlDev 3 busId 4000 commId 0xabc - Init START
[1700000029.500000] n1:412:502 [2] NCCL INFO ncclCommInitRank comm 0x9002 rank 2 nranks 4 cudaDev 2 nvmlDev 2 busId 3000 commId 0xabc - Init START
[1700000030.300000] n1:410:500 [0] NCCL INFO ncclCommInitRank comm 0x9000 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init COMPLETE
[1700000030.300000] n1:410:500 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 4 total 30.30 (kernels 0.20, alloc 0.10, bootstrap 29.50, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.20, rest 0.00)
[1700000030.310000] n1:411:501 [1] NCCL INFO ncclCommInitRank comm 0x9001 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xabc - Init COMPLETE
[1700000030.310000] n1:411:501 [1] NCCL INFO Init timings - ncclCommInitRank: rank 1 nranks 4 total 30.20 (kernels 0.20, alloc 0.10, bootstrap 29.40, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.20, rest 0.00)
[1700000030.320000] n1:412:502 [2] NCCL INFO ncclCommInitRank comm 0x9002 rank 2 nranks 4 cudaDev 2 nvmlDev 2 busId 3000 commId 0xabc - Init COMPLETE
[1700000030.320000] n1:412:502 [2] NCCL INFO Init timings - ncclCommInitRank: rank 2 nranks 4 total 0.80 (kernels 0.20, alloc 0.10, bootstrap 0.00, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.20, rest 0.00)
[1700000030.330000] n1:413:503 [3] NCCL INFO ncclCommInitRank comm 0x9003 rank 3 nranks 4 cudaDev 3 nvmlDev 3 busId 4000 commId 0xabc - Init COMPLETE
[1700000030.330000] n1:413:503 [3] NCCL INFO Init timings - ncclCommInitRank: rank 3 nranks 4 total 30.10 (kernels 0.20, alloc 0.10, bootstrap 29.30, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.20, rest 0.00)
@mig
pod-0:40:60 [0] NCCL INFO ncclCommInitRank comm 0x7000 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 59000 commId 0xdead - Init START
pod-0:40:60 [0] NCCL INFO ncclCommInitRank comm 0x7000 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 59000 commId 0xdead - Init COMPLETE
pod-0:40:60 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 4 total 1.10 (kernels 0.20, alloc 0.10, bootstrap 0.30, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.20, rest 0.00)
pod-0:41:61 [0] NCCL INFO ncclCommInitRank comm 0x7001 rank 1 nranks 4 cudaDev 0 nvmlDev 0 busId 59000 commId 0xdead - Init START
pod-0:41:61 [0] NCCL INFO ncclCommInitRank comm 0x7001 rank 1 nranks 4 cudaDev 0 nvmlDev 0 busId 59000 commId 0xdead - Init COMPLETE
pod-0:41:61 [0] NCCL INFO Init timings - ncclCommInitRank: rank 1 nranks 4 total 1.10 (kernels 0.20, alloc 0.10, bootstrap 0.30, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.20, rest 0.00)
pod-0:42:62 [0] NCCL INFO ncclCommInitRank comm 0x7002 rank 2 nranks 4 cudaDev 0 nvmlDev 0 busId 59000 commId 0xdead - Init START
pod-0:42:62 [0] NCCL INFO ncclCommInitRank comm 0x7002 rank 2 nranks 4 cudaDev 0 nvmlDev 0 busId 59000 commId 0xdead - Init COMPLETE
pod-0:42:62 [0] NCCL INFO Init timings - ncclCommInitRank: rank 2 nranks 4 total 1.10 (kernels 0.20, alloc 0.10, bootstrap 0.30, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.20, rest 0.00)
pod-0:43:63 [0] NCCL INFO ncclCommInitRank comm 0x7003 rank 3 nranks 4 cudaDev 0 nvmlDev 0 busId 59000 commId 0xdead - Init START
pod-0:43:63 [0] NCCL INFO ncclCommInitRank comm 0x7003 rank 3 nranks 4 cudaDev 0 nvmlDev 0 busId 59000 commId 0xdead - Init COMPLETE
pod-0:43:63 [0] NCCL INFO Init timings - ncclCommInitRank: rank 3 nranks 4 total 1.10 (kernels 0.20, alloc 0.10, bootstrap 0.30, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.20, rest 0.00)
@memory
b300:900:900 [0] NCCL INFO ncclCommInitRank comm 0x8000 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 1000 commId 0xd00d - Init START
b300:900:980 [0] NCCL INFO transport/net.cc:561 Cuda Alloc Size 536870912 pointer 0x7f0000000000
b300:900:900 [0] NCCL INFO ncclCommInitRank comm 0x8000 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 1000 commId 0xd00d - Init COMPLETE
b300:901:901 [1] NCCL INFO ncclCommInitRank comm 0x8001 rank 0 nranks 1 cudaDev 1 nvmlDev 1 busId 2000 commId 0xd00e - Init START
b300:901:981 [1] NCCL INFO transport/net.cc:561 Cuda Alloc Size 536870912 pointer 0x7f1000000000
b300:901:901 [1] NCCL INFO ncclCommInitRank comm 0x8001 rank 0 nranks 1 cudaDev 1 nvmlDev 1 busId 2000 commId 0xd00e - Init COMPLETE
b300:902:902 [2] NCCL INFO ncclCommInitRank comm 0x8002 rank 0 nranks 1 cudaDev 2 nvmlDev 2 busId 3000 commId 0xd00f - Init START
b300:902:982 [2] NCCL INFO transport/net.cc:561 Cuda Alloc Size 536870912 pointer 0x7f2000000000
b300:902:902 [2] NCCL INFO ncclCommInitRank comm 0x8002 rank 0 nranks 1 cudaDev 2 nvmlDev 2 busId 3000 commId 0xd00f - Init COMPLETE
b300:903:903 [3] NCCL INFO ncclCommInitRank comm 0x8003 rank 0 nranks 1 cudaDev 3 nvmlDev 3 busId 4000 commId 0xd010 - Init START
b300:903:983 [3] NCCL INFO transport/net.cc:561 Cuda Alloc Size 536870912 pointer 0x7f3000000000
b300:903:903 [3] NCCL INFO ncclCommInitRank comm 0x8003 rank 0 nranks 1 cudaDev 3 nvmlDev 3 busId 4000 commId 0xd010 - Init COMPLETE
b300:904:904 [4] NCCL INFO ncclCommInitRank comm 0x8004 rank 0 nranks 1 cudaDev 4 nvmlDev 4 busId 5000 commId 0xd011 - Init START
b300:904:984 [4] NCCL INFO transport/net.cc:561 Cuda Alloc Size 536870912 pointer 0x7f4000000000
b300:904:904 [4] NCCL INFO ncclCommInitRank comm 0x8004 rank 0 nranks 1 cudaDev 4 nvmlDev 4 busId 5000 commId 0xd011 - Init COMPLETE
b300:905:905 [5] NCCL INFO ncclCommInitRank comm 0x8005 rank 0 nranks 1 cudaDev 5 nvmlDev 5 busId 6000 commId 0xd012 - Init START

[2026-08-21 10:00:00] b300:905:985 [5] include/alloc.h:327 NCCL WARN Cuda failure 2 'out of memory'
[2026-08-21 10:00:00] b300:905:985 [5] include/alloc.h:334 NCCL WARN Failed to CUDA calloc 536870912 bytes
b300:905:985 [5] NCCL INFO transport/net.cc:561 -> 1
b300:906:906 [6] NCCL INFO ncclCommInitRank comm 0x8006 rank 0 nranks 1 cudaDev 6 nvmlDev 6 busId 7000 commId 0xd013 - Init START
b300:906:986 [6] NCCL INFO transport/net.cc:561 Cuda Alloc Size 536870912 pointer 0x7f6000000000
b300:906:906 [6] NCCL INFO ncclCommInitRank comm 0x8006 rank 0 nranks 1 cudaDev 6 nvmlDev 6 busId 7000 commId 0xd013 - Init COMPLETE
b300:907:907 [7] NCCL INFO ncclCommInitRank comm 0x8007 rank 0 nranks 1 cudaDev 7 nvmlDev 7 busId 8000 commId 0xd014 - Init START
b300:907:987 [7] NCCL INFO transport/net.cc:561 Cuda Alloc Size 536870912 pointer 0x7f7000000000
b300:907:907 [7] NCCL INFO ncclCommInitRank comm 0x8007 rank 0 nranks 1 cudaDev 7 nvmlDev 7 busId 8000 commId 0xd014 - Init COMPLETE
@never
n0:1000:1050 [0] NCCL INFO ncclCommInitRank comm 0x55550000 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 10000 commId 0x11aa22bb33cc44dd - Init START
n0:1001:1051 [1] NCCL INFO ncclCommInitRank comm 0x55550001 rank 1 nranks 8 cudaDev 1 nvmlDev 1 busId 20000 commId 0x11aa22bb33cc44dd - Init START
n0:1003:1053 [3] NCCL INFO ncclCommInitRank comm 0x55550003 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 40000 commId 0x11aa22bb33cc44dd - Init START
n1:1004:1054 [0] NCCL INFO ncclCommInitRank comm 0x55550004 rank 4 nranks 8 cudaDev 0 nvmlDev 0 busId 10000 commId 0x11aa22bb33cc44dd - Init START
n1:1005:1055 [1] NCCL INFO ncclCommInitRank comm 0x55550005 rank 5 nranks 8 cudaDev 1 nvmlDev 1 busId 20000 commId 0x11aa22bb33cc44dd - Init START
n1:1006:1056 [2] NCCL INFO ncclCommInitRank comm 0x55550006 rank 6 nranks 8 cudaDev 2 nvmlDev 2 busId 30000 commId 0x11aa22bb33cc44dd - Init START
n1:1007:1057 [3] NCCL INFO ncclCommInitRank comm 0x55550007 rank 7 nranks 8 cudaDev 3 nvmlDev 3 busId 40000 commId 0x11aa22bb33cc44dd - Init START
@lost
n0:10:10 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x9 - Init START
n1:11:11 [0] NCCL INFO ncclCommInitRank comm 0x2 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x9 - Init START
n0:10:10 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer n1<44120>
n1:11:11 [0] transport/net_ib.cc:900 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory
n1:11:11 [0] NCCL INFO transport/net.cc:800 -> 2
--- awk '/^@/ { f = substr($0, 2); next } f { print > f }' job; ls | grep -v -e '^job$' -e '^data$' | tr '\n' ' '
half late lost memory mig never ray threads
--- sed 's/(Ray.*)/\x1b[36m&\x1b[0m/' ray > coloured; ncclscope startup coloured | sed '/^$/,$d'
Making the slowest communicator (8 ranks) took 43.52 s, because rank 5 on serve-1 began 41.10 s after the first rank.
The others waited for it in bootstrap. Its own init took 2.42 s.
--- ncclscope startup half | sed '/^$/,$d'
Ranks 1, 3, 5, 7 began to make the communicator of 8 ranks and did not end. Ranks 0, 2, 4, 6 are ready.
--- ncclscope startup threads | sed '/^$/,$d'
Making the slowest communicator (8 ranks) took 0.66 s. The largest part of it was loading NCCL's kernels onto the GPU:
0.42 s on rank 0, and 0.42 s or more on each other.
--- ncclscope startup late | sed '/^$/,$d'; ncclscope startup --json late | jq -c '.communicators[0].late'
Making the slowest communicator (4 ranks) took 30.30 s, because rank 2 on n1 began 29.50 s after the first rank. The
others waited for it in bootstrap. Its own init took 0.80 s.
{"rank":2,"host":"n1","pid":<pid>,"by_s":29.5,"own_s":0.8,"ranks":[2],"least_s":29.5,"hosts":["n1"],"are_whole_hosts":false}
--- ncclscope startup mig | sed -n '1,/^$/p;$p'
Making the slowest communicator (4 ranks) took 1.10 s. The largest part of it was meeting the other ranks (bootstrap):
0.30 s on rank 0, and 0.30 s or more on each other.

All 4 ranks of a communicator are on the GPU with bus number 59000 of pod-0: they share it, as with MIG or MPS.
--- ncclscope startup memory | sed '/^Ranks of/,/^$/d'; ncclscope startup --json memory | jq -c .failure
Process 905 on b300 (GPU 5) failed to allocate 512 MiB of GPU memory (include/alloc.h:334, for the buffers of the
network, called from transport/net.cc:561), and did not end its init. 7 other communicators were made.

What to do
  Leave NCCL more of the GPU's memory: start it before the program takes the rest, or give the program's own pool less.
    `ncclscope memory FILE` says what each communicator takes, if NCCL_DEBUG_SUBSYS has ALLOC.
  Ranks that began and did not end: 0.

Warnings of NCCL (2 lines; in their order)
  b300:905 Cuda failure 2 'out of memory'
  b300:905 Failed to CUDA calloc 536870912 bytes
  … 7 communicators more (--all)
{"rank":0,"nranks":1,"bytes":536870912,"host":"b300","pid":<pid>,"device":5,"source":"include/alloc.h:334","text":"Failed to CUDA calloc 536870912 bytes","through":["transport/net.cc:561"]}
--- ncclscope startup never | sed '/^Ranks of/,/^$/d'
Rank 2 never came to the communicator of 8 ranks: there is no line of it, and ranks 0, 1, 3, 4, 5, 6, 7 began and did
not end.

What to do
  See if rank 2 runs at all and reaches the others: its process may have ended or may still load, the number of ranks
    may be wrong, or its output may be elsewhere.
  Ranks that began and did not end: 0-1,3-7. Ranks without a line about it: 2.
--- ncclscope startup lost | sed '/^Ranks of/,/^$/d'
Rank 1 (process 11 on n1, GPU 0) failed: `Call to ibv_reg_mr failed with error Cannot allocate memory`
(transport/net_ib.cc:900, for the buffers of the network, called from transport/net.cc:800), and did not end its init.

What to do
  A network card can't lock memory or has none left: `ulimit -l` must be unlimited, in a container by `--ulimit
    memlock=-1`. Later warnings may come from ranks that lost this one.
  Ranks that began and did not end: 0-1.

Warnings of NCCL (2 lines; in their order)
  n0:10 socketProgress: Connection closed by remote peer n1<44120>
  n1:11 Call to ibv_reg_mr failed with error Cannot allocate memory
--- phases='total 5.70 (kernels 0.05, alloc 0.05, bootstrap 0.30, allgathers 0.20, topo 4.60, graphs 0.30, connections 0.20, rest 0.00)'; for comm in 0 1 2 3 4 5 6; do for rank in 0 1 2 3; do at="n0:30$rank:30$rank [$rank] NCCL INFO"; of="ncclCommInitRank comm 0x$comm$rank rank $rank nranks 4 cudaDev $rank nvmlDev $rank busId ${rank}000 commId 0xc$comm"; echo "$at $of - Init START"; echo "$at $of - Init COMPLETE"; echo "$at Init timings - ncclCommInitRank: rank $rank nranks 4 $phases"; done; done > seven; ncclscope startup seven | sed '/^$/,$d'; ncclscope startup --json seven | jq -c .together
Making 7 communicators one after the other took 39.90 s on rank 0 (process 300 on n0). 32.20 s of it was finding GPUs,
network cards and links (topo) on rank 0 (in all of them). The slowest one (4 ranks) took 5.70 s.
{"communicators":7,"time_s":39.900000000000006,"rank":0,"host":"n0","pid":<pid>,"phase":"topo","phase_s":32.2,"causes":[{"phase":"topo","time_s":32.2,"communicators":7,"rank":0,"rank_s":32.2},{"phase":"bootstrap","time_s":2.1,"communicators":7,"rank":0,"rank_s":2.1},{"phase":"graphs","time_s":2.1,"communicators":7,"rank":0,"rank_s":2.1},{"phase":"allgathers","time_s":1.4,"communicators":7,"rank":0,"rank_s":1.4},{"phase":"connections","time_s":1.4,"communicators":7,"rank":0,"rank_s":1.4},{"phase":"alloc","time_s":0.35,"communicators":7,"rank":0,"rank_s":0.35},{"phase":"kernels","time_s":0.35,"communicators":7,"rank":0,"rank_s":0.35}]}
--- for rank in $(seq 0 1023); do host=$((rank / 8)); own='total 145.94 (kernels 0.40, alloc 0.10, bootstrap 140.04, allgathers 3.00, topo 0.50, graphs 0.40, connections 1.50, rest 0.00)'; [ $rank = 777 ] && own='total 7.90 (kernels 0.40, alloc 0.10, bootstrap 2.00, allgathers 3.00, topo 0.50, graphs 0.40, connections 1.50, rest 0.00)'; at="n$host:$((1000 + rank)):$((3000 + rank)) [$((rank % 8))] NCCL INFO"; echo "$at ncclCommInitRank comm 0x1$rank rank $rank nranks 1024 cudaDev $((rank % 8)) nvmlDev 0 busId 1000 commId 0xbeef - Init START"; echo "$at Init timings - ncclCommInitRank: rank $rank nranks 1024 $own"; done > large; ncclscope startup large | sed '/^$/,$d'
Making the slowest communicator (1024 ranks) took 145.94 s, because rank 777 on n97 began 138.04 s after the first rank.
The others waited for it in bootstrap. Its own init took 7.90 s.
--- sed 's/:100\([0-7]\):/:200\1:/; s/0x11aa/0x22bb/' half | sed 's/rank \([1357]\) nranks 8 \(.*\)START/&\n&/; ' > again; { cat half; grep START again | sed 's/START/COMPLETE/'; } > two; ncclscope startup two | sed '/^$/,$d'
All 8 ranks are ready. The phases of start-up are not known: NCCL prints them from 2.22 on (`Init timings`), and this
output has none.
2| ncclscope: note: this job was started 2 times, and this is attempt 2 only; `--attempt N` reads another one

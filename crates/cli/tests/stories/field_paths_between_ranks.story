# Which way NCCL goes, and why not the fast one, from NCCL's own lines. Rebuilt from NVIDIA/nccl#29, #417, #595,
# #1537; NVIDIA/nccl-tests#182; Mellanox/nv_peer_memory#56.
# Each file begins with a line `@NAME`.
@sockets
n0:50:50 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so

n0:50:59 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]
n0:50:59 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.0<0>
n0:50:59 [0] NCCL INFO Using network Socket
n0:50:59 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.
n0:50:59 [0] NCCL INFO ncclCommInitRank comm 0x7000 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xbad - Init START
n0:50:59 [0] NCCL INFO ncclCommInitRank comm 0x7000 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xbad - Init COMPLETE
n0:50:59 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 4 total 1.10 (kernels 0.20, alloc 0.10, bootstrap 0.30, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.20, rest 0.00)
n0:50:59 [0] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [receive] via NET/Socket/0
n0:50:59 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct
n0:50:59 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 0
n0:51:51 [1] NCCL INFO NET/Plugin: Could not find: libnccl-net.so

n0:51:60 [1] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]
n0:51:60 [1] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.0<0>
n0:51:60 [1] NCCL INFO Using network Socket
n0:51:60 [1] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.
n0:51:60 [1] NCCL INFO ncclCommInitRank comm 0x7001 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xbad - Init START
n0:51:60 [1] NCCL INFO ncclCommInitRank comm 0x7001 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xbad - Init COMPLETE
n0:51:60 [1] NCCL INFO Init timings - ncclCommInitRank: rank 1 nranks 4 total 1.10 (kernels 0.20, alloc 0.10, bootstrap 0.30, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.20, rest 0.00)
n0:51:60 [1] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [receive] via NET/Socket/0
n0:51:60 [1] NCCL INFO Channel 00 : 1[1] -> 2[0] via SHM/direct/direct
n0:51:60 [1] NCCL INFO Connected all rings, use ring PXN 0 GDR 0
n1:52:52 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so

n1:52:61 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]
n1:52:61 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
n1:52:61 [0] NCCL INFO Using network Socket
n1:52:61 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.
n1:52:61 [0] NCCL INFO ncclCommInitRank comm 0x7002 rank 2 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xbad - Init START
n1:52:61 [0] NCCL INFO ncclCommInitRank comm 0x7002 rank 2 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xbad - Init COMPLETE
n1:52:61 [0] NCCL INFO Init timings - ncclCommInitRank: rank 2 nranks 4 total 1.10 (kernels 0.20, alloc 0.10, bootstrap 0.30, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.20, rest 0.00)
n1:52:61 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [receive] via NET/Socket/0
n1:52:61 [0] NCCL INFO Channel 00 : 2[0] -> 3[1] via SHM/direct/direct
n1:52:61 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 0
n1:53:53 [1] NCCL INFO NET/Plugin: Could not find: libnccl-net.so

n1:53:62 [1] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]
n1:53:62 [1] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
n1:53:62 [1] NCCL INFO Using network Socket
n1:53:62 [1] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.
n1:53:62 [1] NCCL INFO ncclCommInitRank comm 0x7003 rank 3 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xbad - Init START
n1:53:62 [1] NCCL INFO ncclCommInitRank comm 0x7003 rank 3 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xbad - Init COMPLETE
n1:53:62 [1] NCCL INFO Init timings - ncclCommInitRank: rank 3 nranks 4 total 1.10 (kernels 0.20, alloc 0.10, bootstrap 0.30, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.20, rest 0.00)
n1:53:62 [1] NCCL INFO Channel 00/0 : 2[0] -> 3[1] [receive] via NET/Socket/0
n1:53:62 [1] NCCL INFO Channel 00 : 3[1] -> 0[0] via SHM/direct/direct
n1:53:62 [1] NCCL INFO Connected all rings, use ring PXN 0 GDR 0
@good
n0:50:60 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.0<0>
n0:50:60 [0] NCCL INFO ncclCommInitRank comm 0x7000 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xbad - Init START
n0:50:60 [0] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [receive] via NET/IB/0/GDRDMA
n0:50:60 [0] NCCL INFO Channel 01/0 : 3[1] -> 0[0] [receive] via NET/IB/1/GDRDMA
n0:50:60 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
n0:50:60 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM
n0:50:60 [0] NCCL INFO ncclCommInitRank comm 0x7000 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xbad - Init COMPLETE
n0:51:61 [1] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.0<0>
n0:51:61 [1] NCCL INFO ncclCommInitRank comm 0x7001 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xbad - Init START
n0:51:61 [1] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0/GDRDMA
n0:51:61 [1] NCCL INFO Channel 01/0 : 1[1] -> 2[0] [send] via NET/IB/1/GDRDMA
n0:51:61 [1] NCCL INFO ncclCommInitRank comm 0x7001 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xbad - Init COMPLETE
n1:52:62 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>
n1:52:62 [0] NCCL INFO ncclCommInitRank comm 0x7002 rank 2 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xbad - Init START
n1:52:62 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [receive] via NET/IB/0/GDRDMA
n1:52:62 [0] NCCL INFO Channel 01/0 : 1[1] -> 2[0] [receive] via NET/IB/1/GDRDMA
n1:52:62 [0] NCCL INFO Channel 00/0 : 2[0] -> 3[1] via P2P/CUMEM
n1:52:62 [0] NCCL INFO Channel 01/0 : 2[0] -> 3[1] via P2P/CUMEM
n1:52:62 [0] NCCL INFO ncclCommInitRank comm 0x7002 rank 2 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xbad - Init COMPLETE
n1:53:63 [1] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>
n1:53:63 [1] NCCL INFO ncclCommInitRank comm 0x7003 rank 3 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xbad - Init START
n1:53:63 [1] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [send] via NET/IB/0/GDRDMA
n1:53:63 [1] NCCL INFO Channel 01/0 : 3[1] -> 0[0] [send] via NET/IB/1/GDRDMA
n1:53:63 [1] NCCL INFO ncclCommInitRank comm 0x7003 rank 3 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xbad - Init COMPLETE
@nogdr
n0:50:60 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.0<0>
n0:50:60 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'
n0:50:60 [0] NCCL INFO ncclCommInitRank comm 0x7000 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xbad - Init START
n0:50:60 [0] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [receive] via NET/IB/0
n0:50:60 [0] NCCL INFO Channel 01/0 : 3[1] -> 0[0] [receive] via NET/IB/1
n0:50:60 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
n0:50:60 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM
n0:50:60 [0] NCCL INFO ncclCommInitRank comm 0x7000 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xbad - Init COMPLETE
n0:51:61 [1] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.0<0>
n0:51:61 [1] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'
n0:51:61 [1] NCCL INFO ncclCommInitRank comm 0x7001 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xbad - Init START
n0:51:61 [1] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0
n0:51:61 [1] NCCL INFO Channel 01/0 : 1[1] -> 2[0] [send] via NET/IB/1
n0:51:61 [1] NCCL INFO ncclCommInitRank comm 0x7001 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xbad - Init COMPLETE
n1:52:62 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>
n1:52:62 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'
n1:52:62 [0] NCCL INFO ncclCommInitRank comm 0x7002 rank 2 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xbad - Init START
n1:52:62 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [receive] via NET/IB/0
n1:52:62 [0] NCCL INFO Channel 01/0 : 1[1] -> 2[0] [receive] via NET/IB/1
n1:52:62 [0] NCCL INFO Channel 00/0 : 2[0] -> 3[1] via P2P/CUMEM
n1:52:62 [0] NCCL INFO Channel 01/0 : 2[0] -> 3[1] via P2P/CUMEM
n1:52:62 [0] NCCL INFO ncclCommInitRank comm 0x7002 rank 2 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xbad - Init COMPLETE
n1:53:63 [1] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>
n1:53:63 [1] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'
n1:53:63 [1] NCCL INFO ncclCommInitRank comm 0x7003 rank 3 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xbad - Init START
n1:53:63 [1] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [send] via NET/IB/0
n1:53:63 [1] NCCL INFO Channel 01/0 : 3[1] -> 0[0] [send] via NET/IB/1
n1:53:63 [1] NCCL INFO ncclCommInitRank comm 0x7003 rank 3 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xbad - Init COMPLETE
@far
n0:50:60 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.0<0>
n0:50:60 [0] NCCL INFO GPU Direct RDMA Disabled for GPU/0-1000 (rank 0) - NET/0-0 (distance 5 > 4)
n0:50:60 [0] NCCL INFO ncclCommInitRank comm 0x7000 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xbad - Init START
n0:50:60 [0] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [receive] via NET/IB/0
n0:50:60 [0] NCCL INFO Channel 01/0 : 3[1] -> 0[0] [receive] via NET/IB/1
n0:50:60 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
n0:50:60 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM
n0:50:60 [0] NCCL INFO ncclCommInitRank comm 0x7000 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xbad - Init COMPLETE
n0:51:61 [1] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.0<0>
n0:51:61 [1] NCCL INFO GPU Direct RDMA Disabled for GPU/0-1000 (rank 0) - NET/0-0 (distance 5 > 4)
n0:51:61 [1] NCCL INFO ncclCommInitRank comm 0x7001 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xbad - Init START
n0:51:61 [1] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0
n0:51:61 [1] NCCL INFO Channel 01/0 : 1[1] -> 2[0] [send] via NET/IB/1
n0:51:61 [1] NCCL INFO ncclCommInitRank comm 0x7001 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xbad - Init COMPLETE
n1:52:62 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>
n1:52:62 [0] NCCL INFO GPU Direct RDMA Disabled for GPU/0-1000 (rank 0) - NET/0-0 (distance 5 > 4)
n1:52:62 [0] NCCL INFO ncclCommInitRank comm 0x7002 rank 2 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xbad - Init START
n1:52:62 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [receive] via NET/IB/0
n1:52:62 [0] NCCL INFO Channel 01/0 : 1[1] -> 2[0] [receive] via NET/IB/1
n1:52:62 [0] NCCL INFO Channel 00/0 : 2[0] -> 3[1] via P2P/CUMEM
n1:52:62 [0] NCCL INFO Channel 01/0 : 2[0] -> 3[1] via P2P/CUMEM
n1:52:62 [0] NCCL INFO ncclCommInitRank comm 0x7002 rank 2 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xbad - Init COMPLETE
n1:53:63 [1] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>
n1:53:63 [1] NCCL INFO GPU Direct RDMA Disabled for GPU/0-1000 (rank 0) - NET/0-0 (distance 5 > 4)
n1:53:63 [1] NCCL INFO ncclCommInitRank comm 0x7003 rank 3 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xbad - Init START
n1:53:63 [1] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [send] via NET/IB/0
n1:53:63 [1] NCCL INFO Channel 01/0 : 3[1] -> 0[0] [send] via NET/IB/1
n1:53:63 [1] NCCL INFO ncclCommInitRank comm 0x7003 rank 3 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0xbad - Init COMPLETE
--- awk '/^@/ { f = substr($0, 2); next } f { print > f }' job; ls | grep -v -e '^job$' -e '^data$' | tr '\n' ' '
far good nogdr sockets
--- ncclscope paths sockets; ncclscope paths --json sockets | jq -c '.reasons[] | [.kind, .hosts, .routes, .evidence]'
Between hosts, NCCL uses TCP sockets (eth0), without GPU Direct RDMA, because libibverbs.so did not open, so that NCCL
can't use InfiniBand or RoCE. Within hosts, NCCL uses the host's memory (SHM), because NCCL_P2P_DISABLE=1 is set.

Why, and what changes it
  libibverbs.so did not open, so that NCCL can't use InfiniBand or RoCE (on 2 hosts, n0 to n1). Install rdma-core
    (libibverbs1) in the image or on the host; `ibv_devices` must list the cards. A container also needs
    /dev/infiniband.
  NCCL said: Failed to open libibverbs.so[.1]
  NCCL_P2P_DISABLE=1 is set (on 2 hosts, n0 to n1). Unset it (`env | grep NCCL_P2P`), unless the job hangs or fails
    without it.
  NCCL said: NCCL_P2P_DISABLE set by environment to 1

Ways (most pairs first)
  way               where         routes channels cards gdr best why
  NET/Socket        between hosts      2        0  eth0 no  no   no_verbs
  SHM/direct/direct within hosts       2        0     - -   no   p2p_by_setting
  `--all` has every pair of ranks, `--json` has every channel.
["no_verbs",["n0","n1"],2,"Failed to open libibverbs.so[.1]"]
["p2p_by_setting",["n0","n1"],2,"NCCL_P2P_DISABLE set by environment to 1"]
--- ncclscope paths good; ncclscope paths --all good | sed -n '/^Pairs/,$p'
Between hosts, NCCL uses IB (mlx5_0, mlx5_1) with GPU Direct RDMA. Within hosts, NCCL uses the GPUs' own links (P2P).
NCCL names no faster way on these hosts.

Ways (most pairs first)
  way       where         routes channels          cards gdr best
  NET/IB    between hosts      2      0-1 mlx5_0, mlx5_1 yes yes
  P2P/CUMEM within hosts       2      0-1              - -   yes
  `--all` has every pair of ranks, `--json` has every channel.
Pairs of communicator 0xbad (4 ranks; by rank)
  from   to     way       channels from card to card gdr best why
  0 (n0) 1 (n0) P2P/CUMEM 0-1      -         -       -   yes  -
  1 (n0) 2 (n1) NET/IB    0        mlx5_0    mlx5_0  yes yes  -
  1 (n0) 2 (n1) NET/IB    1        mlx5_1    mlx5_1  yes yes  -
  2 (n1) 3 (n1) P2P/CUMEM 0-1      -         -       -   yes  -
  3 (n1) 0 (n0) NET/IB    0        mlx5_0    mlx5_0  yes yes  -
  3 (n1) 0 (n0) NET/IB    1        mlx5_1    mlx5_1  yes yes  -
--- ncclscope paths nogdr | sed '/^$/,$d'; ncclscope paths far | sed '/^Ways/,$d'
Between hosts, NCCL uses IB (mlx5_0, mlx5_1) without GPU Direct RDMA, because the network card can't reach the GPUs'
memory. Within hosts, NCCL uses the GPUs' own links (P2P).
Between hosts, NCCL uses IB (mlx5_0, mlx5_1) without GPU Direct RDMA, because the card is too far from the GPU on PCIe.
Within hosts, NCCL uses the GPUs' own links (P2P).

Why, and what changes it
  The card is too far from the GPU on PCIe (on 2 hosts, n0 to n1). Use the card next to each GPU (`ncclscope topo`,
    NCCL_IB_HCA). If there is none, try NCCL_NET_GDR_LEVEL=SYS and measure.
  NCCL said: GPU Direct RDMA Disabled for GPU/0-1000 (rank 0) - NET/0-0 (distance 5 > 4)
--- grep -v IB_0 good | sed 's/mlx5_1/mlx5_9/; s/NET.IB.1/NET\/IB\/0/' > one; ncclscope paths one | sed '/^$/,$d'
Between hosts, NCCL uses IB (mlx5_0) with GPU Direct RDMA. Within hosts, NCCL uses the GPUs' own links (P2P). 2 ranks of
n0 use 1 of its 2 network cards.
--- sed 's/P2P.CUMEM/SHM\/direct\/direct/' good > shm; ncclscope paths shm | sed '/^Ways/,$d'; printf '\tGPU0\tGPU1\nGPU0\t X \tNV12\nGPU1\tNV12\t X \n' > nv.txt; sed 's/NV12/SYS/g' nv.txt > sys.txt; for links in nv sys; do ncclscope paths --topo $links.txt shm | sed '/^$/,$d'; done
Between hosts, NCCL uses IB (mlx5_0, mlx5_1) with GPU Direct RDMA. Within hosts, NCCL uses the host's memory (SHM); no
line says why there is no P2P.

Why, and what changes it
  No line says why there is no P2P (on 2 hosts, n0 to n1). Give the host's links with `--topo FILE` (`nvidia-smi topo -m
    > FILE`): they say if P2P is possible.

Between hosts, NCCL uses IB (mlx5_0, mlx5_1) with GPU Direct RDMA. Within hosts, NCCL uses the host's memory (SHM),
because NCCL did not use the link NV12 that the GPUs have.
Between hosts, NCCL uses IB (mlx5_0, mlx5_1) with GPU Direct RDMA. Within hosts, NCCL uses the host's memory (SHM),
because NCCL uses P2P by itself only within PCIe switches, and these GPUs meet at a CPU.
--- sed 's/^[^ ]* //' sockets > bare; ncclscope paths bare | sed '/^$/,$d'
Within hosts, NCCL uses the host's memory (SHM), because NCCL_P2P_DISABLE=1 is set. Between hosts or within one, NCCL
uses TCP sockets (eth0), without GPU Direct RDMA, because libibverbs.so did not open, so that NCCL can't use InfiniBand
or RoCE.
--- grep -v Channel good > none; ncclscope paths none; awk 'BEGIN { for (i = 0; i < 60000; i++) printf "%c", (i * 7919) % 251 }' > noise; cat good noise > mixed; ncclscope paths mixed | sed '/^$/,$d' | head -1; head -c 1500 good > cut; ncclscope paths cut | sed '/^$/,$d'
Between hosts, NCCL uses IB (mlx5_0, mlx5_1) with GPU Direct RDMA. Within hosts, NCCL uses the GPUs' own links (P2P).
Between hosts, NCCL uses IB (mlx5_0, mlx5_1) with GPU Direct RDMA. Within hosts, NCCL uses the GPUs' own links (P2P).
Between hosts or within one, NCCL uses IB (mlx5_0, mlx5_1) with GPU Direct RDMA. NCCL names no faster way on these
hosts.
2| error: expected lines `Channel 00/0 : 0[0] -> 1[1] via …` of NCCL, found none in `none`
2|   hint: NCCL prints them with NCCL_DEBUG=INFO, when ranks connect: in the init, or from 2.22 on in the first calls; or record with `NCCLSCOPE_NCCL_LOG=on ncclscope run`

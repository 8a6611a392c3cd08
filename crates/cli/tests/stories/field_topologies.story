# Links of hosts in public reports, rebuilt: what stands out, and what is only worth knowing. Sources:
# vllm-project/vllm#16336; NVIDIA/k8s-test-infra#371; NVIDIA/nccl#1608, #595, #667, #428, #749;
# NVIDIA/nccl-tests#29, #78, #256; noonghunna/club-3090#46, #99, #1125; Azure/azhpc-images and aws/aws-ofi-nccl
# topology files.
# Each file begins with a line `@NAME`.
@b200
        GPU0    GPU1    GPU2    GPU3    GPU4    GPU5    GPU6    GPU7    NIC0    NIC1    NIC2    NIC3    NIC4    NIC5    NIC6    NIC7    NIC8    NIC9    NIC10   NIC11   CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NV18    NODE    NV18    NV18    NV18    NV18    NV18    PXB     NODE    NODE    NODE    SYS     SYS     SYS     SYS     NODE    NODE    SYS     SYS     0-55,112-167    0               N/A
GPU1    NV18     X      NODE    NV18    NV18    NV18    NV18    NV18    NODE    PXB     NODE    NODE    SYS     SYS     SYS     SYS     NODE    NODE    SYS     SYS     0-55,112-167    0               N/A
GPU2    NODE    NODE     X      NODE    SYS     SYS     SYS     SYS     NODE    NODE    PXB     NODE    SYS     SYS     SYS     SYS     NODE    NODE    SYS     SYS     0-55,112-167    0               N/A
GPU3    NV18    NV18    NODE     X      NV18    NV18    NV18    NV18    NODE    NODE    NODE    PXB     SYS     SYS     SYS     SYS     NODE    NODE    SYS     SYS     0-55,112-167    0               N/A
GPU4    NV18    NV18    SYS     NV18     X      NV18    NV18    NV18    SYS     SYS     SYS     SYS     PXB     NODE    NODE    NODE    SYS     SYS     NODE    NODE    56-111,168-223  1               N/A
GPU5    NV18    NV18    SYS     NV18    NV18     X      NV18    NV18    SYS     SYS     SYS     SYS     NODE    PXB     NODE    NODE    SYS     SYS     NODE    NODE    56-111,168-223  1               N/A
GPU6    NV18    NV18    SYS     NV18    NV18    NV18     X      NV18    SYS     SYS     SYS     SYS     NODE    NODE    PXB     NODE    SYS     SYS     NODE    NODE    56-111,168-223  1               N/A
GPU7    NV18    NV18    SYS     NV18    NV18    NV18    NV18     X      SYS     SYS     SYS     SYS     NODE    NODE    NODE    PXB     SYS     SYS     NODE    NODE    56-111,168-223  1               N/A
@gb200
        GPU0    GPU1    GPU2    GPU3    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NV18    NV18    NV18    0-71            0               N/A
GPU1    NV18     X      NV18    NV18    0-71            0               N/A
GPU2    NV18    NV18     X      NV18    72-143          1               N/A
GPU3    NV18    NV18    NV18     X      72-143          1               N/A
@bridged
        GPU0    GPU1    GPU2    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NV12    SYS     0-15,32-47      0               N/A
GPU1    NV12     X      SYS     0-15,32-47      0               N/A
GPU2    SYS     SYS      X      16-31,48-63     1               N/A
@a100
	GPU0	GPU1	GPU2	GPU3	mlx5_0	mlx5_1	CPU Affinity	NUMA Affinity
GPU0	 X 	NV4	NV4	NV4	SYS	SYS	16-31,80-95	1
GPU1	NV4	 X 	NV4	NV4	PIX	SYS	0-15,64-79	0
GPU2	NV4	NV4	 X 	NV4	SYS	PIX	48-63,112-127	3
GPU3	NV4	NV4	NV4	 X 	SYS	SYS	32-47,96-111	2
mlx5_0	SYS	PIX	SYS	SYS	 X 	SYS
mlx5_1	SYS	SYS	PIX	SYS	SYS	 X
@wsl2
	GPU0	CPU Affinity	NUMA Affinity	GPU NUMA ID
GPU0	 X 				N/A
@p2p
          GPU0 GPU1    CPU Affinity    NUMA Affinity   GPU NUMA ID
    GPU0  X      NODE    0-15    0               N/A
    GPU1 NODE     X      0-15    0               N/A

    Legend:

      X    = Self
      SYS  = Connection traversing PCIe as well as the SMP interconnect between
  NUMA nodes (e.g., QPI/UPI)

          GPU0 GPU1
     GPU0        X       NS
     GPU1        NS      X
@pcie
	GPU0	GPU1	GPU2	GPU3	CPU Affinity	NUMA Affinity
GPU0	 X 	PXB	SYS	SYS	0-27,56-83	0
GPU1	PXB	 X 	SYS	SYS	0-27,56-83	0
GPU2	SYS	SYS	 X 	PIX	28-55,84-111	1
GPU3	SYS	SYS	PIX	 X 	28-55,84-111	1
@five
        GPU0    GPU1    GPU2    GPU3    GPU4    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      SYS     SYS     SYS     SYS     8-15,24-31      1               N/A
GPU1    SYS      X      PHB     NODE    NODE    0-7,16-23       0               N/A
GPU2    SYS     PHB      X      NODE    NODE    0-7,16-23       0               N/A
GPU3    SYS     NODE    NODE     X      PHB     0-7,16-23       0               N/A
GPU4    SYS     NODE    NODE    PHB      X      0-7,16-23       0               N/A
@dgx2
        GPU0    GPU1    GPU2    GPU3    GPU4    GPU5    GPU6    GPU7    GPU8    GPU9    GPU10   GPU11   GPU12   GPU13   GPU14   GPU15   mlx5_0  mlx5_1  mlx5_2  mlx5_3  mlx5_4  mlx5_5  mlx5_6  mlx5_7  mlx5_8  mlx5_9  CPU Affinity
GPU0     X      NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     PIX     PXB     NODE    NODE    NODE    SYS     SYS     SYS     SYS     SYS     0-23,48-71
GPU1    NV6      X      NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     PIX     PXB     NODE    NODE    NODE    SYS     SYS     SYS     SYS     SYS     0-23,48-71
GPU2    NV6     NV6      X      NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     PXB     PIX     NODE    NODE    NODE    SYS     SYS     SYS     SYS     SYS     0-23,48-71
GPU3    NV6     NV6     NV6      X      NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     PXB     PIX     NODE    NODE    NODE    SYS     SYS     SYS     SYS     SYS     0-23,48-71
GPU4    NV6     NV6     NV6     NV6      X      NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NODE    NODE    PIX     PXB     NODE    SYS     SYS     SYS     SYS     SYS     0-23,48-71
GPU5    NV6     NV6     NV6     NV6     NV6      X      NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NODE    NODE    PIX     PXB     NODE    SYS     SYS     SYS     SYS     SYS     0-23,48-71
GPU6    NV6     NV6     NV6     NV6     NV6     NV6      X      NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NODE    NODE    PXB     PIX     NODE    SYS     SYS     SYS     SYS     SYS     0-23,48-71
GPU7    NV6     NV6     NV6     NV6     NV6     NV6     NV6      X      NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NODE    NODE    PXB     PIX     NODE    SYS     SYS     SYS     SYS     SYS     0-23,48-71
GPU8    NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6      X      NV6     NV6     NV6     NV6     NV6     NV6     NV6     SYS     SYS     SYS     SYS     SYS     NODE    NODE    NODE    NODE    NODE    24-47,72-95
GPU9    NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6      X      NV6     NV6     NV6     NV6     NV6     NV6     SYS     SYS     SYS     SYS     SYS     NODE    NODE    NODE    NODE    NODE    24-47,72-95
GPU10   NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6      X      NV6     NV6     NV6     NV6     NV6     SYS     SYS     SYS     SYS     SYS     NODE    NODE    NODE    NODE    NODE    24-47,72-95
GPU11   NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6      X      NV6     NV6     NV6     NV6     SYS     SYS     SYS     SYS     SYS     NODE    NODE    NODE    NODE    NODE    24-47,72-95
GPU12   NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6      X      NV6     NV6     NV6     SYS     SYS     SYS     SYS     SYS     NODE    NODE    NODE    NODE    NODE    24-47,72-95
GPU13   NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6      X      NV6     NV6     SYS     SYS     SYS     SYS     SYS     NODE    NODE    NODE    NODE    NODE    24-47,72-95
GPU14   NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6      X      NV6     SYS     SYS     SYS     SYS     SYS     NODE    NODE    NODE    NODE    NODE    24-47,72-95
GPU15   NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6     NV6      X      SYS     SYS     SYS     SYS     SYS     NODE    NODE    NODE    NODE    NODE    24-47,72-95
@cube
        GPU0    GPU1    GPU2    GPU3    GPU4    GPU5    GPU6    GPU7    mlx5_0  mlx5_1  CPU Affinity
GPU0     X      NV2     NV2     NV1     NV1     SYS     SYS     SYS     NODE    NODE    0-23,48-71
GPU1    NV2      X      NV1     NV2     SYS     NV1     SYS     SYS     NODE    NODE    0-23,48-71
GPU2    NV2     NV1      X      NV1     SYS     SYS     NV2     SYS     PIX     PIX     0-23,48-71
GPU3    NV1     NV2     NV1      X      SYS     SYS     SYS     NV2     PIX     PIX     0-23,48-71
GPU4    NV1     SYS     SYS     SYS      X      NV2     NV2     NV1     SYS     SYS     24-47,72-95
GPU5    SYS     NV1     SYS     SYS     NV2      X      NV1     NV2     SYS     SYS     24-47,72-95
GPU6    SYS     SYS     NV2     SYS     NV2     NV1      X      NV1     SYS     SYS     24-47,72-95
GPU7    SYS     SYS     SYS     NV2     NV1     NV2     NV1      X      SYS     SYS     24-47,72-95
@t4
        GPU0    GPU1    GPU2    GPU3    CPU Affinity
GPU0     X      SYS     SYS     SYS     0-15,32-47
GPU1    SYS      X      NODE    NODE    16-31,48-63
GPU2    SYS     NODE     X      NODE    16-31,48-63
GPU3    SYS     NODE    NODE     X      16-31,48-63
--- awk '/^@/ { f = substr($0, 2); next } f { print > f }' job; ls | grep -v -e '^job$' -e '^data$' | tr '\n' ' '
a100 b200 bridged cube dgx2 five gb200 p2p pcie t4 wsl2
--- ncclscope topo b200 | sed '/^Links/,$d'
b200: 8 GPUs and 12 network cards; 1 remark about its links:
  GPU2 has no NVLink, unlike others of this host, and reaches GPU0 by NODE.
  7 of 28 pairs of GPUs have no NVLink: GPU0-GPU2 (NODE), GPU1-GPU2 (NODE), GPU2-GPU3 (NODE), GPU2-GPU4 (SYS), GPU2-GPU5
    (SYS), GPU2-GPU6 (SYS), GPU2-GPU7 (SYS). Data between these goes another way.

Next: nvidia-smi nvlink -s; systemctl status nvidia-fabricmanager
--- for host in gb200 bridged a100 wsl2 p2p pcie five dgx2 cube t4; do ncclscope topo $host | sed '/^$/,$d'; done
gb200: 4 GPUs and 0 network cards; no link stands out.
bridged: 3 GPUs and 0 network cards; no link stands out.
  2 of 3 pairs of GPUs have no NVLink: GPU0-GPU2 (SYS), GPU1-GPU2 (SYS). Data between these goes another way.
  GPU2 is alone on its socket: it reaches every other GPU across sockets (SYS).
a100: 4 GPUs and 2 network cards; 2 remarks about its links:
  GPU0 reaches every network card across sockets (SYS), while other GPUs have one nearer.
  GPU3 reaches every network card across sockets (SYS), while other GPUs have one nearer.
wsl2: 1 GPU and 0 network cards; no link stands out.
p2p: 2 GPUs and 0 network cards; no link stands out.
pcie: 4 GPUs and 0 network cards; no link stands out.
  P2P through PCIe switches (PIX, PXB) needs ACS off on their bridges: with ACS or an IOMMU that translates, it is slow
    or hangs. `lspci -vvv | grep ACSCtl` must not show `SrcValid+`.
five: 5 GPUs and 0 network cards; no link stands out.
  GPU0 is alone on its socket: it reaches every other GPU across sockets (SYS).
dgx2: 16 GPUs and 10 network cards; no link stands out.
cube: 8 GPUs and 2 network cards; 4 remarks about its links:
  GPU4 reaches every network card across sockets (SYS), while other GPUs have one nearer.
  GPU5 reaches every network card across sockets (SYS), while other GPUs have one nearer.
  GPU6 reaches every network card across sockets (SYS), while other GPUs have one nearer.
  GPU7 reaches every network card across sockets (SYS), while other GPUs have one nearer.
  12 of 28 pairs of GPUs have no NVLink: GPU0-GPU5 (SYS), GPU0-GPU6 (SYS), GPU0-GPU7 (SYS), GPU1-GPU4 (SYS), GPU1-GPU6
    (SYS), GPU1-GPU7 (SYS), GPU2-GPU4 (SYS), GPU2-GPU5 (SYS) and 4 more. Data between these goes another way.
t4: 4 GPUs and 0 network cards; no link stands out.
  GPU0 is alone on its socket: it reaches every other GPU across sockets (SYS).
--- gpu() { printf '<pci busid="ffff:0%s:00.0" class="0x060400" link_speed="%s" link_width="%s"><pci busid="0000:1%s:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="%s" sm="90"><nvlink target="0000:c4:00.0" count="18" tclass="0x068000"/></gpu></pci><pci busid="0000:2%s:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16"><nic><net name="mlx5_%s" dev="%s"/></nic></pci></pci>\n' $1 "$2" $3 $1 $1 $1 $1 $1; }; file() { echo '<system version="1"><cpu numaid="0">'; for at in 0 1 2 3; do case $at in $1) gpu $at '2.5 GT/s' 1;; *) gpu $at '32.0 GT/s PCIe' 16;; esac; done; echo '</cpu></system>'; }; file '[0-3]' > slow.xml; file 3 > one_slow.xml; file none > fast.xml; for x in slow one_slow fast; do ncclscope topo $x.xml | sed '/^$/,$d'; done; ncclscope topo slow.xml fast.xml | head -6
slow.xml: 4 GPUs and 4 network cards; 1 remark about its links:
  Every device hangs on a PCIe link of 2.5 GT/s x1 (0.250 GB/s), which limits all data to network cards and to the host.
    If the machine is virtual, NCCL_TOPO_FILE may say so although it is not: compare `nvidia-smi -q`.
one_slow.xml: 4 GPUs and 4 network cards; 1 remark about its links:
  GPU3 and NIC3 hang on a PCIe link of 2.5 GT/s x1 (0.250 GB/s) on their way to the CPU. Others have up to 63.015 GB/s.
fast.xml: 4 GPUs and 4 network cards; no link stands out.
8 links differ between slow.xml (A) and fast.xml (B).

Links that differ
  from to  a           b
  GPU0 CPU 2.5 GT/s x1 32.0 GT/s x16
  GPU1 CPU 2.5 GT/s x1 32.0 GT/s x16
--- printf '<system version="1"><cpu numaid="0"><pci busid="ffff:ff:01.0" class="0x060400"><pci busid="0001:00:00.0" class="0x030200"/><pci busid="0101:00:00.0" class="0x020700"/></pci></cpu></system>' > skeleton.xml; ncclscope topo skeleton.xml
2| error: `skeleton.xml`: expected a file of NCCL_TOPO_DUMP_FILE, found a skeleton for NCCL_TOPO_FILE: 1 GPUs and 1 network cards by their PCI classes, without NVLinks and names; nothing can be said of its links
2|   hint: NCCL completes it in a job: NCCL_TOPO_DUMP_FILE=topology.xml writes the whole one
[exit 2]
--- sed 's/^/n1: /' t4 > tagged; sed 's/^/n2: /; s/NODE/PIX /' t4 >> tagged; ncclscope topo tagged | grep -e '^n[12]' -A1; ncclscope topo --json tagged | jq -c '.hosts[].links[1]'
n1: 4 GPUs and 0 network cards; no link stands out.
  GPU0 is alone on its socket: it reaches every other GPU across sockets (SYS).
--
n2: 4 GPUs and 0 network cards; no link stands out.
  GPU0 is alone on its socket: it reaches every other GPU across sockets (SYS).
["SYS","X","NODE","NODE"]
["SYS","X","PIX","NODE"]
--- printf 'GPU0GPU1GPU2 CPU Affinity\nGPU0 XNV12SYS 0-15\nGPU1 NV12XSYS 0-15\nGPU2 SYSSYSX 16-31\n' > glued; ncclscope topo glued | head -1; sed 's/0$/0 /; s/16-31,48-63/0-15,32-47/; s/.*/&     0/; 1s/$/ NUMA Affinity/' t4 > onenode; ncclscope topo onenode | sed '/^$/,$d'
glued: 3 GPUs and 0 network cards; no link stands out.
onenode: 4 GPUs and 0 network cards; no link stands out.
  GPU0 is alone on its socket: it reaches every other GPU across sockets (SYS).
  GPU0 and GPU1 are on one NUMA node, and their link is SYS. These contradict each other, as in a virtual machine that
    hides sockets or PCIe: do not trust the links between sockets.

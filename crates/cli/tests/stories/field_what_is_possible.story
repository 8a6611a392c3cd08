# The matrix of what is possible between GPUs, from `nvidia-smi topo -p2p r`, ends that contradict each other, and
# a device of NCCL's file without a number. A file or standard input.
# Each file begins with a line `@NAME`.
@possible
 	GPU0	GPU1	GPU2	GPU3	
 GPU0	X	CNS	CNS	OK	
 GPU1	CNS	X	OK	CNS	
 GPU2	CNS	OK	X	CNS	
 GPU3	OK	CNS	CNS	X	

Legend:

  X    = Self
  OK   = Status Ok
  CNS  = Chipset not supported
@ends
	GPU0	GPU1	NIC0	CPU Affinity	NUMA Affinity	GPU NUMA ID
GPU0	 X 	NV6	PXB	0-63	0	N/A
GPU1	NV4	 X 	SYS	64-127	1	N/A
NIC0	PXB	SYS	 X 				
@number
<system version="1"><cpu numaid="0"><pci busid="0000:10:00.0"><gpu dev="99999999999999999999" sm="90" rank="0"/></pci>
<pci busid="0000:14:00.0"><gpu dev="1" sm="90" rank="1"/></pci></cpu></system>
--- awk '/^@/ { f = substr($0, 2); next } f { print > f }' job; ls | grep -v -e '^job$' -e '^data$' | tr '\n' ' '
ends number possible
--- ncclscope topo possible
possible: 4 GPUs and 0 network cards; 1 remark about its links:
  4 of 6 pairs of GPUs can't reach each other's memory (CNS: the chipset does not support it): GPU0-GPU1, GPU0-GPU2,
    GPU1-GPU3, GPU2-GPU3.

Whether a GPU can reach another's memory (OK, or why not)
         GPU0 GPU1 GPU2 GPU3
  GPU0      X  CNS  CNS   OK
  GPU1    CNS    X   OK  CNS
  GPU2    CNS   OK    X  CNS
  GPU3     OK  CNS  CNS    X

Devices
  device label numa cpus
  GPU0   -        - -
  GPU1   -        - -
  GPU2   -        - -
  GPU3   -        - -
--- ncclscope topo - < ends | sed '/^Links/,$d'
standard input: 2 GPUs and 1 network card; 2 remarks about its links:
  Both ends of a link have as many NVLinks, but not here: GPU0-GPU1 (NV6 and NV4). A link went down while this was
    written, or the text was changed.
  GPU1 reaches every network card across sockets (SYS), while other GPUs have one nearer.

Next: nvidia-smi nvlink -s; systemctl status nvidia-fabricmanager
--- ncclscope topo number
number: 2 GPUs and 0 network cards; no link stands out.

Links (NV: number of NVLinks; PIX, PXB: one PCIe switch, several; PHB: a socket's host bridge; NODE: several of them;
  SYS: between sockets)
         GPU0 GPU1
  GPU0      X  PHB
  GPU1    PHB    X

Devices
  device label                           numa cpus
  GPU0   0000:10:00.0 (dev is no number)    0 -
  GPU1   0000:14:00.0                       0 -

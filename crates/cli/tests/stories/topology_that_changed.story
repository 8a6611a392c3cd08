# A host's links are read from what NCCL or nvidia-smi wrote; a link that is missing or changed is named.
ranks 2
virtual_time
all_reduce 1MiB x20
--- printf '<system version="1">\n<cpu numaid="0"><pci busid="0000:18:00.0">\n<gpu dev="0"><nvlink target="0000:05:00.0" count="18" tclass="0x068000"/></gpu></pci>\n<pci busid="0000:2a:00.0"><nic><net name="mlx5_0" dev="0"/></nic></pci></cpu>\n<cpu numaid="1"><pci busid="0000:98:00.0">\n<gpu dev="1"><nvlink target="0000:05:00.0" count="18" tclass="0x068000"/></gpu></pci></cpu>\n</system>\n' > good.xml; sed 's/<gpu dev="1">.*/<gpu dev="1"\/><\/pci><\/cpu>/' good.xml > bad.xml; ncclscope topo good.xml
good.xml: 2 GPUs and 1 network card; 1 remark about its links:
  GPU1 reaches every network card across sockets (SYS), while other GPUs have one nearer.

Links (NV: number of NVLinks; PIX, PXB: one PCIe switch, several; PHB: a socket's host bridge; NODE: several of them;
  SYS: between sockets)
         GPU0 GPU1 NIC0
  GPU0      X NV18  PHB
  GPU1   NV18    X  SYS
  NIC0    PHB  SYS    X

Devices
  device label        numa cpus
  GPU0   0000:18:00.0    0 -
  GPU1   0000:98:00.0    1 -
  NIC0   mlx5_0          0 -
--- ncclscope topo good.xml bad.xml
1 link differs between good.xml (A) and bad.xml (B).

Links that differ
  from to   a    b
  GPU0 GPU1 NV18 SYS
[exit 1]
--- ncclscope topo good.xml good.xml
good.xml and good.xml have the same links.
--- printf '\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\t0-47\t0\nGPU1\tSYS\t X \t48-95\t1\n' > smi.txt; ncclscope topo smi.txt | head -6
smi.txt: 2 GPUs and 0 network cards; no link stands out.

Links (NV: number of NVLinks; PIX, PXB: one PCIe switch, several; PHB: a socket's host bridge; NODE: several of them;
  SYS: between sockets)
         GPU0 GPU1
  GPU0      X  SYS
--- ncclscope run -o a -- fake-nccl play job; ncclscope run -o b -- fake-nccl play job; cp good.xml a/topology-n1.xml; cp bad.xml b/topology-n1.xml; ncclscope topo a | head -1; ncclscope topo a b | head -1; ncclscope diff a b | grep -E '^  link GPU'
announced 40, ABI v5
announced 40, ABI v5
n1: 2 GPUs and 1 network card; 1 remark about its links:
1 link differs between n1 (A) and n1 (B).
  link GPU0 - GPU1: NV18 -> SYS
2| ncclscope: capture in a: 2 processes, 40 calls; next: ncclscope report a
2| ncclscope: capture in b: 2 processes, 40 calls; next: ncclscope report b
--- ncclscope run -o c -- sh -c 'basename $NCCL_TOPO_DUMP_FILE; basename $NCCL_GRAPH_DUMP_FILE' | sed "s/$(uname -n)/HOST/"
topology-HOST.xml
graphs-HOST.xml
2| ncclscope: nothing was recorded, so there is no capture: no process of the program loaded NCCL's profiler plugin. Did it use NCCL, from 2.23 on, on more than one GPU?
2|   next: ncclscope doctor
--- NCCL_TOPO_DUMP_FILE=mine.xml ncclscope run -o c -- sh -c 'echo $NCCL_TOPO_DUMP_FILE' 2>&1 | head -1
mine.xml
--- head -2 smi.txt > cut.txt; ncclscope topo cut.txt; sed 's/GPU1\tSYS\t X/GPU1\tSYS/' smi.txt > shifted.txt; ncclscope topo shifted.txt; head -3 good.xml > cut.xml; ncclscope topo cut.xml
2| error: `cut.txt`: expected a row for each GPU of the matrix, found none for GPU1
2|   hint: the text is cut, or a terminal has wrapped its lines; `nvidia-smi topo -m > topo.txt` has them whole
2| error: `shifted.txt`: expected 2 links in the row of GPU1 of the matrix, found 1
2|   hint: the text is cut, or a terminal has wrapped its lines; `nvidia-smi topo -m > topo.txt` has them whole
2| error: `cut.xml`: expected a whole file of NCCL_TOPO_DUMP_FILE, found XML that is another's or ends early
2|   hint: NCCL writes the file while it makes the first communicator; let the job get further
[exit 2]
--- printf '<graphs version="1"><graph id="0"><channel><gpu dev="0"/><gpu dev="1"/></channel></graph></graphs>' > graphs.xml; ncclscope topo graphs.xml
2| error: `graphs.xml`: expected a file of NCCL_TOPO_DUMP_FILE, found one of NCCL_GRAPH_DUMP_FILE: rings and trees
2|   hint: `ncclscope topo DIR` prints the rings and trees of a capture of `ncclscope run`
[exit 2]
--- cp -r a other; mv other/topology-n1.xml other/topology-n3.xml; cp bad.xml other/topology-n4.xml; cp good.xml a/topology-n2.xml; ncclscope topo a other
2| error: `a` and `other` have no host in common: n1, n2 and n3, n4
2|   hint: `ncclscope topo DIR` prints the links of each
[exit 2]
--- cp bad.xml other/topology-n2.xml; ncclscope topo a other; rm a/topology-n2.xml
1 link differs between n2 (A) and n2 (B).

Links that differ
  from to   a    b
  GPU0 GPU1 NV18 SYS

Only in a: n1.
Only in other: n3, n4.
--- ncclscope topo a smi.txt | head -1
3 links differ between n1 (A) and smi.txt (B).
--- ncclscope topo a/capture.json
2| error: `a/capture.json`: expected the output of `nvidia-smi topo -m` or a file of NCCL_TOPO_DUMP_FILE, found something else
[exit 2]
--- rm a/topology-n1.xml; ncclscope topo a
2| error: `a` has no topology
2|   hint: under `ncclscope run`, its sampler asks NVML for it, and NCCL writes it on the host of rank 0 if NCCL_TOPO_DUMP_FILE is not set
[exit 2]

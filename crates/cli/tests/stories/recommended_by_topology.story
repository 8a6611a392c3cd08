# A GPU whose network cards are all on the other socket, and buffers that NVLS could use without a copy: each has its evidence, and none is named where it does not matter.
ranks 4
virtual_time
hosts 2
all_reduce 1MiB x20
--- card() { printf '<pci busid="0000:%s2:00.0"><nic><net name="mlx5_%s" dev="%s"/></nic></pci>' $1 $2 $2; }; gpu() { printf '<pci busid="0000:%s1:00.0"><gpu dev="%s"/></pci>' $1 $2; }; (echo '<system><cpu numaid="0">'; gpu 0 0; card 0 0; echo '</cpu><cpu numaid="1">'; gpu 8 1; echo '</cpu></system>') > far.xml; (echo '<system><cpu numaid="0">'; gpu 0 0; card 0 0; echo '</cpu><cpu numaid="1">'; gpu 8 1; card 8 1; echo '</cpu></system>') > near.xml

--- NCCLSCOPE_TIMING=stamps fake-nccl play job; cp far.xml capture/topology-n1.xml
announced 80, ABI v5
--- ncclscope report capture --json | jq -c '.recommendations[] | .rule, .action, .evidence'
"far_network_card"
"Give the job the cards that are beside its GPUs (NCCL_IB_HCA, or the devices of the container), and see that a virtual machine shows the real PCI tree."
"NVML, the kernel's /sys, or NCCL's own files say so (`ncclscope topo`)."
--- cp near.xml capture/topology-n1.xml; ncclscope report capture --json | jq -c .recommendations
[]
--- rm -r capture; sed '/hosts/d' job | NCCLSCOPE_TIMING=stamps fake-nccl play -; cp far.xml capture/topology-n1.xml
announced 80, ABI v5
--- ncclscope report capture --json | jq -c .recommendations
[]
--- rm -r capture; printf 'ranks 2\nvirtual_time\nchoice NVLS SIMPLE x1 ; choice RING SIMPLE x1\nall_reduce 64MiB x20\nall_reduce 4KiB x9' > large; NCCLSCOPE_COSTS=on NCCLSCOPE_TIMING=stamps ncclscope run -o capture -- fake-nccl play large
announced 58, ABI v5
2| ncclscope: capture in capture: 2 processes, 58 calls; next: ncclscope report capture
--- ncclscope report capture --json | jq -c '.recommendations[] | .rule, .evidence, .gain_us, .effort'
"unregistered_buffers"
"NVLS can run here, and NCCL said of 40 calls of 1 MiB and more that their buffers were not registered: 40 of them were AllReduce of 64 MiB."
null
"medium"
--- rm -r capture; FAKE_NCCL_REGISTERED=1 NCCLSCOPE_COSTS=on NCCLSCOPE_TIMING=stamps ncclscope run -o capture -- fake-nccl play large
announced 58, ABI v5
2| ncclscope: capture in capture: 2 processes, 58 calls; next: ncclscope report capture
--- ncclscope report capture --json | jq -c .recommendations
[]
--- rm -r capture; sed 's/choice NVLS SIMPLE x1 ;//' large > ring; NCCLSCOPE_COSTS=on NCCLSCOPE_TIMING=stamps ncclscope run -o capture -- fake-nccl play ring
announced 58, ABI v5
2| ncclscope: capture in capture: 2 processes, 58 calls; next: ncclscope report capture
--- ncclscope report capture --json | jq -c .recommendations
[]

# Is that good? Bandwidths as shares of ceilings that have a name: a rate, a benchmark of the same function, size and ranks, the best here.
ranks 4
virtual_time
all_reduce 1KiB
sync
repeat 20 { all_reduce 64MiB time=300us ; all_reduce 1MiB time=20us ; all_gather 64MiB time=200us }
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 244, ABI v5
--- ncclscope report capture --ceiling 450GB/s | sed -n '3,4p; /^Efficiency/,/^$/p' | sed '/  All/s/ *[^ ]*$//'
in NCCL <n> % of the time (median rank) · waiting 0.0 % of the time in NCCL · AllReduce of 64 MiB at 336 GB/s (busbw,
74.6 % of --ceiling 450GB/s)
Efficiency (most bytes first, busbw in GB/s; given_%: of --ceiling 450GB/s; best_%: of the best size of the function in
  this capture)
  function    size type    algorithm   calls busbw given_% best_% blind_%
  AllReduce 64 MiB float32 RING/SIMPLE    80   336    74.6    100
  AllGather 64 MiB float32 RING/SIMPLE    80   252    55.9    100
  AllReduce  1 MiB float32 RING/LL128     80  78.6    17.5   23.4
--- printf '# Rank %s Group 0 Pid 1 on host device 0 [0000:04:00] NVIDIA H200\n' 0 1 2 3 > bench.txt; echo '# Collective test starting: all_reduce_perf' >> bench.txt; echo '67108864 16777216 float sum -1 250.0 268.4 402.7 0 260.0 258.1 387.2 0' >> bench.txt

--- ncclscope report capture --ceiling bench.txt --ceiling 450GB/s --json | jq -c '.efficiency[] | select(.bytes > 2000000) | .function, .ceilings[]'
"AllReduce"
{"source":"given","named":"--ceiling 450GB/s","ceiling_gb_per_s":450,"share":0.7456540444444445}
{"source":"bench","named":"bench.txt: AllReduce of 64 MiB","ceiling_gb_per_s":402.7,"share":0.8332364539359326}
{"source":"best_here","named":"AllReduce of 64 MiB in this capture","ceiling_gb_per_s":335.54432,"share":1}
"AllGather"
{"source":"given","named":"--ceiling 450GB/s","ceiling_gb_per_s":450,"share":0.5592405333333335}
{"source":"best_here","named":"AllGather of 64 MiB in this capture","ceiling_gb_per_s":251.65824000000003,"share":1}
--- echo '<graphs version="1"><graph id="0" pattern="4" nchannels="2" speedintra="210" typeintra="NVL"><channel><gpu dev="0"/><gpu dev="1"/><gpu dev="2"/><gpu dev="3"/></channel><channel><gpu dev="0"/><gpu dev="3"/><gpu dev="2"/><gpu dev="1"/></channel></graph></graphs>' > graphs.xml

--- ncclscope report capture --ceiling graphs.xml | sed -n '/^Efficiency/,/^$/p' | sed '/  All/s/ *[^ ]*$//'
Efficiency (most bytes first, busbw in GB/s; graph_%: of what NCCL expects of its graph in graphs.xml; best_%: of the
  best size of the function in this capture)
  function    size type    algorithm   calls busbw graph_% best_% blind_%
  AllReduce 64 MiB float32 RING/SIMPLE    80   336    79.9    100
  AllGather 64 MiB float32 RING/SIMPLE    80   252    59.9    100
  AllReduce  1 MiB float32 RING/LL128     80  78.6    18.7   23.4
--- ncclscope report capture --ceiling graphs.xml --json | jq -c '.efficiency[0].ceilings[0]'
{"source":"nccl_graph","named":"graphs.xml: NCCL's RING graph","ceiling_gb_per_s":420,"share":0.7989150476190476}
--- sed -i 's/<gpu dev="3".>//g' graphs.xml; ncclscope report capture --ceiling graphs.xml --json | jq -c '[.efficiency[].ceilings[] | select(.source == "nccl_graph")]'
[]
--- echo '<system version="1"/>' > topo.xml; ncclscope report capture --ceiling topo.xml
2| error: `topo.xml` has neither a graph within one node, of which NCCL expects a bandwidth, nor GPUs with links of a known rate
2|   hint: give the file that NCCL writes with NCCL_GRAPH_DUMP_FILE=FILE or NCCL_TOPO_DUMP_FILE=FILE
[exit 2]
--- gpu() { printf '<pci busid="0000:0%s:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="%s" sm="90" rank="%s"><nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/></gpu></pci>' $1 $1 $1; }; (echo '<system version="1"><cpu numaid="0">'; for n in 0 1 2 3; do gpu $n; done; echo '</cpu></system>') > topo.xml; ncclscope report capture --ceiling topo.xml --json | jq -c '.efficiency[0].ceilings[0]'
{"source":"link","named":"topo.xml: 18 NVLinks of 25 GB/s","ceiling_gb_per_s":450,"share":0.7456540444444445}
--- cp topo.xml capture/topology-$(ls capture | grep -v '[.]' | head -1).xml; ncclscope report capture | sed -n '3,4p; /^Efficiency/,/^$/p' | sed '/  All/s/ *[^ ]*$//'
in NCCL <n> % of the time (median rank) · waiting 0.0 % of the time in NCCL · AllReduce of 64 MiB at 336 GB/s (busbw,
74.6 % of a GPU's links: 18 NVLinks of 25 GB/s)
Efficiency (most bytes first, busbw in GB/s; link_%: of a GPU's links: 18 NVLinks of 25 GB/s; best_%: of the best size
  of the function in this capture)
  function    size type    algorithm   calls busbw link_% best_% blind_%
  AllReduce 64 MiB float32 RING/SIMPLE    80   336   74.6    100
  AllGather 64 MiB float32 RING/SIMPLE    80   252   55.9    100
  AllReduce  1 MiB float32 RING/LL128     80  78.6   17.5   23.4
--- sed -i 's/count="18"/count="0"/g' capture/topology-*.xml; ncclscope report capture --json | jq -c '.efficiency[0].ceilings[0]'
{"source":"link","named":"a GPU's links: PCIe 5.0 x16","ceiling_gb_per_s":63.01538461538462,"share":5.3248}
--- sed -i 's/link_speed="32.0 GT.s PCIe"//g' capture/topology-*.xml; ncclscope report capture --json | jq -c '[.efficiency[].ceilings[] | select(.source == "link")]'
[]
--- ncclscope report capture --ceiling 450
2| error: --ceiling `450` is neither a rate nor a file
2|   hint: give the rate of a GPU's links in one direction, such as 450GB/s, or the file of `ncclscope bench --json FILE`
[exit 2]
--- ncclscope report capture | grep -c Efficiency
0
[exit 1]
--- ncclscope explain best_%
best_%: busbw as a part of the best that this function reached over as many ranks in this capture, at any size. It says
  how far a size is from the best one, not whether that is good.

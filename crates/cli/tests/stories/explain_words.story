# What an algorithm and protocol are good for, how busbw comes about, what to do about a cause.
ranks 2
--- ncclscope explain RING_LL
RING: every rank passes pieces on to the next. Moves the fewest bytes over each link, so it is the one for large sizes;
  its latency grows with the number of ranks. Best on one node or a few. It is there for AllReduce, AllGather,
  ReduceScatter, Broadcast, Reduce.
LL: low latency: each 8-byte store carries 4 bytes of data and a flag, so nothing has to be synchronised, at half of the
  bandwidth or less. For small sizes, up to some tens of KiB.
--- ncclscope explain nvls
NVLS: the NVSwitch reduces and multicasts (NVLink SHARP), so each GPU sends and receives a piece once. Largest bandwidth
  within an NVLink domain with few SMs busy; needs Hopper or newer with NVSwitch. busbw may exceed the link's own
  figure, because the switch does a part of the work. It is there for AllReduce, AllGather, ReduceScatter.
--- ncclscope explain allreduce
AllReduce: every rank gets the reduction of all ranks' buffers. busbw is algbw × 2(n-1)/n, n ranks. Algorithms: RING,
  TREE, COLLNET_DIRECT, COLLNET_CHAIN, NVLS, NVLS_TREE.
--- ncclscope explain stale
stale: the stamps are older than the launch, so another kernel's or from before a step of the GPU's clock: nothing to
  do; host times are sound.
--- ncclscope explain RING_LL64
2| error: expected a word of a report, found `RING_LL64`
2|   hint: `ncclscope explain` lists the words that it knows, and there are pairs like RING_LL
[exit 2]
--- ncclscope explain | sed -n '1,4p'
Words that are explained, and pairs of an algorithm and a protocol, like RING_LL.

Algorithms
  COLLNET_CHAIN, COLLNET_DIRECT, NVLS, NVLS_TREE, PAT, RING, TREE

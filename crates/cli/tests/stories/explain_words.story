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
2|   hint: these are known, and pairs like RING_LL:
2|     algorithms: RING, TREE, COLLNET_DIRECT, COLLNET_CHAIN, NVLS, NVLS_TREE, PAT
2|     protocols: LL, LL128, SIMPLE
2|     functions: AllReduce, AllGather, ReduceScatter, Broadcast, Reduce, AlltoAll, Gather, Scatter, SendRecv, Send, Recv
2|     causes: rows_full, size_limit, rotated, write_failed, totals_full, communicators_full, stale_context, ring_full, damaged, elsewhere, running, gone, moving, in_birth, unexplained, captured, no_stamp, fused, repeated, backwards, stale, desynchronised, negative, missing, unfinished, unsampled, early_stop, no_event, in_graph, sealed_early, rowless, graphs_not_watched, graphs_unplaced, graphs_full, graphs_uncountable, graphs_lost, graphs_no_evidence, foreign_handle, stale_handle, null_handle, unknown_type, unknown_state, foreign_pid, double_stop, orphan, rowless_child, strings_full, group_lost, panic, callbacks_dropped, unstopped, net_ops_full, templates_full
2|     findings: dead_rank, late_rank, stall, slow_network, differing_operations, clock_step, nccl_memory, missing_nvlink, far_network_card, far_cpus, slow_protocol, many_small_calls, exposed_communication, warm_up_in_steps, few_p2p, slow_start_up, registration_off, transport_off, setting_overridden, setting_without_effect, debug_output
2|     events: GroupApi, CollApi, P2pApi, KernelLaunch, Group, Coll, P2p, ProxyOp, ProxyStep, ProxyCtrl, KernelCh, KernelPhase, NetPlugin, CeColl, CeSync, CeBatch, ProxyOpSendPosted, ProxyOpSendRemFifoWait, ProxyOpSendTransmitted, ProxyOpSendDone, ProxyOpRecvPosted, ProxyOpRecvReceived, ProxyOpRecvTransmitted, ProxyOpRecvDone, ProxyOpInProgress, ProxyStepSendGpuWait, ProxyStepSendPeerWait, ProxyStepSendWait, ProxyStepRecvWait, ProxyStepRecvFlushWait, ProxyStepRecvGpuWait, ProxyCtrlIdle, ProxyCtrlActive, ProxyCtrlSleep, ProxyCtrlWakeup, ProxyCtrlAppend, ProxyCtrlAppendEnd, NetPluginUpdate, KernelChStop, KernelPhaseStop, GroupStartApiStop, GroupEndApiStart, CeCollStart, CeCollComplete, CeSyncStart, CeSyncComplete, CeBatchStart, CeBatchComplete
2|     words: announced, recorded, timed, calls, warm-up, bytes, GPU time, host time, sum over ranks, share of the run, percentile, shortest, algbw, busbw, call_busbw, refused, api, enqueue, launch, kernel, proxy, outlier, network, critical path, clocks
2|     columns: nccl, line, stacks, exposed, waited, last, costs, figure, change, finding, mean_A, mean_B, calls_A, calls_B, sum_A, sum_B, p50_A, p50_B, role, members, paired_by, call_bw, mean_us, per_s, launch_us, replay_us, communication_us, exposed_us, run_s, waits_for, behind, saves_wall, loses_wall, cost_rank, inherited_rank, waited_rank, late_launch_wall, busy_gpu_wall, last_proved, peer_host, mean power, max power, energy, step energy, phase, uuid, sm_mhz, throttled, hottest, busy, cpus, busy cpus, job cpus, memory, written, sampler, calls NCCL, ran, ready, disk, blocked, long calls, preempted, idle/step, program, driver, unknown, asleep, last_call, entered_ago, entered, enqueued, launched, started, finished, seen_ago, step, wall, waiting, median, given_%, graph_%, bench_%, best_%, blind_%, alpha, beta_bw, latency, half_size, residual_%, worst_%, regime, sizes, measured, model, low, high, outside_size, outside_ranks, over ranks
[exit 2]

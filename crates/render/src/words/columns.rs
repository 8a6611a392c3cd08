//! The heads of columns of text tables, rules of recommendations, and callbacks without effect.
//!
//! Rule: a head means one thing in all tables; a test walks every table of every output.

use super::{word, Word};

/// Heads of columns that the definitions do not have.
pub const COLUMNS: &[Word] = &[
    word("nccl", "time of the rank in NCCL kernels after warm-up (without GPU times in API calls): the union \
          of its intervals, so no moment counts twice. `nccl_%` is that as a part of the rank's time."),
    word("line", "the line of the program that made the calls: the innermost frame that is in no library. \
          `ncclscope run --stacks` records it. `autograd (C++)` is PyTorch's autograd, `unknown:` says why \
          there is none."),
    word("stacks", "how many different stacks lead to the line."),
    word("exposed", "communication that a GPU does beside nothing else: no kernel computes meanwhile. From \
          kernel windows, or from how long streams stood still for calls. \
          `exposed_%` is the part of the time."),
    word("waited", "in the table of ranks: how long the rank waited for later ranks in operations that \
          nobody can leave before the last has arrived. In tables of stream waits: \
          calls that a stream waited for."),
    word("last", "operations in which the rank arrived last."),
    word("costs", "what the job would take less had this rank been as early as the others. `-` for ranks \
          that are late no more than chance gives."),
    word("figure", "which figure the row is about."),
    word("by_nccl", "calls of the CUDA driver that libnccl made, over all processes since the recorder \
          began. `by_nccl/step` is the median rank's in a step."),
    word("by_program", "calls of the CUDA driver by the program and its other libraries. \
          `by_program/step` is the median rank's in a step."),
    word("by_nccl/step", "driver calls of libnccl in a step of the median rank, from readings between which \
          the job did nothing but steps."),
    word("by_program/step", "driver calls of the program in a step of the median rank, from such readings."),
    word("counter", "what is counted before the CUDA driver."),
    word("kernel_launches", "kernels that were launched one by one. Those in CUDA graphs are launched with \
          the graph."),
    word("graph_launches", "CUDA graphs that were launched, also those without NCCL calls."),
    word("copies", "copies and fills that the host does not wait for. As a share: the time in which a GPU \
          only copied or filled."),
    word("gpu_allocations", "allocations of GPU memory at the driver. PyTorch keeps memory, so most of its \
          tensors need none."),
    word("gpu_bytes", "bytes of these allocations, before the driver rounds them up. Frees are not counted."),
    word("host_allocations", "allocations of page-locked memory of the host, and memory that was \
          page-locked later."),
    word("host_bytes", "bytes of these."),
    word("ipc_opens", "GPU memory and events of other processes that were opened. NCCL does so when it \
          connects ranks of one host."),
    word("event_syncs", "times that a thread of the host waited for an event (`cuEventSynchronize`)."),
    word("stream_syncs", "times that a thread of the host waited for a stream (`cuStreamSynchronize`)."),
    word("context_syncs", "times that a thread of the host waited for all of a GPU (`cuCtxSynchronize`), \
          and copies that wait."),
    word("module_loads", "loads of code onto the GPU, and look-ups of kernels: with CUDA's lazy loading, \
          code is loaded when a kernel is looked up or launched for the first time. A load within a \
          launch is in no count."),
    word("mappings", "calls that map GPU memory, make it accessible to other GPUs, or bind it to a multicast \
          group (`cuMemMap`, `cuMemSetAccess`, `cuMulticastBindMem` and their like)."),
    word("nccl_s", "seconds that libnccl's calls of this kind took, over all processes and threads. It is \
          measured for calls that are rare and may take long."),
    word("program_s", "seconds that the program's calls of this kind took, over all processes and threads."),
    word("proxy_wakeups", "times that NCCL's proxy threads slept and woke up, as the kernel counts them. \
          `ncclscope run` has NCCL name its threads, by which they are known."),
    word("init_s", "how long it took to make the communicator on its slowest rank, in seconds."),
    word("of_inits", "that time's share of all inits on that rank."),
    word("winner", "of two hosts: the one with the better median, if a test over all items together tells \
          them apart; `even` if it does not, `only A` or `only B` if the other has no figure, and `too few \
          starts` if no test could."),
    word("A_from", "lower end of the 95 % interval of A's median over starts."),
    word("A_to", "upper end of the 95 % interval of A's median over starts."),
    word("B_from", "lower end of the 95 % interval of B's median over starts."),
    word("B_to", "upper end of the 95 % interval of B's median over starts."),
    word("change", "B against A: a part in %, from twice on as a factor (`×3.14`), shares in points. \
          Brackets are the 95 % interval."),
    word("finding", "`slower` or `faster` beyond noise (Holm's method over all kinds), `no change found`, \
          only in one run, or `-` without an interval."),
    word("mean_A", "mean time of a call in run A, without each rank's first. `mean_B` is of run B."),
    word("mean_B", "mean time of a call in run B, without each rank's first."),
    word("calls_A", "calls in run A, over ranks. `calls_B` are in run B."),
    word("calls_B", "calls in run B, over ranks."),
    word("sum_A", "time of all calls in run A, warm-up included. `sum_B` is of run B."),
    word("sum_B", "time of all calls in run B, warm-up included."),
    word("p50_A", "median time of a call in run A. `p50_B` is of run B."),
    word("p50_B", "median time of a call in run B."),
    word("role",
        "what communicators are for, by which those of two runs are paired: name, ranks, nodes, members."),
    word("members", "the launcher's ranks in one communicator of the role."),
    word("paired_by", "what the communicators of both runs have in common."),
    word("call_bw", "short for call_busbw: the bandwidth as the program saw it, by the mean time over an \
          operation's ranks, so waiting for late ranks is in it."),
    word("mean_us", "mean time of a kernel, µs."),
    word("per_s", "launches of the graph a second, between the first and the last, of the median rank."),
    word("launch_us",
        "how long the call that launches the graph took on the host, µs: the mean of the median rank."),
    word("replay_us", "how long one replay of the graph took on the GPU, µs."),
    word("communication_us", "how much of one replay or step was communication, µs."),
    word("exposed_us", "how much of that communication was exposed: nothing computed beside it, µs."),
    word("run_s", "the rank's bubble over the whole run, s."),
    word("waits_for", "the rank that this one waits for longest in its bubble."),
    word("behind", "the rank that stands behind most of this rank's waiting: the one that it waits for may \
          wait itself."),
    word("saves_wall",
        "what operations would have ended earlier with this rank on time; other work may hide a part."),
    word("loses_wall",
        "what the run would take less with this link as fast as the median of the others."),
    word("cost_rank", "waiting of others that is charged to the rank, summed over these."),
    word("inherited_rank", "the part of `cost_rank` in which the rank was in another NCCL kernel, and so \
          late because of others."),
    word("waited_rank", "the rank's own waiting, summed over operations."),
    word("late_launch_wall",
        "the part of `saves_wall` in which the rank's launch on the host was late as well."),
    word("busy_gpu_wall",
        "the part of `saves_wall` in which the rank was launched in time, so that its GPU was busy."),
    word("last_proved", "operations in which the hosts' clocks prove that the rank arrived last."),
    word("peer_host", "the host of the rank that the link leads to."),
    word("mean power", "energy by time, of all GPUs in the row together."),
    word("max power", "the largest power that was read. NVML gives a mean over a second on most GPUs."),
    word("energy", "joules, by the GPU's own counter; by its power, integrated, if it has none."),
    word("step energy", "mean energy of a step, on all GPUs that were sampled."),
    word("phase", "a part of the run: start-up, steps, what lies between steps, and the end. In the table of \
          phases: a part that the program marked, such as `eval`."),
    word("visits", "how often a rank was in the phase, the median over ranks."),
    word("in_phase", "time that a rank spent in the phase in all, the median over ranks."),
    word("longest_stay", "time of the rank that spent most in the phase."),
    word("by_rank", "the rank that spent most time in the phase."),
    word("uuid", "the beginning of the GPU's UUID."),
    word("sm_mhz", "mean clock of the GPU's multiprocessors."),
    word("throttled",
        "the most frequent reason for low clocks, and the share of the samples in which NVML gave it."),
    word("hottest", "highest temperature of the GPU."),
    word("busy", "mean share of the time in which a kernel ran, as NVML has it."),
    word("cpus", "CPUs of the node that the sampler may use."),
    word("busy cpus", "CPUs of the node that were busy, on average, with any program."),
    word("job cpus", "CPUs that the job's processes kept busy, on average."),
    word("memory", "memory of the node that programs can't have, at most."),
    word("written", "bytes written to disks."),
    word("sampler", "CPU time of the node sampler, as a share of one core."),
    word("calls NCCL", "whether NCCL calls come from this thread."),
    word("ran", "share of the time in which the thread ran: Python or a library kept it busy."),
    word("ready", "of a thread: share of the time in which it was ready and no CPU was free for it. Of a \
          host: threads of the job in that state, on average."),
    word("disk", "share of the samples in which the thread waited for a disk."),
    word("blocked",
        "share of the time in which the thread waited for a lock, a socket, another thread, or the GPU."),
    word("long calls", "calls that took their thread longer than 50 µs, from API entry to return."),
    word("preempted", "share of the time in which the thread was ready, and the scheduler ran others: of \
          long calls, or while a GPU was idle."),
    word("idle/step", "how long the GPU was idle in a step, on average."),
    word("mpi", "the GPU was idle, and the thread that launches on it was in MPI, whatever it did there."),
    word("in_mpi", "time of the rank's threads in MPI, as a part of the time since its first communicator. \
          Calls from C, Python and Fortran count, the outermost ones only."),
    word("collective", "time in MPI's collectives, and in what makes communicators."),
    word("messages", "time in MPI's sends, receives and probes."),
    word("waits", "time in MPI's waits and tests for what was begun before."),
    word("one-sided", "time in MPI's one-sided operations and their synchronisation."),
    word("files", "time in MPI's functions for files."),
    word("mpi/step", "mean time in MPI of a step."),
    word("of_step_%", "the same as a part of the step's time."),
    word("program",
        "the GPU was idle, and the thread that launches on it ran Python or a library, not the driver."),
    word("driver", "the GPU was idle, and the thread that launches on it ran in CUDA's driver."),
    word("unknown", "the GPU was idle, and the thread that launches on it was not watched."),
    word("asleep",
        "share of the time of long calls in which the thread slept, or waited for its turn after."),
    word("last_call", "the newest call of these ranks on the communicator."),
    word("entered_ago", "how long ago that call was entered."),
    word("entered", "calls that the ranks have entered."),
    word("enqueued", "the newest call that NCCL has enqueued."),
    word("launched", "the newest call whose kernel was launched."),
    word("started", "the newest call whose kernel began, or steps of a network operation that began."),
    word("finished", "the newest call whose kernel ended."),
    word("seen_ago", "how long ago something was seen of these ranks."),
    word("step", "median time from a step's first call to the next step's."),
    word("wall", "time from the first communicator or call to the last thing seen of a rank."),
    word("waiting",
        "how much of the time was waiting for late ranks: of GPU time in NCCL, or of exposed communication."),
    word("median", "the value in the middle over ranks."),
    word("given_%", "busbw as a part of the rate that `--ceiling` gave. A rooted function may exceed 100 %, \
          because its root may be done before the others have their data. So may NVLS, which sends less."),
    word("link_%", "busbw as a part of what the links of each GPU to the others carry in one direction: its \
          NVLinks, or else PCIe. NVML or NCCL's topology file says how many links there are, and of which \
          generation."),
    word("graph_%", "busbw as a part of what NCCL expects of the graph of this algorithm over as many ranks, \
          by its own file: in the capture, or `--ceiling FILE` with that of NCCL_GRAPH_DUMP_FILE."),
    word("nccl_%", "busbw as a part of what it would be by NCCL's own estimate of the call, for the \
          algorithm and protocol that it used (`NCCLSCOPE_COSTS=on`)."),
    word("bench_%", "busbw as a part of what a benchmark's file (`--ceiling FILE`) has for the same \
          function, size and number of ranks."),
    word("best_%", "busbw as a part of the best that this function reached over as many ranks in this \
          capture, at any size. It says how far a size is from the best one, not whether that is good."),
    word("blind_%", "the blind spot: the part of a call's GPU time that lies beyond the time of its host \
          call (medians). A tool that sees host calls only does not see that part."),
    word("alpha", "α of a cost model: the latency of one step, µs. An AllReduce by a ring over n ranks \
          has 2(n-1) steps."),
    word("beta_bw", "1/β of a cost model: the bandwidth of the busiest link, GB/s, which busbw comes to \
          at large sizes."),
    word("latency", "of a cost model: the time of no bytes, which is α by the number of steps."),
    word("half_size", "the size that takes as much time for its bytes as for latency: half of the \
          bandwidth is reached there. Smaller sizes are bound by latency, larger ones by bandwidth."),
    word("residual_%", "how far a measurement is above its cost model, in % of the model; of a model, the \
          median over sizes, without sign."),
    word("worst_%", "the largest distance of a measurement from its cost model, in % of the model."),
    word("left_out_%", "the error within the measured sizes: each size is left out and interpolated from its \
          neighbours; the median over sizes, in %."),
    word("regime", "whether a size is bound by `latency` or by `bandwidth`, by its cost model."),
    word("sizes", "from the smallest size that was measured to the largest."),
    word("measured", "the time that was measured."),
    word("model", "the time by the cost model; see docs/reference/model.md."),
    word("low", "the lower end of the 95 % interval."),
    word("high", "the upper end of the 95 % interval."),
    word("outside_size", "how many times larger or smaller than any size that was measured; `within` if \
          between two."),
    word("outside_ranks", "how many times more or fewer ranks than were measured."),
    word("over ranks", "which figure the row is about: its least, median and largest rank follow."),
];

/// Rules of recommendations that are no kind of finding.
pub const RULES: &[Word] = &[
    word("slow_protocol", "a recommendation: calls of 16 MiB or more used LL, which sends a flag with \
          every four bytes of data, so it reaches half of the bandwidth at most."),
    word("many_small_calls", "a recommendation: eight or more calls of up to 1 MiB in a step (100 in a \
          run without steps), all bound by latency. Its gain is by a cost model, for buckets of 25 MB."),
    word("exposed_communication", "a recommendation: GPUs communicate for 10 % of the time or more while \
          nothing computes, and do not wait for a late rank."),
    word("few_p2p", "a recommendation: a job of collectives has a few sends and receives, which may not be \
          meant."),
    word("slow_start_up", "a recommendation: a phase of NCCL's init takes long."),
    word("registration_off", "a recommendation: buffers of calls in CUDA graphs are not registered."),
    word("unregistered_buffers", "a recommendation: NVLS can run, and large calls had buffers that are not \
          registered with NCCL."),
    word("transport_off", "a recommendation: a variable turns off a transport that ranks of this job would \
          use."),
    word("setting_overridden", "a recommendation: NCCL did not use the algorithm or protocol that was \
          asked for."),
    word("setting_without_effect", "a recommendation: a variable can't do anything in this job."),
    word("debug_output", "a recommendation: NCCL's debug output was left on."),
];

/// Callbacks without effect.
pub const ODD: &[Word] = &[
    word("foreign_handle", "a callback with a handle that this process never gave out."),
    word("stale_handle", "a callback for a call whose row was written before: late, and without harm."),
    word("null_handle", "a callback without a handle."),
    word("unknown_type", "a callback with a type of event that this profiler ABI does not define."),
    word("unknown_state",
        "a callback with a state that this profiler ABI does not define, or that does not fit."),
    word("foreign_pid", "a network operation on behalf of another process (PXN): it is that one's."),
    word("double_stop", "a stop for something that had stopped."),
    word("orphan", "a part of a call whose row is gone, or never was."),
    word("rowless_child", "a part of a call that has no row: rows ran short."),
    word("strings_full",
        "a name that found no room in the table of names, which holds 255: please report it."),
    word("group_lost", "a group whose entry was used again before its calls were written."),
    word("panic",
        "an error of the recorder, which stopped recording and left the job alone: please report it."),
    word("callbacks_dropped", "callbacks that found the buffer of mode `callbacks` full."),
    word("unstopped", "a network operation or kernel that NCCL never said to have ended."),
    word("net_ops_full", "a network operation that found no room in the table of open ones."),
    word("templates_full", "a captured call beyond the 262 144 that are told apart: if NCCL announces a \
          replay of it, the replay has no name."),
];

//! The heads of columns of tables, rules of recommendations, and callbacks without effect.
//!
//! Rule: a head means one thing in all tables; a test walks every table of every output.

use super::{word, Word};

/// Heads of columns, each with its field.
pub type Heads = &'static [(&'static str, &'static str)];

/// Heads of columns that are fields of JSON: the schema, the list whose elements are rows, and the fields in
/// these. The docstring of a field says what it is.
#[rustfmt::skip]
pub const FIELDS: &[(&str, &str, Heads)] = &[
    ("report", "ranks.rows", &[("nccl", "nccl_us")]),
    ("report", "callers", &[("line", "caller"), ("stacks", "stacks")]),
    ("report", "arrivals.ranks", &[
        ("last", "last"), ("saves_wall", "saving_wall_us"), ("cost_rank", "cost_rank_us"),
        ("inherited_rank", "inherited_rank_us"), ("waited_rank", "wait_rank_us"),
        ("late_launch_wall", "launched_late_us"), ("busy_gpu_wall", "gpu_busy_us"),
        ("last_proved", "last_proved"),
    ]),
    ("report", "driver_calls.rows", &[
        ("by_nccl", "nccl"), ("by_program", "program"), ("by_nccl/step", "nccl_per_step"),
        ("by_program/step", "program_per_step"), ("counter", "counter"), ("nccl_s", "nccl_s"),
        ("program_s", "program_s"),
    ]),
    ("report", "graphs", &[("per_s", "launches_per_second.median"), ("launch_us", "launch_call_us.median")]),
    ("report", "streams.replays", &[("replay_us", "replay_us")]),
    ("report", "streams.bubbles", &[("run_s", "bubble_run_us")]),
    ("report", "arrivals.links", &[("loses_wall", "loss_wall_us"), ("peer_host", "peer_host")]),
    ("report", "nodes.gpus", &[
        ("uuid", "uuid"), ("max power", "max_w"), ("sm_mhz", "sm_mhz"), ("throttled", "throttled"),
        ("hottest", "temperature_c"), ("busy", "busy"),
    ]),
    ("report", "nodes.rows", &[
        ("cpus", "cpus"), ("busy cpus", "cpus_busy"), ("job cpus", "job_cpus_busy"),
        ("memory", "memory_bytes"), ("read", "disk_read_bytes"), ("written", "disk_written_bytes"),
        ("sampler", "sampler_share"),
    ]),
    ("report", "nodes.threads", &[("calls NCCL", "calls_nccl"), ("ran", "running")]),
    ("report", "nodes.jitter", &[("long calls", "long"), ("longest", "longest_us"), ("asleep", "asleep")]),
    ("report", "streams.ranks", &[
        ("mpi", "idle_causes.mpi"), ("program", "idle_causes.program"), ("driver", "idle_causes.driver"),
        ("unknown", "idle_causes.unknown"),
    ]),
    ("report", "mpi.rows", &[
        ("in_mpi", "share"), ("collective", "collective_us"), ("messages", "point_to_point_us"),
        ("waits", "waits_us"), ("one-sided", "one_sided_us"), ("files", "files_us"), ("mpi/step", "step_us"),
        ("of_step_%", "step_share"),
    ]),
    ("report", "phases", &[
        ("visits", "visits.median"), ("in_phase", "time_us.median"), ("longest_stay", "time_us.max"),
        ("by_rank", "longest_rank"),
    ]),
    ("report", "recommendations", &[
        ("subject", "subject"), ("action", "action"), ("gain", "gain_us"), ("status", "status"),
    ]),
    ("model", "models", &[
        ("alpha", "alpha_us"), ("beta_bw", "beta_gb_per_s"), ("latency", "latency_us"),
        ("half_size", "half_bytes"), ("left_out_%", "left_out_p50_share"),
    ]),
    ("model", "models.samples", &[("regime", "regime")]),
    ("model", "predictions", &[
        ("outside_size", "size_outside_ratio"), ("outside_ranks", "ranks_outside_ratio"),
    ]),
    ("history", "suspects", &[
        ("blamed_in", "blamed"), ("runs_of_it", "present"), ("lost", "loss_us"), ("of_time", "share"),
        ("chance", "chance_p"), ("at_most_in", "at_most"), ("findings", "kinds"),
    ]),
    ("history", "runs", &[
        ("named", "named"), ("began", "started"), ("took", "wall_us"), ("blamed", "blamed"),
    ]),
    ("memory", "communicators.ranks", &[
        ("at_init", "init_gpu_bytes"), ("pinned", "pinned_bytes"), ("shared", "shared_bytes"),
        ("nvml", "nvml_bytes"),
    ]),
    ("bench-diff", "rows", &[
        ("A_us", "a_us"), ("B_us", "b_us"), ("A_busbw", "a_busbw_gb_per_s"), ("B_busbw", "b_busbw_gb_per_s"),
        ("A_%", "a_share"), ("B_%", "b_share"),
    ]),
    ("bench-diff", "parts", &[("B/A_low", "ratio_low"), ("B/A_high", "ratio_high")]),
];

/// Heads of columns that are no field.
pub const COLUMNS: &[Word] = &[
    word("exposed", "communication that a GPU does beside nothing else: no kernel computes meanwhile. From \
          kernel windows, or from how long streams stood still for calls. \
          `exposed_%` is the part of the time."),
    word("waited", "in the table of ranks: how long the rank waited for later ranks in operations that \
          nobody can leave before the last has arrived. In tables of stream waits: \
          calls that a stream waited for."),
    word("costs", "what the job would take less had this rank been as early as the others. `-` for ranks \
          that are late no more than chance gives."),
    word("algorithm", "what NCCL chose for the calls: algorithm and protocol."),
    word("what", "what became of calls: lost, not counted, or recorded without a GPU time."),
    word("cause", "why calls are lost or have no GPU time."),
    word("what it means, what to do", "what a cause means, and the way out."),
    word("figure", "which figure the row is about."),
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
    word("communication_us", "how much of one replay or step was communication, µs."),
    word("exposed_us", "how much of that communication was exposed: nothing computed beside it, µs."),
    word("waits_for", "the rank that this one waits for longest in its bubble."),
    word("behind", "the rank that stands behind most of this rank's waiting: the one that it waits for may \
          wait itself."),
    word("mean power", "energy by time, of all GPUs in the row together."),
    word("energy", "joules, by the GPU's own counter; by its power, integrated, if it has none."),
    word("step energy", "mean energy of a step, on all GPUs that were sampled."),
    word("phase", "a part of the run: start-up, steps, what lies between steps, and the end. In the table of \
          phases: a part that the program marked, such as `eval`."),
    word("ready", "of a thread: share of the time in which it was ready and no CPU was free for it. Of a \
          host: threads of the job in that state, on average."),
    word("disk", "share of the samples in which the thread waited for a disk."),
    word("blocked",
        "share of the time in which the thread waited for a lock, a socket, another thread, or the GPU."),
    word("preempted", "share of the time in which the thread was ready, and the scheduler ran others: of \
          long calls, or while a GPU was idle."),
    word("idle/step", "how long the GPU was idle in a step, on average."),
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
    word("residual_%", "how far a measurement is above its cost model, in % of the model; of a model, the \
          median over sizes, without sign."),
    word("worst_%", "the largest distance of a measurement from its cost model, in % of the model."),
    word("sizes", "from the smallest size that was measured to the largest."),
    word("measured", "the time that was measured."),
    word("model", "the time by the cost model; see docs/reference/model.md."),
    word("low", "the lower end of the 95 % interval."),
    word("high", "the upper end of the 95 % interval."),
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

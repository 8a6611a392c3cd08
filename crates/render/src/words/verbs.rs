//! Heads of columns of the verbs beside `report`: startup, memory, topo, tune, hostbench, judge,
//! history, and pages of diff.
//!
//! Rule: a head means one thing in all tables; a test walks every table of every output.

use super::{word, Word};

/// Heads of columns that `super::COLUMNS` does not have.
pub const VERBS: &[Word] = &[
    // startup
    word("slowest", "the longest time that any rank spent in this phase, s. In a table of first uses: the \
          most by which a rank's call took longer on its host than later ones."),
    word("use", "what a rank did for the first time: a function by an algorithm and a protocol, \
          and to or from a peer. NCCL connects ranks, loads kernels and maps buffers in such a call."),
    word("later", "how long later calls of the kind took on the host of the slowest rank, s, as a median. If \
          there are none: later calls of any kind on the communicator."),
    word("on critical path", "the part of the phase that every rank waited for: making it shorter makes \
          start-up shorter."),
    word("total", "the time in which NCCL made the communicator, all phases together."),
    word("thread", "a thread of the job: its name in the table of threads, and its number in the tables of \
          start-up."),
    word("tid", "the number of a thread, as the kernel has it."),
    word("to init", "from the start of the process to its first communicator, s: Python, imports, and the \
          way to NCCL."),
    word("plugin", "how long ncclscope's plugin took to start, s."),
    word("to first call", "from the start of the process to its first NCCL call, s."),
    word("first call", "how long the rank's first NCCL call took on the host, s. NCCL connects ranks in it."),
    word("kernels", "a phase of NCCL's init: its kernels are loaded onto the GPU. In tables of kernel \
          windows: how many kernels ran."),
    word("alloc", "a phase of NCCL's init: it allocates memory."),
    word("bootstrap", "a phase of NCCL's init: ranks meet over sockets and exchange addresses."),
    word("allgathers", "a phase of NCCL's init: ranks tell each other what they have. A rank waits here for \
          later ones."),
    word("topo", "a phase of NCCL's init: it looks for GPUs, NVLinks, PCIe switches and network cards."),
    word("graphs", "a phase of NCCL's init: it computes rings, trees and other graphs. In a table of CUDA \
          graphs: executable graphs over ranks, more than ranks if a rank made one again."),
    word("connections", "a phase of NCCL's init: ranks connect to their neighbours."),
    word("rest", "what is left of NCCL's init beside its named phases."),
    // memory
    word("gpu_memory", "GPU memory that NCCL allocated for the communicator, MiB; it never says what it \
          frees."),
    word("counted", "the most GPU memory that NCCL itself counted for the communicator, MiB: \
          `ncclCommMemStats`, from NCCL 2.29.7 on."),
    word("used_for", "what the connections are for: an algorithm, or sends and receives."),
    word("way", "the transport of a connection (P2P, SHM, NET), or the GPUs in the order of a graph."),
    word("peers", "ranks that this rank is connected to."),
    word("channels", "NCCL's channels: parallel parts of a call, each with its own connections."),
    word("outgoing", "connections over which the rank sends."),
    word("incoming", "connections over which the rank receives."),
    word("modelled", "GPU memory that these connections take by NCCL's sizes of buffers, MiB: a model."),
    word("communicators", "how many communicators the row is about."),
    // paths
    word("where", "whether both ranks are on one host."),
    word("routes", "pairs of ranks that are connected this way, in one direction."),
    word("cards", "network cards, or interfaces for sockets, at both ends."),
    word(
        "from",
        "the rank, host or device that sends. With an estimate: the lower end of its 95 % interval. With a \
         clock: what its offset rests on.",
    ),
    word(
        "to",
        "the rank, host or device that receives. With an estimate: the upper end of its 95 % interval.",
    ),
    word("from card", "the sender's network card."),
    word("to card", "the receiver's network card."),
    word("gdr", "whether the network card reads and writes the GPU's memory by itself (GPU Direct RDMA)."),
    word("best", "whether the machine has no better way, as far as NCCL's output and the topology say."),
    word("why", "why it is not the best way; the text above the table says it in words."),
    // topo
    word("label", "a device's address on the PCI bus, or the name of a network card."),
    word("numa", "the NUMA node that the device is on."),
    word("GB/s", "bandwidth of a link, 10⁹ bytes a second."),
    word("gb_per_s", "what NCCL expects of one channel of the graph within a host, GB/s."),
    word("links", "the kind of links that NCCL counts with: within a node, and between nodes."),
    // hang, clocks, power
    word("direction", "whether the rank sends or receives."),
    word("channel", "NCCL's number of the channel: a call is moved over several at the same time."),
    word("for", "for how long the network operation has been in this state."),
    word("steps_done", "steps of the network operation that ended: each moves one buffer."),
    word("drift_ppm_low", "the host's clock gains at least so much on that of the first rank's host, in \
          parts per million: proved by operations."),
    word("drift_ppm_high", "the host's clock gains at most so much, in parts per million: proved by \
          operations."),
    // diff
    word("run", "one of the runs that are compared: A, B and so on."),
    word("capture", "the folder of a recorded run."),
    word("captures", "the folders of the variant's runs."),
    word("command", "the command that was recorded."),
    word("variant", "runs with the same command, software and settings, or the same name on the command \
          line. They pool into one column."),
    // history
    word("suspect", "a rank, host, GPU or link that a finding of some run blames."),
    word("at_most", "the upper limit of the cost of a rank that no finding blames; of a suspect, summed over \
          the runs."),
    // tune
    word("setting", "the variables of NCCL that were tried together; `default` sets none."),
    word("rounds", "runs of the setting that were measured."),
    word("runs", "runs of the setting that were measured."),
    word("energy_j", "energy of the job's GPUs in a run, J: the mean over its runs."),
    word("blocks", "blocks of calls that were made with this setting within one run."),
    word("verdict", "whether the difference is beyond noise. Of tune: `faster` or `slower` than the default \
          with all settings judged together. Of judge: `within` or `above` the limit, or `undecided`, in \
          which case more rounds may decide it."),
    // hostbench
    word("item", "one figure of a host, with the same name on every host; docs/reference/hostbench.md."),
    word("unit", "the unit of the row's figures."),
    word("b/a", "host B's median divided by host A's."),
    word("better", "the host with the better median."),
    // judge
    word("profiler", "a profiler of NCCL under judgement. `none` is no profiler, and `empty` a plugin that \
          asks for every event and does nothing."),
    word("case", "the work that was done, for example calls one at a time or back to back."),
    word("of", "which calls a row of the judge counts: of a function and size, or of a rank."),
    word("done", "calls that the work made, by its own count."),
    word("matched", "calls done that the profiler recorded."),
    word("recorded_%", "`matched` in percent of `done`."),
    word("recorded_percent", "calls that the profiler recorded, in percent of those done."),
    word("duplicate", "records of a call that has another record already."),
    word("foreign", "records of calls that nobody made."),
    word("admitted", "calls that the profiler itself says that it lost."),
    word("format", "the format of the profiler's output."),
    word("by", "who measured the times: the benchmark alone (`none`), the benchmark under the profiler, or \
          the profiler."),
    word("p5", "the value that 5 % of the calls are below."),
    word("p25", "the value that a quarter of the calls are below."),
    word("p75", "the value that three quarters of the calls are below."),
    word("by_profiler", "communication time by the profiler's own times, s."),
    word("by_profiler_s", "communication time by the profiler's own times, s."),
    word("calls_timed_%", "calls that the profiler has a time for, in percent of those done."),
    word("by_bench", "communication time by the benchmark's CUDA events, s."),
    word("by_bench_s", "communication time by the benchmark's CUDA events, s."),
    word("whole_run", "time of the whole run, s."),
    word("whole_run_s", "time of the whole run, s."),
    word("share_of_run", "communication time in percent of the whole run. Calls that overlap can make it \
          more than 100 %."),
    word("own_p50", "median of the work's own times of these calls, µs."),
    word("error_p50", "median of the profiler's time less the work's own time of the same call, µs, with its \
          interval."),
    word("w1", "Wasserstein-1 distance between the profiler's times and the work's own, µs: the mean amount \
          by which a time must be moved to turn one set into the other."),
    word("w1_%", "`w1` in percent of the work's median."),
    word("shift_p50", "the profiler's median less the work's own, µs."),
    word("shift_p95", "the profiler's 95th percentile less the work's own, µs."),
    word("shift_p99", "the profiler's 99th percentile less the work's own, µs."),
    word("without", "the figure without a profiler."),
    word("with", "the figure under the profiler."),
    word("ratio", "`with` divided by `without` of the same round; the geometric mean over rounds."),
    word("interval", "the 95 % interval of the figure to the left, over rounds."),
    word("pairs", "rounds in which both runs went well."),
    word("calls/s", "how many calls a second each rank makes; `flat out` is as many as it can."),
    word("calls_per_s", "how many calls a second each rank makes: in reports the mean rank over the median \
          rank's time, in tables of bench `flat out` is as many as it can."),
    word("ch", "channels of each simulated call."),
    word("call_ns", "what the profiler's callbacks cost the thread that makes the call, ns a call, beyond an \
          empty plugin."),
    word("call_interval", "the 95 % interval of `call_ns`."),
    word("progress_ns", "what the profiler's callbacks cost NCCL's progress thread, ns a call, beyond an \
          empty plugin."),
    word("progress_interval", "the 95 % interval of `progress_ns`."),
    word("p9999_us", "one callback in 10 000 takes longer than this, µs."),
    word("p99.99_us", "one callback in 10 000 takes longer than this, µs."),
    word("max_us", "the longest single callback, µs."),
    word("own_cpu_%", "CPU time of the profiler's own threads, in percent of one core."),
    word("rss_growth_mib", "by how much the process's resident memory grew during the calls, MiB."),
    word("wall_s", "time of the run, s."),
    word("peak_mib", "resident memory of the run's largest process, MiB."),
    word("bytes/call", "bytes of the profiler's files for each call done."),
    word("output_bytes_per_call", "bytes of the profiler's files for each call done."),
    // diff of two logs of nccl-tests
    word("bound_by", "what most of the time of a call is: latency up to the size at which A's call takes \
          twice its shortest time, bandwidth beyond."),
    word("n_sizes", "sizes that are in both logs."),
    word("B/A", "time of B by that of A: above 1, B is slower. Of several sizes their geometric mean; \
          `B/A_low` and `B/A_high` are the ends of its 95 % interval."),
];

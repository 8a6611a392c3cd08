//! What is counted of the CUDA driver's calls, and of NCCL's calls that no profiler is told of, and the names
//! that the counts have in a capture.
//!
//! The recorder writes them as lines of setup, and a reader finds them by name. So a count may be added
//! anywhere in its list.

/// What is counted. Its [names](NAMES) are those in the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Kernels.
    KernelLaunch,
    /// CUDA graphs.
    GraphLaunch,
    /// Copies and fills that don't wait.
    Copy,
    /// Allocations of GPU memory.
    GpuAllocation,
    /// Bytes of these.
    GpuBytes,
    /// Allocations of memory of the host that the GPU reads, and memory made so.
    HostAllocation,
    /// Bytes of these.
    HostBytes,
    /// Memory and events of another process that were opened.
    IpcOpen,
    /// Waits for an event.
    EventSync,
    /// Waits for a stream.
    StreamSync,
    /// Waits for a whole GPU context, and copies that wait.
    ContextSync,
    /// Code that was loaded onto the GPU, and look-ups of kernels, which may load it.
    ModuleLoad,
    /// Memory that was mapped, made accessible, or bound to a multicast group.
    Mapping,
    /// Time in allocations of GPU memory, as that of the next four.
    GpuAllocationTime,
    /// Time in allocations of memory of the host.
    HostAllocationTime,
    /// Time in opening of memory and events of another process.
    IpcOpenTime,
    /// Time in loads of code.
    ModuleLoadTime,
    /// Time in mappings.
    MappingTime,
    /// NCCL's `ncclPutSignal`.
    PutSignal,
    /// NCCL's `ncclSignal`.
    Signal,
    /// NCCL's `ncclWaitSignal`.
    WaitSignal,
}

/// The names of all [`Count`]s, in their order.
pub const NAMES: [&str; 21] = [
    "kernel_launches",
    "graph_launches",
    "copies",
    "gpu_allocations",
    "gpu_bytes",
    "host_allocations",
    "host_bytes",
    "ipc_opens",
    "event_syncs",
    "stream_syncs",
    "context_syncs",
    "module_loads",
    "mappings",
    "gpu_allocations_ns",
    "host_allocations_ns",
    "ipc_opens_ns",
    "module_loads_ns",
    "mappings_ns",
    "put_signals",
    "signals",
    "wait_signals",
];

/// Those of them that count calls of the driver.
pub const OF_DRIVER: [&str; 13] = *NAMES.first_chunk().expect("it has as many");

/// Calls that are rare and may take long. Each also has a time: its name and [`NS`].
pub const TIMED: [&str; 5] = [
    "gpu_allocations",
    "host_allocations",
    "ipc_opens",
    "module_loads",
    "mappings",
];

/// Behind the name of a call, it names the time in such calls, ns.
pub const NS: &str = "_ns";

/// Calls that older recorders did not count. A recorder that does writes `timed=1` beside the counts.
pub const SINCE_TIMED: [&str; 2] = ["module_loads", "mappings"];

/// NCCL's one-sided calls. NCCL makes them without an event for profilers (2.29 to 2.32).
pub const ONE_SIDED: [&str; 3] = *NAMES.last_chunk().expect("it has as many");

/// What stands before the name of what NCCL did, and not the program.
pub const OF_NCCL: &str = "nccl.";

impl Count {
    /// What counts the time of such calls; `None` if nothing does.
    pub fn time(self) -> Option<Count> {
        Some(match self {
            Count::GpuAllocation => Count::GpuAllocationTime,
            Count::HostAllocation => Count::HostAllocationTime,
            Count::IpcOpen => Count::IpcOpenTime,
            Count::ModuleLoad => Count::ModuleLoadTime,
            Count::Mapping => Count::MappingTime,
            _ => return None,
        })
    }

    /// Whether a count with this number is a time, which is counted in ticks.
    pub fn is_time(number: usize) -> bool {
        NAMES[number].ends_with(NS)
    }
}

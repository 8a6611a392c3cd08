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
    /// NCCL's `ncclPutSignal`.
    PutSignal,
    /// NCCL's `ncclSignal`.
    Signal,
    /// NCCL's `ncclWaitSignal`.
    WaitSignal,
}

/// The names of all [`Count`]s, in their order.
pub const NAMES: [&str; 14] = [
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
    "put_signals",
    "signals",
    "wait_signals",
];

/// Those of them that count calls of the driver.
pub const OF_DRIVER: [&str; 11] = *NAMES.first_chunk().expect("it has as many");

/// NCCL's one-sided calls. NCCL makes them without an event for profilers (2.29 to 2.32).
pub const ONE_SIDED: [&str; 3] = *NAMES.last_chunk().expect("it has as many");

/// What stands before the name of what NCCL did, and not the program.
pub const OF_NCCL: &str = "nccl.";

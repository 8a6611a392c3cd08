//! What is counted of the CUDA driver's calls, and the names that the counts have in a capture.
//!
//! The recorder writes them as lines of setup, and a reader finds them by name. So a count may be added
//! anywhere in the list.

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
}

/// The names of all [`Count`]s, in their order.
pub const NAMES: [&str; 11] = [
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
];

/// What stands before the name of what NCCL did, and not the program.
pub const OF_NCCL: &str = "nccl.";

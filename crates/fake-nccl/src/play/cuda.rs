//! What the CUDA runtime of a process holds: captured graphs, and work for a thread of the driver.

use crate::nccl::Captured;
use crate::script::Call;
use std::sync::Arc;

/// Work for the thread on which the CUDA driver runs host callbacks.
pub(super) type HostCallback = Box<dyn FnOnce() + Send>;

/// A captured graph: its groups with the calls they were made of.
pub(super) type Graph = Vec<(Vec<Call>, Arc<Captured>)>;

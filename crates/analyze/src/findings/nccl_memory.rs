//! Whether NCCL takes much of a GPU's memory.

use super::{Advice, Evidence, Finding, Subject};
use crate::memory::{GpuMemory, Memory};

/// A GPU's share of memory from which on NCCL's part is a finding.
const WORTH: f64 = 0.05;

/// That NCCL takes much of a GPU: of the GPU on which it takes most.
pub(crate) fn nccl_memory(memory: &Memory) -> Option<Finding> {
    let share = |gpu: &GpuMemory| gpu.share.unwrap_or(0.0);
    let most = memory
        .gpus
        .iter()
        .reduce(|a, b| if share(b) > share(a) { b } else { a })?;
    let (of, total) = most.share.zip(most.total_bytes)?;
    let first = memory.communicators.first()?.ranks.first()?;
    (of >= WORTH).then(|| Finding {
        subject: Subject {
            hosts: vec![most.host.clone()],
            ..Subject::default()
        },
        loss: None,
        when_us: None,
        cause: None,
        evidence: Evidence::Memory {
            gpu_bytes: most.gpu_bytes,
            total_bytes: total,
            communicators: most.communicators,
            init_bytes: first.init_gpu_bytes,
            largest_bytes: first.gpu_bytes,
        },
        advice: Advice::ShareBuffers,
    })
}

//! Whether NCCL takes much of a GPU's memory.

use super::{GpuMemory, Memory};
use crate::findings::Finding;
use crate::spelling::{percent, size};

/// A GPU's share of memory from which on NCCL's part is a finding.
const WORTH: f64 = 0.05;

/// That NCCL takes much of a GPU: of the GPU on which it takes most.
pub fn finding(memory: &Memory) -> Option<Finding> {
    let share = |gpu: &GpuMemory| gpu.share.unwrap_or(0.0);
    let most = memory
        .gpus
        .iter()
        .reduce(|a, b| if share(b) > share(a) { b } else { a })?;
    let (of, total) = most.share.zip(most.total_bytes)?;
    let first = memory.communicators.first()?.ranks.first()?;
    (of >= WORTH).then(|| Finding {
        kind: "nccl_memory",
        sentence: format!(
            "NCCL's buffers take {} of a GPU's {} ({}): {} on {}.",
            size(most.gpu_bytes),
            size(total),
            percent(of),
            communicators(most.communicators),
            most.host
        ),
        wall_us: None,
        wall_interval_us: None,
        wall_at_most_us: None,
        when_us: None,
        evidence: match first.init_gpu_bytes {
            Some(init) => format!(
                "NCCL's own output sums up to that; frees are not seen. The largest communicator takes {} \
                 after its init and {} in all.",
                size(init),
                size(first.gpu_bytes)
            ),
            None => format!(
                "NCCL itself counts that. The largest communicator takes {} in all.",
                size(first.gpu_bytes)
            ),
        },
        advice: "Make fewer communicators, or split them with `splitShare`, which shares their buffers. \
                 NCCL_MAX_NCHANNELS and NCCL_BUFFSIZE make each smaller, and may cost bandwidth. `ncclscope \
                 memory` says which communicator takes what."
            .to_owned(),
    })
}

fn communicators(n: u32) -> String {
    match n {
        1 => "1 communicator".to_owned(),
        n => format!("{n} communicators"),
    }
}

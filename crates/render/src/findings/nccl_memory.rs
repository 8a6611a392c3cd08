//! That NCCL takes much of a GPU's memory.

use analyze::findings::Finding;
use analyze::spelling::{percent, plural, size};

/// The claim.
pub(super) fn sentence(of: &Finding, gpu: u64, total: u64, communicators: u32) -> String {
    format!(
        "NCCL's buffers take {} of a GPU's {} ({}): {} on {}.",
        size(gpu),
        size(total),
        percent(gpu as f64 / total as f64),
        plural(u64::from(communicators), "communicator", "communicators"),
        of.subject.hosts.first().map_or("a host", String::as_str),
    )
}

/// What it rests on.
pub(super) fn evidence(init_bytes: Option<u64>, largest_bytes: u64) -> String {
    let largest = size(largest_bytes);
    match init_bytes {
        Some(init) => format!(
            "NCCL's own output sums up to that; frees are not seen. The largest communicator takes {} after \
             its init and {largest} in all.",
            size(init)
        ),
        None => format!(
            "NCCL itself counts that. The largest communicator takes {largest} in all."
        ),
    }
}

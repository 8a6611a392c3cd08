//! That NCCL takes much of a GPU's memory.

use super::Figures;
use analyze::findings::Finding;
use analyze::spelling::{percent, plural, size};

/// What the kind is, for `ncclscope explain`.
pub(super) const ABOUT: &str =
    "NCCL's buffers take 5 % of a GPU's memory or more; `ncclscope memory` says which communicator takes \
    what.";

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

/// What it rests on, in numbers.
pub(super) fn figures(
    (gpu, total): (u64, u64),
    communicators: u32,
    init_bytes: Option<u64>,
    largest_bytes: u64,
) -> Figures {
    let mut all = vec![
        ("gpu_bytes", gpu as f64),
        ("total_bytes", total as f64),
        ("communicators", f64::from(communicators)),
        ("largest_bytes", largest_bytes as f64),
    ];
    all.extend(init_bytes.map(|bytes| ("init_bytes", bytes as f64)));
    all
}

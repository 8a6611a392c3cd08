//! That something about the links of a host costs bandwidth.

use analyze::findings::Finding;

/// What this kind is, for `ncclscope explain`.
pub(super) const MISSING_NVLINK: &str =
    "GPUs of a host have fewer NVLinks than others of it: a link is down, or its driver did not bring it \
    up.";

/// What this kind is, for `ncclscope explain`.
pub(super) const FAR_NETWORK_CARD: &str =
    "a GPU uses a network card on another socket, or has none on its own.";

/// What this kind is, for `ncclscope explain`.
pub(super) const FAR_CPUS: &str =
    "a process may run on no CPU that is beside its GPU, so its host memory and its launches cross \
    sockets.";

/// What it rests on.
pub(super) const EVIDENCE: &str =
    "NVML, the kernel's /sys, or NCCL's own files say so (`ncclscope topo`).";

/// The claim.
pub(super) fn sentence(of: &Finding, remark: &str, more: usize) -> String {
    let more = match more {
        0 => String::new(),
        n => format!(" So it is in {n} more cases."),
    };
    let host = of.subject.hosts.first().map_or("a host", String::as_str);
    format!("On {host}: {remark}{more}")
}

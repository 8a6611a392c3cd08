//! That something about the links of a host costs bandwidth.

use analyze::findings::Finding;

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

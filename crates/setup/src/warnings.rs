//! What NCCL warns of, and what a warning says about a start that failed.
//!
//! [`Warnings`] gathers the lines of level WARN of all processes. [`Warning::gravity`] tells causes from what
//! only follows from them, because the first process that fails takes the others with it.
//!
//! Rule: a warning that NCCL can do without is never called the cause of a failure.

use crate::log_line::LogLine;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// What NCCL warned of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Warning {
    /// Host name; empty if the line does not have it.
    pub host: String,
    /// Process id; 0 if the line does not have it.
    pub pid: u32,
    /// CUDA device of the thread.
    pub device: Option<u32>,
    /// Seconds since 1970, if the line has a time.
    #[serde(skip)]
    pub at_s: Option<f64>,
    /// File and line of NCCL's source.
    pub source: String,
    /// What NCCL said.
    pub text: String,
    /// Where in NCCL's source the error went on, from its next lines: `transport/net.cc:561`.
    pub through: Vec<String>,
}

/// What a warning means for a communicator that is being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gravity {
    /// It may be why the communicator was not made.
    Cause,
    /// NCCL hands on an error that it met before.
    FollowUp,
    /// Another process ended before.
    Consequence,
    /// NCCL does without.
    Harmless,
}

/// Parts of warnings that hand on an error of NCCL's own threads.
const FOLLOW_UPS: [&str; 4] = [
    "Error encountered progressing operation",
    "Failed to execute operation",
    "while polling for opId",
    "Proxy Call to rank",
];

/// Parts of warnings that another process caused.
const CONSEQUENCES: [&str; 6] = [
    "remote process exited",
    "Connection closed by remote peer",
    "Connection reset by peer",
    "Broken pipe",
    "Connection refused",
    "Accept failed",
];

/// Parts of warnings about something that NCCL can do without.
const HARMLESS: [&str; 7] = [
    "libibverbs",
    "iommu=pt",
    "numa_balancing",
    "HSA_FORCE_FINE_GRAIN_PCIE",
    "which can lead to",
    "Could not find real path",
    "Could not find: lib",
];

/// Where in NCCL's source warnings are from that it can do without: its answers to `ncclras`.
const HARMLESS_SOURCE: &str = "ras/";

impl Warning {
    /// What it means.
    pub fn gravity(&self) -> Gravity {
        let has = |parts: &[&str]| parts.iter().any(|part| self.text.contains(part));
        if has(&HARMLESS) || self.source.starts_with(HARMLESS_SOURCE) {
            Gravity::Harmless
        } else if has(&CONSEQUENCES) {
            Gravity::Consequence
        } else if has(&FOLLOW_UPS) {
            Gravity::FollowUp
        } else {
            Gravity::Cause
        }
    }

    /// Which process the connection was to, if it was closed: `Connection closed by remote peer n1<44120>`.
    pub fn lost_peer(&self) -> Option<&str> {
        let (_, peer) = self.text.split_once("by remote peer ")?;
        let name = peer.split(['<', ' ']).next()?;
        Some(name).filter(|name| !name.is_empty())
    }

    /// Bytes that could not be allocated: `Failed to CUDA calloc 536870912 bytes`.
    pub fn bytes_not_allocated(&self) -> Option<u64> {
        let text = self.text.to_ascii_lowercase();
        let is_allocation = text.contains("alloc") && text.contains("fail");
        let (before, _) = text.split_once(" bytes").filter(|_| is_allocation)?;
        before.rsplit(' ').next()?.parse().ok()
    }

    /// Whether the GPU or the host had no memory left.
    pub fn is_out_of_memory(&self) -> bool {
        self.text.to_ascii_lowercase().contains("out of memory")
            || self.bytes_not_allocated().is_some()
    }
}

/// Warnings that are kept. The first ones tell the cause.
const MOST: usize = 256;
/// Places that are kept of an error's way through NCCL.
const THROUGH: usize = 8;

/// Gathers them.
#[derive(Clone, Default)]
pub struct Warnings {
    kept: Vec<Warning>,
    /// By host and process: its last warning, while its error goes on.
    failing: BTreeMap<(String, u32), usize>,
    total: u64,
}

impl Warnings {
    /// Takes a line of level WARN.
    pub fn add(&mut self, line: &LogLine) {
        self.total += 1;
        if self.kept.len() >= MOST {
            return;
        }
        let process = (line.host.to_owned(), line.pid);
        self.failing.insert(process, self.kept.len());
        self.kept.push(Warning {
            host: line.host.to_owned(),
            pid: line.pid,
            device: line.device,
            at_s: line.at_s,
            source: line.source.to_owned(),
            text: line.text.trim().to_owned(),
            through: Vec::new(),
        });
    }

    /// Takes a line of level INFO. Functions of NCCL hand on the error of the last warning:
    /// `transport/net.cc:561 -> 1`.
    pub fn follow(&mut self, line: &LogLine) {
        if self.failing.is_empty() {
            return;
        }
        let process = (line.host.to_owned(), line.pid);
        let Some(warning) = self.failing.get(&process).copied() else {
            return;
        };
        let place = line.text.split_once(" -> ").map(|(place, _)| place.trim());
        let place = place.filter(|place| place.contains(".cc:") || place.contains(".h:"));
        let Some(place) = place else {
            self.failing.remove(&process);
            return;
        };
        let through = &mut self.kept[warning].through;
        if through.len() < THROUGH {
            through.push(place.to_owned());
        }
    }

    /// The first ones in the order of lines, and how many there were.
    pub fn finish(self) -> (Vec<Warning>, u64) {
        (self.kept, self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(text: &str) -> Warning {
        Warning {
            text: text.to_owned(),
            ..Warning::default()
        }
    }

    #[test]
    fn causes_are_told_from_consequences_and_from_what_is_harmless() {
        for (text, gravity) in [
            ("Cuda failure 2 'out of memory'", Gravity::Cause),
            ("Failed to open libibverbs.so[.1]", Gravity::Harmless),
            (
                "socketProgress: Connection closed by remote peer n1<44120>",
                Gravity::Consequence,
            ),
            (
                "NET/IB : Got completion from peer with status=12",
                Gravity::Cause,
            ),
            (
                "Could not find any local path from gpu 0 to net.",
                Gravity::Cause,
            ),
            ("Could not find real path of /sys/class", Gravity::Harmless),
            (
                "[Service thread] Error encountered progressing operation=Connect, res=2",
                Gravity::FollowUp,
            ),
        ] {
            assert_eq!(warning(text).gravity(), gravity, "{text}");
        }
        let ras = Warning {
            source: "ras/client_support.cc:160".to_owned(),
            ..warning("Call to bind failed: Address already in use")
        };
        assert_eq!(ras.gravity(), Gravity::Harmless);
        let closed = warning("socketProgress: Connection closed by remote peer n1.ibnet<44120>");
        assert_eq!(closed.lost_peer(), Some("n1.ibnet"));
    }

    #[test]
    fn a_failed_allocation_has_its_size() {
        let failed = warning("Failed to CUDA calloc 536870912 bytes");
        assert_eq!(failed.bytes_not_allocated(), Some(536_870_912));
        assert!(failed.is_out_of_memory());
        assert!(warning("Cuda failure 2 'out of memory'").is_out_of_memory());
        for text in [
            "Failed to allocate bytes",
            "alloc 3 bytes",
            "failed 3 bytes",
        ] {
            assert_eq!(warning(text).bytes_not_allocated(), None, "{text}");
        }
    }
}

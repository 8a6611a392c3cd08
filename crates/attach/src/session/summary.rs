//! What a session did, for whoever prints it.

use crate::calls::Counts;
use crate::inner::Step;
use crate::net::Connection;
use crate::probes::Losses;
use crate::rdma::Port;
use crate::sched::{Long, Sum};
use crate::Way;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// One process of a [`Summary`].
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Its number in the session, by which connections name it.
    pub index: usize,
    /// As this tool numbers it.
    pub pid: u32,
    /// As the launcher says, else its rank in its largest communicator.
    pub rank: Option<String>,
    /// Its trace file; `None` if it did not call NCCL.
    pub trace: Option<PathBuf>,
    /// What it did.
    pub counts: Counts,
    /// What the kernel had no room for.
    pub losses: Losses,
    /// Calls that had not returned at the end.
    pub open: usize,
    /// It ended before the session.
    pub ended: bool,
    /// What the scheduler did with its threads in calls, by function and thread.
    pub sums: BTreeMap<(&'static str, u32), Sum>,
    /// Its longest calls, with what the scheduler did meanwhile. They began at CLOCK_REALTIME.
    pub longest: Vec<Long>,
    /// What went on inside its inits, one by one.
    pub inits: Vec<Vec<Step>>,
    /// RDMA adapters that it has open.
    pub adapters: Vec<String>,
}

/// A library with probes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Probed {
    /// Its path, as the process that was found first has it.
    pub path: String,
    /// Its build id in hexadecimal; empty without one.
    pub build_id: String,
    /// NCCL's release.
    #[serde(rename = "nccl")]
    pub version: Option<String>,
    /// Functions with probes.
    pub functions: usize,
    /// Functions that were left out without --slow, because a probe there costs some 10 µs a call.
    pub slow: Vec<&'static str>,
    /// Functions inside NCCL's init that have symbols.
    #[serde(rename = "init_steps")]
    pub inner: usize,
}

/// What a session did.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Summary {
    pub way: Way,
    pub processes: Vec<Seen>,
    pub libraries: Vec<Probed>,
    pub seconds: f64,
    /// Of entry and return, as measured on this machine before.
    pub ns_per_call: Option<f64>,
    /// It is not known which of several processes the losses are of: all stand at the one with most calls.
    pub shared_losses: bool,
    /// Events of processes that can't be seen from here.
    pub unseen: u64,
    /// Why the last write failed.
    pub write_error: Option<String>,
    /// Whether the scheduler was watched.
    pub sched: bool,
    /// TCP connections, if they were asked for.
    pub connections: Option<Vec<Connection>>,
    /// Ports of RDMA adapters, if they were asked for.
    pub ports: Option<Vec<Port>>,
}

impl Summary {
    /// The process of this number.
    pub fn of(&self, index: usize) -> Option<&Seen> {
        self.processes.iter().find(|seen| seen.index == index)
    }

    /// What the probes cost a process: its time in them, s, and that as a share of the session's time.
    pub fn cost(&self, seen: &Seen) -> Option<(f64, f64)> {
        // Entry and return are two events.
        let seconds = seen.counts.events as f64 / 2.0 * self.ns_per_call? / 1e9;
        Some((seconds, seconds / self.seconds.max(1e-9)))
    }
}

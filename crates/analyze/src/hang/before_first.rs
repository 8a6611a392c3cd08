//! A job of which no process has made a communicator: nothing of it is recorded, and its machine is asked.

use super::verdict::{Because, ProcessName, Quiet, Verdict};
use super::{hang, Conditions, Hang};
use std::path::Path;
use tables::Capture;

/// What is known of such a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeforeFirst {
    /// Those of its processes on this machine that make communicators, as far as that can be told.
    pub processes: Vec<Starting>,
    /// Ranks of this machine, as their launcher says, that have no process.
    pub gone: Vec<u32>,
    /// For how long the job has run, ns.
    pub running_ns: Option<i64>,
    /// What NCCL's log says of its init, in one sentence.
    pub said: Option<String>,
}

/// A process before its first communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starting {
    /// Which one.
    pub name: ProcessName,
    /// It has loaded NCCL.
    pub has_nccl: bool,
    /// A signal or a debugger has stopped it.
    pub is_stopped: bool,
}

impl BeforeFirst {
    /// The processes that the others may wait for: those that are stopped, else those that have not loaded
    /// NCCL while others have. None if they may wait for ranks that are gone.
    pub fn awaited(&self) -> Vec<&Starting> {
        if !self.gone.is_empty() {
            return Vec::new();
        }
        let these = |is: &dyn Fn(&Starting) -> bool| -> Vec<&Starting> {
            self.processes.iter().filter(|of| is(of)).collect()
        };
        let stopped = these(&|of| of.is_stopped);
        let without = these(&|of| !of.has_nccl);
        match (stopped.is_empty(), without.len() < self.processes.len()) {
            (false, _) => stopped,
            (true, true) => without,
            (true, false) => Vec::new(),
        }
    }
}

/// The answer for such a job, whose capture is in `folder`.
pub fn before_first(folder: &Path, found: BeforeFirst, conditions: &Conditions) -> Hang {
    let verdict = Verdict::Quiet(Quiet {
        because: Because::BeforeFirst(found),
        named: Vec::new(),
        newest_call_ns: None,
    });
    Hang {
        capture: folder.to_owned(),
        verdict,
        ..hang(&Capture::default(), conditions)
    }
}

//! A job of which no process has made a communicator: nothing of it is recorded, and its machine is asked.

use super::limits::{ByTime, Limits};
use super::verdict::{Because, Quiet, Verdict};
use super::{hang, Conditions, Hang};
use crate::subject::ProcessId;
use crate::time::Nanos;
use std::path::Path;
use tables::Capture;

/// What is known of such a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeforeFirst {
    /// Those of its processes on this machine that make communicators, as far as that can be told.
    pub processes: Vec<Starting>,
    /// Ranks of this machine, as their launcher says, that have no process.
    pub gone: Vec<u32>,
    /// For how long the job has run.
    pub running_for: Option<Nanos>,
    /// What NCCL's log says of its init, in one sentence.
    pub said: Option<String>,
    /// For how long ranks have been in an init that others have not begun, by NCCL's log.
    pub in_init_for: Option<Nanos>,
    /// What that length says.
    pub by_time: ByTime,
}

/// A process before its first communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starting {
    /// Which one.
    pub name: ProcessId,
    /// It has loaded NCCL.
    pub has_nccl: bool,
    /// It has begun to make a communicator, by NCCL's log.
    pub in_init: bool,
    /// NCCL's log of it has lines of level INFO, so it would say so.
    pub has_log: bool,
    /// A signal or a debugger has stopped it.
    pub is_stopped: bool,
}

impl BeforeFirst {
    /// The processes that the others may wait for: those that are stopped, else those that have not begun an
    /// init or have not loaded NCCL, while others have. None if they may wait for ranks that are gone.
    pub fn awaited(&self) -> Vec<&Starting> {
        if !self.gone.is_empty() {
            return Vec::new();
        }
        let these = |is: &dyn Fn(&Starting) -> bool| -> Vec<&Starting> {
            self.processes.iter().filter(|of| is(of)).collect()
        };
        let stopped = these(&|of| of.is_stopped);
        let in_init = self.is_in_init();
        let without = these(&|of| if in_init { !of.in_init } else { !of.has_nccl });
        match (stopped.is_empty(), without.len() < self.processes.len()) {
            (false, _) => stopped,
            (true, true) => without,
            (true, false) => Vec::new(),
        }
    }

    /// Whether a process is seen to have begun an init.
    pub fn is_in_init(&self) -> bool {
        self.processes.iter().any(|of| of.in_init)
    }

    /// Whether ranks are in an init, and others that were named have not begun it.
    pub fn waits_in_init(&self) -> bool {
        self.is_in_init() && (!self.gone.is_empty() || !self.awaited().is_empty())
    }
}

/// The answer for such a job, whose capture is in `folder`.
pub fn before_first(folder: &Path, mut found: BeforeFirst, conditions: &Conditions) -> Hang {
    found.in_init_for = found.in_init_for.filter(|_| found.waits_in_init());
    // What comes before the first communicator may take long.
    // A rank whose log is quieter looks like one that has not begun.
    let all_would_say = found.awaited().iter().all(|of| of.has_log || of.is_stopped);
    found.by_time = match found.in_init_for {
        Some(_) if !all_would_say => ByTime::TooEarly,
        Some(_) => Limits::new(conditions.after, Nanos::ZERO).by_time_of_stopped(found.in_init_for),
        None => ByTime::Unknown,
    };
    let verdict = Verdict::Quiet(Quiet {
        because: Because::BeforeFirst(found),
        named: Vec::new(),
        newest_call_ago: None,
    });
    Hang {
        capture: folder.to_owned(),
        verdict,
        ..hang(&Capture::default(), conditions)
    }
}

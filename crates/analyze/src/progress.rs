//! How many collectives each process made on each communicator, and when it made the last one.
//!
//! A [`Gatherer`] takes one process after the other. [`crate::deaths`] and [`crate::standstill`] compare what
//! it has.
//!
//! Rule: of a process that lacks calls, nothing is kept, because a lower count would prove nothing.

use crate::executions::{Execution, Walk};
use crate::matching::is_collective;
use capture::live::flag;
use tables::{Capture, Process};

/// The collectives of a process on a communicator, by one of its ranks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub communicator: Option<u32>,
    /// The communicator's number in the process.
    pub uid: u32,
    pub calls: u64,
    /// The last of them, by function and bytes.
    pub last: Option<(String, Option<u64>)>,
    /// The newest time at which one was entered, ns since 1970.
    pub newest_ns: i64,
    /// Some of them are a Gather or Scatter, which are put together from sends and receives by guess.
    pub guessed: bool,
}

impl Progress {
    /// That of a rank that made no call.
    pub const NONE: Progress = Progress {
        communicator: None,
        uid: 0,
        calls: 0,
        last: None,
        newest_ns: 0,
        guessed: false,
    };
}

/// What is gathered.
#[derive(Default)]
pub struct Gatherer {
    /// By process.
    pub(crate) progress: Vec<Vec<Progress>>,
    /// By process: whether all calls that NCCL announced are here.
    pub(crate) complete: Vec<bool>,
    /// The longest pause between two calls that a process came back from, ns.
    pub(crate) longest_pause_ns: i64,
    /// When the newest call of any was entered, ns since 1970; 0 if that is not known.
    newest_ns: i64,
}

/// What is gathered of one process.
pub struct ProcessProgress {
    /// By place of the walk: whether its calls count, and whether they are put together by guess.
    counted: Vec<(bool, bool)>,
    /// By local.
    progress: Vec<Progress>,
    /// By local: the place of the last call.
    last: Vec<Option<usize>>,
    /// No call is missing so far.
    whole: bool,
    /// Announced calls so far.
    calls: u64,
    /// When the newest call of any kind was entered.
    newest_ns: i64,
    longest_pause_ns: i64,
}

impl ProcessProgress {
    /// Prepares for a process, or for the next part of one.
    pub fn new(capture: &Capture, walk: &Walk) -> ProcessProgress {
        let counted = walk.places().iter().map(|place| {
            let function = capture.names.get(place.function);
            let replayed = place.shape.is(flag::REPLAY) || place.shape.is(flag::CAPTURED);
            let counts = !replayed && function.is_some_and(is_collective);
            (counts, matches!(function, Some("Gather" | "Scatter")))
        });
        let mut progress = vec![Progress::default(); walk.locals()];
        for place in walk.places() {
            let of = &mut progress[place.local as usize];
            (of.communicator, of.uid) = (place.shape.communicator, place.shape.uid);
        }
        ProcessProgress {
            counted: counted.collect(),
            last: vec![None; progress.len()],
            progress,
            whole: true,
            calls: 0,
            newest_ns: 0,
            longest_pause_ns: 0,
        }
    }

    /// Counts a call.
    pub fn add(&mut self, local: u32, execution: &Execution) {
        let entered = execution.call.api_ns;
        self.whole &= execution.whole;
        self.calls += execution.pieces;
        if self.newest_ns != 0 && entered != 0 {
            let pause = entered.saturating_sub(self.newest_ns);
            self.longest_pause_ns = self.longest_pause_ns.max(pause);
        }
        self.newest_ns = self.newest_ns.max(entered);
        let (counts, guessed) = self.counted[execution.place];
        if counts {
            let progress = &mut self.progress[local as usize];
            progress.guessed |= guessed;
            progress.calls += 1;
            progress.newest_ns = progress.newest_ns.max(entered);
            self.last[local as usize] = Some(execution.place);
        }
    }
}

impl Gatherer {
    /// Adds a process that was walked.
    pub fn add(
        &mut self,
        capture: &Capture,
        process: &Process,
        walk: &Walk,
        plan: ProcessProgress,
    ) {
        let mut progress = plan.progress;
        for (progress, place) in progress.iter_mut().zip(plan.last) {
            progress.last = place.and_then(|place| {
                let place = &walk.places()[place];
                let function = capture.names.get(place.function)?.to_owned();
                Some((function, capture.bytes_as(place.shape, place.function)))
            });
        }
        let progress = if plan.whole { progress } else { Vec::new() };
        self.progress.push(progress);
        let announced = process.counters.as_ref().map(|counters| counters.announced);
        let complete = plan.whole && process.is_whole() && announced == Some(plan.calls);
        self.complete.push(complete);
        self.newest_ns = self.newest_ns.max(plan.newest_ns);
        self.longest_pause_ns = self.longest_pause_ns.max(plan.longest_pause_ns);
    }

    /// Takes in what was gathered of later processes.
    pub fn merge(&mut self, later: Gatherer) {
        self.progress.extend(later.progress);
        self.complete.extend(later.complete);
        self.newest_ns = self.newest_ns.max(later.newest_ns);
        self.longest_pause_ns = self.longest_pause_ns.max(later.longest_pause_ns);
    }

    /// When the newest call was entered, ns since 1970.
    pub fn newest_ns(&self) -> Option<i64> {
        (self.newest_ns != 0).then_some(self.newest_ns)
    }
}

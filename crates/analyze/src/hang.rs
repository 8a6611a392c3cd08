//! Does the job hang: who waits, in which call, and for whom?
//!
//! [`hang`] puts every rank's calls side by side (`calls`), which gives operations that some ranks are in and others
//! lack. Ranks that wait are followed to the ones that wait for nobody: those are named. What can't end by itself is a
//! hang at once: a rank that is dead or has left, calls that do not fit. All else is a hang only by time, because a rank
//! that computes for long looks like one that never comes: see [`Conditions`].
//!
//! Rule: the verdict is a function of the capture and its [`Conditions`]. Nobody is named for want of evidence: what may
//! be hidden by a missing file, lost rows or host timing is said, and [`Hang::certain`] is then false.

mod alignment;
mod calls;
mod judge;
mod liveness;
mod mismatch;
mod net_ops;
mod pattern;
mod progress;
mod reached;
mod roots;
mod say;
mod say_net_ops;
mod wait_for;
mod waits;

use crate::job::ProblemRow;
use judge::Judge;
use serde::Serialize;
use tables::Capture;

pub use liveness::State;
pub use progress::{CallRow, CommunicatorState, RankState};
pub use roots::Cause;
pub use say_net_ops::NetOpRow;

/// The format of [`Hang`].
pub const SCHEMA: &str = "ncclscope.hang/1";

const SECOND: i64 = 1_000_000_000;

/// What the system says about a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Life {
    /// It runs on this host.
    Running,
    /// It is on this host, and a signal or a debugger has stopped it.
    Stopped,
    /// It was on this host and is gone.
    Gone,
    /// It is on another host or in another pid name space.
    #[default]
    Unknown,
}

/// What the verdict depends on beside the capture.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// What is known of each process, in the capture's order; missing ones are [`Life::Unknown`].
    pub lives: Vec<Life>,
    /// From how long a wait on is a hang, ns. `None`: 120 s, and at least twice the longest pause between two calls that
    /// a rank of this job has come back from.
    pub after_ns: Option<i64>,
}

/// What kind of verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nobody waits for long.
    NoHang,
    /// Ranks made different calls at the same place.
    Mismatch,
    /// Ranks did not make a call that others are in.
    Missing,
    /// Ranks are in a call and have not launched it, as others have.
    Inside,
    /// GPUs have not begun a kernel that others run.
    NotBegun,
    /// All are in, and it does not end.
    NoProgress,
    /// Ranks wait for each other in different operations.
    Cycle,
    /// Ranks that others wait for are dead.
    Dead,
    /// Ranks that others wait for have left.
    Left,
    /// Ranks that others wait for are stopped by a signal or a debugger.
    Stopped,
    /// Ranks that others wait for write no more.
    Silent,
    /// The capture does not hold what would tell.
    Unknown,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Hang {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Whether the job hangs; null when it can't be told.
    pub hang: Option<bool>,
    /// What kind of verdict.
    pub verdict: Verdict,
    /// Whether nothing that is missing could name another rank or call.
    pub certain: bool,
    /// The verdict.
    pub sentence: String,
    /// What belongs to it.
    pub details: Vec<String>,
    /// What to do.
    pub next: String,
    /// The ranks that it names.
    pub blamed: Vec<Blamed>,
    /// The call that they lack, or are in.
    pub call: Option<CallRow>,
    /// Of a call that all are in and that does not end: why its network operations do not; null where that can't be told, or
    /// it has none.
    pub cause: Option<Cause>,
    /// Its open network operations, those first that wait for no other.
    pub net_ops: Vec<NetOpRow>,
    /// For how long others have waited, s; null when nobody does or times are not known.
    pub waited_s: Option<f64>,
    /// From how long on that is a hang, s.
    pub after_s: f64,
    /// The newest evidence: ns since 1970.
    pub as_of_ns: Option<i64>,
    /// Where each rank stands.
    pub communicators: Vec<CommunicatorState>,
    /// All operations that some ranks are in and others lack.
    pub waits: Vec<WaitRow>,
    /// What was unsound in the capture.
    pub problems: Vec<ProblemRow>,
}

/// A rank that a verdict names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blamed {
    /// The launcher's rank.
    pub global_rank: Option<u32>,
    /// Rank in the communicator.
    pub rank: Option<u32>,
    /// Host.
    pub host: String,
    /// Process.
    pub pid: u32,
    /// Its state.
    pub state: State,
}

/// An operation that some are in and others lack.
#[derive(Clone, Debug, Serialize)]
pub struct WaitRow {
    /// The operation.
    pub call: CallRow,
    /// `call`, `launch` or `start`: what is lacking.
    pub lack: &'static str,
    /// Launcher's ranks, else ranks of the communicator, that are in it.
    pub waiting: String,
    /// Those that lack it.
    pub missing: String,
    /// Since the first of them entered, s.
    pub for_s: Option<f64>,
}

/// Whether the job of `capture` hangs.
pub fn hang(capture: &Capture, conditions: &Conditions) -> Hang {
    Judge::new(capture, conditions).verdict()
}

/// To the millisecond, so that reports do not depend on how floats are printed.
fn seconds(ns: i64) -> f64 {
    (ns as f64 / 1e6).round() / 1e3
}

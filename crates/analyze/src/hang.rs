//! Does the job hang: who waits, in which call, and for whom?
//!
//! [`hang`] goes in four steps, each with types of its own:
//!
//! 1. `calls` puts every rank's calls side by side, also after lost rows (`alignment`). `reached` is how far
//!    a call came, `evidence`, `liveness` and `mpi` what is known of each process; [`RankProgress`] has all
//!    of these.
//! 2. `waits` finds operations that some ranks are in and others lack, and operations that all are in and
//!    that do not end.
//! 3. `wait_for` follows ranks that wait to those that wait for nobody. `network` does the same with the
//!    network operations of a call that does not end. `mismatch` finds calls that do not fit.
//! 4. `decide` chooses the [`Verdict`]. What can't end by itself is a hang at once: a rank that is dead or
//!    has left, calls that do not fit. All else is a hang only by time (`limits`).
//!
//! Rule: the verdict is a function of the capture and its [`Conditions`], and it is facts, not words. Nobody
//! is named for lack of evidence. What a missing file, lost rows or host timing may hide is a fact of its
//! own, and [`Verdict::certain`] is then false.

mod alignment;
mod before_first;
mod blocked;
mod calls;
mod case;
mod decide;
mod doing;
mod evidence;
mod graphs;
mod inside;
mod limits;
mod liveness;
mod mismatch;
mod network;
mod on_gpu;
mod pace;
mod pattern;
mod progress;
mod reached;
#[cfg(test)]
mod tests;
mod traffic;
mod verdict;
mod wait_for;
mod waits;
mod watch;
mod went_on;

use crate::behind::{self, Behind};
use crate::exits::{self, ExitRow, LastCall};
use crate::job::{problems, Problem};
use crate::moments::Zone;
use crate::sightings::{self, SightingRow};
use crate::time::{HostTime, Nanos};
use case::Case;
use decide::{decide, said};
use progress::{call_row, communicators};
use std::collections::BTreeSet;
use std::path::PathBuf;
use tables::Capture;

pub use before_first::{before_first, BeforeFirst, Starting};
pub use case::Conditions;
pub use doing::{Does, Doing, Stands};
pub use graphs::Launches;
pub use inside::Inside;
pub use limits::ByTime;
pub use liveness::Liveness;
pub use mismatch::{Aspect, MismatchKind};
pub use network::{Cause, Counted, Half, NetOpRow, NetSink, NetWait, Network, Stage, Unfollowed};
pub use pace::Pace;
pub use progress::{CallRow, CommunicatorProgress, Member, Members, RankProgress, Unknown};
pub use reached::Reached;
pub use tables::Life;
pub use traffic::{StuckConnection, Traffic};
pub use verdict::{
    Astray, AstrayBecause, Because, Blocked, Cycle, CycleStep, InFunction, Lacking, Mismatch,
    Outcome, Quiet, Reason, Said, SaidState, Sink, Stall, Verdict, VerdictKind,
};
pub use waits::Lack;
pub use watch::{News, Proof, Watch, PATIENCE};

/// The answer, as facts.
#[derive(Clone, Debug)]
pub struct Hang {
    /// The folder of the capture.
    pub capture: PathBuf,
    /// The tool that wrote it, if that was no recorder of ours.
    pub tool: Option<String>,
    /// What was found.
    pub verdict: Verdict,
    /// From how long on a wait is a hang.
    pub after: Nanos,
    /// Up to this length a wait is none.
    pub short: Nanos,
    /// The newest evidence.
    pub as_of: Option<HostTime>,
    /// The longest pause between two calls that a rank has come back from.
    pub longest_pause: Nanos,
    /// No process of the job is there any more.
    pub is_over: bool,
    /// The time zone of the recording.
    pub zone: Zone,
    /// How far each rank got.
    pub communicators: Vec<CommunicatorProgress>,
    /// All operations that some ranks are in and others lack: the edges of the wait-for graph.
    pub waits: Vec<WaitRow>,
    /// How often processes launched CUDA graphs with NCCL calls.
    pub launches: Vec<Launches>,
    /// What `ncclscope hang` said while the job ran, the oldest first.
    pub sightings: Vec<SightingRow>,
    /// Which processes were inside another profiler plugin.
    pub inside: Vec<Behind>,
    /// Processes that ended by a signal or with an error, the first first.
    pub exits: Vec<ExitRow>,
    /// What the threads do that the verdict is about; empty unless somebody looked.
    pub doing: Vec<Doing>,
    /// What the network does of an operation that does not end; `None` unless somebody looked.
    pub traffic: Option<Traffic>,
    /// What another tool says of processes that are not well.
    pub said: Vec<Said>,
    /// Ranks of which there is a file without a call.
    pub without_calls: Vec<u32>,
    /// What was unsound in the capture.
    pub problems: Vec<Problem>,
    /// The same job as other tools saw it.
    pub others: Vec<Hang>,
}

impl Hang {
    /// What is known of a job of which no process has made a communicator.
    pub fn before_first(&self) -> Option<&BeforeFirst> {
        match &self.verdict {
            Verdict::Quiet(Quiet {
                because: Because::BeforeFirst(found),
                ..
            }) => Some(found),
            _ => None,
        }
    }

    /// For how long the job stands still, ns; `None` if it is not seen to, or not for long.
    ///
    /// What is not in the capture could name another rank, so a wait that may end counts only if it is
    /// certain. GPUs that have not begun a call may compute, if hosts are far ahead of them.
    pub fn stands_still(&self) -> Option<Nanos> {
        let verdict = &self.verdict;
        let hangs = verdict.hang() == Some(true);
        let lasted = verdict.waited()?;
        let may_hang = match verdict {
            Verdict::Quiet(_) => false,
            Verdict::Mismatch(_) => lasted > self.short,
            Verdict::Stall(stall) if stall.outcome == Outcome::NotBegun => false,
            Verdict::Sink(_) | Verdict::Stall(_) | Verdict::Cycle(_) => verdict.hang().is_none(),
        };
        (hangs || may_hang && verdict.certain()).then_some(lasted)
    }

    /// What tells most: this, or what another tool saw if that decides and this does not, or if that names
    /// ranks and this none.
    pub fn best(&self) -> &Hang {
        let names = |hang: &&Hang| !hang.verdict.blamed().is_empty();
        let decides = |hang: &&Hang| hang.verdict.hang().is_some();
        if decides(&self) {
            return self;
        }
        let of_job = || {
            self.others
                .iter()
                .filter(|other| !self.is_another_job(other))
        };
        let decided = of_job().find(|hang| decides(hang) && names(hang));
        let named = of_job().find(names).filter(|_| !names(&self));
        decided.or(named).unwrap_or(self)
    }

    /// Whether another tool saw other processes, on other communicators. Nothing shows that if a tool does
    /// not say which processes it saw.
    pub fn is_another_job(&self, other: &Hang) -> bool {
        fn pids(of: &Hang) -> BTreeSet<u32> {
            let ranks = of.communicators.iter().flat_map(|of| &of.ranks);
            ranks
                .filter_map(|rank| tables::pid::known(rank.process.pid))
                .collect()
        }
        fn ids(of: &Hang) -> BTreeSet<&str> {
            of.communicators.iter().map(|of| of.id.as_str()).collect()
        }
        let (own, others) = (pids(self), pids(other));
        let says_who = !own.is_empty() && !others.is_empty();
        says_who && own.is_disjoint(&others) && ids(self).is_disjoint(&ids(other))
    }
}

/// An operation that some ranks are in and others lack.
#[derive(Clone, Debug)]
pub struct WaitRow {
    /// The call as one of those made it that are in it.
    pub call: CallRow,
    /// What is lacking.
    pub lack: Lack,
    /// Ranks that are in it.
    pub waiting: Members,
    /// Ranks that lack it.
    pub missing: Members,
    /// Since the first of those entered that are in it.
    pub lasted: Option<Nanos>,
}

/// Whether the job of `capture` hangs.
pub fn hang(capture: &Capture, conditions: &Conditions) -> Hang {
    of_newest(capture, conditions, None)
}

/// The same of a capture that has the newest calls only. `paces` are those of its processes, of all calls.
pub(crate) fn of_newest(
    capture: &Capture,
    conditions: &Conditions,
    paces: Option<Vec<Pace>>,
) -> Hang {
    let case = Case::new(capture, conditions, paces);
    let wait = |wait: &waits::Wait| {
        let members = |members: &Vec<usize>| Members {
            communicator: wait.communicator,
            members: members.clone(),
        };
        WaitRow {
            call: call_row(&case, wait.communicator, wait.call, wait.ordinal, wait.lane),
            lack: wait.lack,
            waiting: members(&wait.waiting),
            missing: members(&wait.missing),
            lasted: case.ago(wait.since),
        }
    };
    let verdict = decide(&case);
    // An order of calls can't be wrong for sure; if the verdict is another, nobody is told to wait in them.
    let crossed = case.crossed.iter();
    let crossed = crossed.filter(|_| matches!(verdict, Verdict::Cycle(_)));
    let mut waits: Vec<WaitRow> = case.waits.iter().chain(crossed).map(wait).collect();
    if let Verdict::Mismatch(mismatch) = &verdict {
        waits.extend(of_mismatch(mismatch));
    }
    Hang {
        capture: capture.path.clone(),
        tool: capture
            .processes
            .iter()
            .find_map(|process| process.other_tool())
            .map(str::to_owned),
        waits,
        verdict,
        after: case.limits.patience,
        short: case.limits.short,
        as_of: case.evidence.as_of,
        longest_pause: case.evidence.longest_pause,
        is_over: is_over(capture),
        zone: Zone::of(capture),
        communicators: communicators(&case),
        launches: graphs::launches(capture, case.evidence.as_of),
        sightings: sightings::rows(
            capture,
            case.evidence.active.iter().flatten().copied().max(),
        ),
        inside: behind::insides(capture),
        exits: exits::rows(capture, |index| last_call(capture, index)),
        doing: Vec::new(),
        traffic: None,
        said: said(capture),
        without_calls: without_calls(capture),
        problems: problems(capture),
        others: Vec::new(),
    }
}

/// Ranks that made calls which do not fit wait for each other, each in its own.
fn of_mismatch(mismatch: &Mismatch) -> impl Iterator<Item = WaitRow> + '_ {
    let sides = [
        (&mismatch.expected, &mismatch.most, &mismatch.odd),
        (&mismatch.made, &mismatch.odd, &mismatch.most),
    ];
    sides.into_iter().filter_map(|(call, waiting, missing)| {
        Some(WaitRow {
            call: call.clone()?,
            lack: Lack::Call,
            waiting: waiting.clone(),
            missing: missing.clone(),
            lasted: mismatch.quiet_for,
        })
    })
}

/// The last call of a process.
fn last_call(capture: &Capture, process: usize) -> Option<LastCall> {
    let process = &capture.processes[process];
    let shape = process.shapes.get(process.calls.last()?.shape as usize)?;
    Some(LastCall::of(capture, shape, shape.function))
}

/// Ranks of which another tool left a file that has no call.
fn without_calls(capture: &Capture) -> Vec<u32> {
    let of_tool = capture
        .processes
        .iter()
        .filter(|of| of.other_tool().is_some());
    let empty = of_tool.filter(|of| of.calls.is_empty() && of.fact("state").is_none());
    empty.filter_map(|process| process.rank).collect()
}

/// Whether no process of the job is there any more.
fn is_over(capture: &Capture) -> bool {
    let mut all = capture.processes.iter();
    !capture.processes.is_empty() && all.all(|process| process.ended || process.life == Life::Gone)
}

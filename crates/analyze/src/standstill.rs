//! Did the job stand still when the recording ended, and who was waited for?
//!
//! A job that hangs is often ended from outside: by a watchdog, by the user, at the end of its time. All of
//! its processes then end within moments, so none of them died first. [`of_hang`] makes a [`Standstill`] of
//! what `ncclscope hang` says of such a job.
//!
//! Rule: [`crate::hang`] decides alone, so a report and `ncclscope hang` say the same. A job that is ended in
//! the middle of a step has unfinished calls, too. So the wait must be longer than any pause between two
//! calls that a rank of this job came back from. And it must be beyond chance, by the pauses of the ranks,
//! and long enough to matter beside the run: with many short pauses, a wait of a second may be. Else it must
//! last for 5 s.

use crate::hang::{of_newest, CallRow, Conditions, Hang, Lack, Member, Mismatch, Pace, Verdict};
use crate::mismatch::{Differing, Made};
use crate::subject::ProcessId;
use crate::subject::RankId;
use crate::time::Nanos;
use std::sync::Arc;
use tables::source::Shown;
use tables::{last_calls, Call, Capture, LastCalls, Process, ReadProgress, Source};

/// Calls of all processes that are kept for the question, at most.
const MOST_CALLS: usize = 1 << 19;
/// A process may have so many of them in any case.
const LEAST_CALLS: usize = 64;
/// It may have so many more if one of them is open: as many as a host may be ahead of its GPU, and more.
const LEAST_OPEN: usize = 2048;

/// A job that stood still when the recording ended.
#[derive(Clone, Debug)]
pub struct Standstill {
    /// For how long.
    pub lasted: Nanos,
    /// Id of the communicator.
    pub communicator: String,
    /// The ranks that others waited for: those that have not made a call, or made another. Empty if it is no
    /// rank.
    pub missing: Vec<RankId>,
    /// The ranks that waited.
    pub waiting: Vec<RankId>,
    /// The number of the call on the communicator, from 1; `None` if it has none.
    pub call: Option<u64>,
    /// The ranks that are missing have not made that call, and wait for nobody.
    pub is_lacked: bool,
    /// All that is known of it.
    pub hang: Arc<Hang>,
}

impl Standstill {
    /// Whether it is at these calls: ranks made others than the rest, and nobody got on.
    pub(crate) fn is_at(&self, of: &Differing) -> bool {
        let Verdict::Mismatch(Mismatch {
            made: Some(made),
            expected: Some(expected),
            ..
        }) = &self.hang.verdict
        else {
            return false;
        };
        let is = |row: &CallRow, made: &Made| {
            let aspects = (&row.function, &row.datatype, row.bytes, row.root);
            aspects == (&made.function, &made.datatype, made.bytes, made.root)
        };
        let (one, other) = (&of.made, &of.against_made);
        let same = is(made, one) && is(expected, other) || is(made, other) && is(expected, one);
        same && self.communicator == of.communicator
    }
}

impl PartialEq for Standstill {
    /// All that is known of it follows from the same capture.
    fn eq(&self, other: &Standstill) -> bool {
        let of = |of: &Standstill| (of.lasted, of.call, of.is_lacked);
        of(self) == of(other)
            && self.communicator == other.communicator
            && self.missing == other.missing
            && self.waiting == other.waiting
    }
}

/// How many calls of each process of `capture` are kept, until all have been looked at. 0 if nobody asks
/// whether it stood still: all processes came to their end, or another tool's files show no open call.
pub(crate) fn kept_calls(capture: &Capture) -> usize {
    let all = &capture.processes;
    let is_asked = capture.part.is_none()
        && (capture.attempt.is_some() || capture.attempts.len() < 2)
        && all.iter().all(|process| process.other_tool().is_none())
        && all.iter().any(|process| !process.ended);
    if is_asked {
        most_calls(capture)
    } else {
        0
    }
}

/// How many calls of each process are kept, until all have been looked at.
fn most_calls(capture: &Capture) -> usize {
    (MOST_CALLS / capture.processes.len().max(1)).max(LEAST_CALLS)
}

/// Whether the job of a capture hangs, which need not fit in memory. Returns the capture without calls, too.
pub fn hang_from(
    source: Source,
    conditions: &Conditions,
    progress: &ReadProgress,
) -> (Hang, Capture) {
    let most = most_calls(source.capture());
    let add = |all: &mut Vec<ProcessCalls>, _: &Capture, process: &Process, shown: Shown| {
        if shown.first {
            all.push(ProcessCalls::default());
        }
        if let Some(of) = all.last_mut() {
            of.add(process, most, shown.last);
        }
    };
    let (parts, mut capture) = source.fold(progress, Vec::new, add);
    let mut kept = Gatherer::default();
    parts.into_iter().flatten().for_each(|of| kept.add(of));
    let hang = kept.look(&mut capture, conditions);
    (hang, capture)
}

/// What is kept of the calls of consecutive processes.
#[derive(Debug, Default)]
pub(crate) struct Gatherer {
    last: Vec<LastCalls>,
    paces: Vec<Pace>,
}

/// What is kept of one process.
#[derive(Debug, Default)]
pub(crate) struct ProcessCalls {
    last: LastCalls,
    pace: Pace,
}

impl ProcessCalls {
    /// Adds a part of the process, of which `most` calls are kept. 0 if nobody asks.
    pub fn add(&mut self, process: &Process, most: usize, is_last: bool) {
        if most == 0 {
            return;
        }
        let add = |call: &Call| self.pace.add(call);
        process.calls.iter().for_each(add);
        self.last.add(process, most.max(LEAST_OPEN));
        if is_last {
            self.last.shrink(most);
        }
    }
}

impl Gatherer {
    /// Adds a process.
    pub fn add(&mut self, of: ProcessCalls) {
        self.last.push(of.last);
        self.paces.push(of.pace);
    }

    /// Takes in what was kept of later processes.
    pub fn merge(&mut self, later: Gatherer) {
        self.last.extend(later.last);
        self.paces.extend(later.paces);
    }

    /// Whether the job stood still. Of `capture`, everything but the calls is there.
    pub fn standstill(self, capture: &mut Capture) -> Option<Standstill> {
        if kept_calls(capture) == 0 {
            return None;
        }
        of_hang(self.look(capture, &Conditions::default()))
    }

    /// What `ncclscope hang` says.
    fn look(self, capture: &mut Capture, conditions: &Conditions) -> Hang {
        let paces = Some(self.paces);
        let look = |capture: &Capture| of_newest(capture, conditions, paces);
        last_calls::lend(capture, self.last, look)
    }
}

/// Whether the job of a capture in memory stood still.
pub(crate) fn of_capture(capture: &Capture) -> Option<Standstill> {
    if kept_calls(capture) == 0 {
        return None;
    }
    of_hang(of_newest(capture, &Conditions::default(), None))
}

/// What `ncclscope hang` says, if the job stood still.
fn of_hang(hang: Hang) -> Option<Standstill> {
    let lasted = hang.stands_still()?;
    let call = hang.verdict.call();
    let blamed = hang.verdict.blamed();
    let communicator = call.map(|call| call.communicator);
    let communicator = communicator.or_else(|| Some(blamed.first()?.communicator))?;
    let waiting: Vec<Member> = match &hang.verdict {
        Verdict::Sink(sink) => sink.waiting.iter().collect(),
        Verdict::Mismatch(mismatch) => mismatch.most.iter().collect(),
        Verdict::Stall(stall) => stall.ranks.iter().collect(),
        Verdict::Cycle(cycle) => cycle.steps.iter().map(|step| step.waiting).collect(),
        Verdict::Quiet(_) => Vec::new(),
    };
    let ids = |members: &[Member]| {
        let id = |member: &Member| {
            let rank = &hang.communicators[member.communicator].ranks[member.member];
            RankId {
                process: ProcessId {
                    rank: rank.global_rank,
                    host: rank.process.host.clone(),
                    pid: rank.process.pid,
                },

                ..RankId::default()
            }
        };
        let mut ids: Vec<RankId> = members.iter().map(id).collect();
        ids.sort_by_key(|id| (id.process.rank, id.process.pid));
        ids.dedup();
        ids
    };
    Some(Standstill {
        lasted,
        communicator: hang.communicators[communicator].id.clone(),
        missing: ids(&blamed),
        waiting: ids(&waiting),
        call: call.and_then(|call| call.number),
        is_lacked: matches!(&hang.verdict, Verdict::Sink(sink) if sink.lack == Lack::Call),
        hang: Arc::new(hang),
    })
}

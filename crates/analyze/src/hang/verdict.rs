//! What was found of a job that may hang, with its evidence.
//!
//! A [`Verdict`] is one of five findings. Ranks made different calls ([`Mismatch`]). Ranks lack an operation
//! that others wait in ([`Sink`]). An operation that all are in does not end ([`Stall`]). Ranks wait for each
//! other ([`Cycle`]). Nobody is seen to wait ([`Quiet`]). Each has all that a sentence about it needs.
//! [`Kind`] is its name in JSON.
//!
//! Rule: everything is decided here or before. What prints a verdict chooses words, and nothing else.

use super::before_first::BeforeFirst;
use super::limits::ByTime;
use super::mismatch::{Aspect, MismatchKind};
use super::network::{Cause, Network};
use super::progress::{CallRow, Member, Members};
use super::waits::Lack;
use crate::sightings::SightingRow;
use crate::subject::ProcessId;
use crate::time::Nanos;

/// What was found.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Ranks made different calls at the same place.
    Mismatch(Mismatch),
    /// Ranks lack an operation that others are in, and wait for nobody themselves.
    Sink(Sink),
    /// All ranks are in an operation, and it is seen not to end.
    Stall(Stall),
    /// Ranks wait for each other in different operations.
    Cycle(Cycle),
    /// Nobody is seen to wait.
    Quiet(Quiet),
}

/// The kind of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerdictKind {
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
    /// The capture does not hold what would decide.
    Unknown,
}

impl VerdictKind {
    /// Whether it says of the same calls what was said in a sighting.
    pub fn agrees(self, seen: &SightingRow) -> bool {
        let says_who = !matches!(self, VerdictKind::NoHang | VerdictKind::Unknown);
        says_who && seen.verdict == self.name() && !seen.calls_since
    }

    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            VerdictKind::NoHang => "no_hang",
            VerdictKind::Mismatch => "mismatch",
            VerdictKind::Missing => "missing",
            VerdictKind::Inside => "inside",
            VerdictKind::NotBegun => "not_begun",
            VerdictKind::NoProgress => "no_progress",
            VerdictKind::Cycle => "cycle",
            VerdictKind::Dead => "dead",
            VerdictKind::Left => "left",
            VerdictKind::Stopped => "stopped",
            VerdictKind::Silent => "silent",
            VerdictKind::Unknown => "unknown",
        }
    }
}

/// Ranks that made different calls at the same place of a communicator.
#[derive(Clone, Debug)]
pub struct Mismatch {
    /// Those that went astray.
    pub odd: Members,
    /// The others.
    pub most: Members,
    /// Nothing shows which of the two went astray.
    pub tied: bool,
    /// How their calls come to differ.
    pub how: MismatchKind,
    /// The call that the odd ones made there.
    pub made: Option<CallRow>,
    /// The call that the others made there.
    pub expected: Option<CallRow>,
    /// What differs between these two; `None` if one of them is not known.
    pub differ_in: Option<Vec<Aspect>>,
    /// How long ago any rank of the communicator made its newest call.
    pub quiet_for: Option<Nanos>,
    /// Whether it is a hang; `None` if ranks made calls until lately, or times are not known.
    pub hang: Option<bool>,
    /// Of the communicator not all is known.
    pub partial: bool,
}

/// Ranks that others wait for, and that wait for nobody themselves: a sink of the wait-for graph.
#[derive(Clone, Debug)]
pub struct Sink {
    /// The ranks.
    pub ranks: Members,
    /// Why they do not come, by their first.
    pub reason: Reason,
    /// What they lack of the call.
    pub lack: Lack,
    /// The call as they should make it: a send's other half is a receive.
    pub call: CallRow,
    /// Ranks that are in it.
    pub waiting: Members,
    /// For how long the first of these has waited.
    pub lasted: Option<Nanos>,
    /// They may lack an earlier call with ranks that are not in the capture.
    pub may_lack_earlier: bool,
    /// They may wait themselves, on this communicator, for ranks of which not all is known.
    pub may_wait_on: Option<usize>,
    /// They may wait themselves in this call: all are in it, and it may be behind the one that they lack.
    pub may_wait_in: Option<CallRow>,
    /// Their GPUs may stand in a CUDA graph that others did not launch: not all launches were seen.
    pub may_be_in_graph: bool,
    /// The first of them died before the others, and nobody saw that: it may have been stopped until all were
    /// killed.
    pub may_be_stopped: bool,
    /// The later call that the first of them made instead, and that does not end for want of the others.
    pub went_on: Option<CallRow>,
    /// Sinks apart from this one.
    pub others: Vec<Lacking>,
}

/// Why ranks do not come to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// They are dead.
    Dead,
    /// They have ended their recording.
    Ended,
    /// They have destroyed the communicator.
    Destroyed,
    /// A signal or a debugger has stopped them.
    Stopped(ByTime),
    /// They write no more.
    Silent(ByTime),
    /// They run, and do something else.
    Running(ByTime),
}

/// Ranks and a call that they lack.
#[derive(Clone, Debug)]
pub struct Lacking {
    /// The ranks.
    pub ranks: Members,
    /// What they lack of it.
    pub lack: Lack,
    /// The call as they should make it.
    pub call: CallRow,
}

/// An operation that all known ranks are in and that is seen not to end.
#[derive(Clone, Debug)]
pub struct Stall {
    /// The operation; of sends and receives the one that the first network sink belongs to.
    pub call: CallRow,
    /// Ranks that are seen to be in it: all, but for sends and receives.
    pub ranks: Members,
    /// It is a send or receive.
    pub piece: bool,
    /// What is known of it.
    pub outcome: Outcome,
    /// For how long nothing of it has moved.
    pub lasted: Option<Nanos>,
    /// What that length says.
    pub by_time: ByTime,
    /// It may only be behind an operation on another communicator.
    pub may_be_behind: bool,
    /// What the network did for it.
    pub network: Network,
}

/// What is known of an operation that all known ranks are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This member is dead.
    Dead(usize),
    /// A signal or a debugger has stopped this member.
    Stopped(usize),
    /// It goes on, or stopped moving only lately.
    GoesOn,
    /// Ranks of which not all is known may not be in it.
    Unknown,
    /// No rank has launched it.
    NotLaunched,
    /// All ranks have launched it, and the GPU of none has begun it.
    NotBegun,
    /// It makes no progress.
    Stuck,
}

/// Ranks that wait for each other, each in another operation.
#[derive(Clone, Debug)]
pub struct Cycle {
    /// Round the ring, from its lowest rank on.
    pub steps: Vec<CycleStep>,
    /// All steps are on one communicator.
    pub one_communicator: bool,
    /// The rank that went astray, if one rank alone is seen to have done so.
    pub astray: Option<Astray>,
    /// The ranks that made these calls in a new order, if all ranks made all of them.
    pub turned: Vec<Member>,
    /// Since the newest of these waits began, or one of the ranks was active.
    pub lasted: Option<Nanos>,
    /// What that length says.
    pub by_time: ByTime,
    /// Of one of the communicators not all is known.
    pub partial: bool,
}

/// A rank of a cycle, the call that it waits in, and the rank that it waits for.
#[derive(Clone, Debug)]
pub struct CycleStep {
    /// The rank.
    pub waiting: Member,
    /// Its call.
    pub call: CallRow,
    /// The rank that it waits for.
    pub missing: Member,
}

/// Why one rank of a cycle is the one that went astray.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AstrayBecause {
    /// Without it no ranks would wait for each other, and of no other rank this is true.
    OnEveryCycle,
    /// It alone came to its call in a new order.
    NewOrder,
}

/// The rank of a cycle that went astray.
#[derive(Clone, Debug)]
pub struct Astray {
    /// What shows it.
    pub because: AstrayBecause,
    /// Index into [`Cycle::steps`].
    pub step: usize,
    /// The call that it left out.
    pub lacked: CallRow,
    /// Ranks that wait in it.
    pub waiting: Members,
}

/// A job in which nobody is seen to wait.
#[derive(Clone, Debug)]
pub struct Quiet {
    /// What can be said of it.
    pub because: Because,
    /// The ranks of those processes.
    pub named: Vec<Member>,
    /// How long ago any rank made its newest call or launched a CUDA graph.
    pub newest_call_ago: Option<Nanos>,
}

/// What can be said of a job in which nobody is seen to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Because {
    /// All communicators of the capture have ended.
    Over,
    /// `ncclscope attach` came after the communicators were made, so nobody is seen to wait. Who is in a call
    /// for longest, and for how long.
    FromOutside(Option<(ProcessId, Nanos)>),
    /// These processes are stopped.
    Stopped(Vec<ProcessId>),
    /// These processes are dead, and perhaps others will wait for them.
    Dead(Vec<ProcessId>),
    /// What another tool says of a process's state.
    Said(Said),
    /// No process has made a communicator.
    BeforeFirst(BeforeFirst),
    /// Ranks are making or ending a communicator, or are in MPI.
    Blocked(Blocked),
    /// Ranks made calls until lately, or until all processes were killed.
    Active {
        /// All of them were.
        all_killed: bool,
    },
    /// Somebody changed the mask of NCCL's profiler, so not all calls were announced.
    NotAnnounced,
    /// These processes write no more.
    Silent(Vec<ProcessId>),
    /// Of this communicator not all is known.
    Partial(usize),
    /// All ranks have made the same calls, and their GPUs have ended the last ones; so many ranks. `true` if
    /// that was lately, by what counts as a hang.
    Finished(usize, bool),
    /// All ranks have made the same calls, and nothing shows whether their GPUs have ended them: ranks of the
    /// largest communicator.
    NotRecorded(usize),
}

/// Ranks inside of functions of NCCL's that make and end communicators, or of MPI's, in a job that stands
/// still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The functions with the ranks that are inside, most ranks first.
    pub inside: Vec<InFunction>,
    /// The others, for which they may wait.
    pub outside: Vec<ProcessId>,
    /// Some may wait for ranks that are known: for those outside, or for few that are in another function.
    pub names_some: bool,
    /// Since the last of them went in, or a rank made a call.
    pub lasted: Nanos,
    /// What that length says.
    pub by_time: ByTime,
}

/// Ranks that are inside of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFunction {
    /// As in `nccl.h` or `mpi.h`.
    pub function: String,
    /// The ranks.
    pub ranks: Vec<ProcessId>,
}

/// What another tool says of processes that are not well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// What they are.
    pub state: SaidState,
    /// In the tool's words.
    pub text: String,
    /// The processes.
    pub of: Vec<ProcessId>,
}

/// The state of a process in another tool's words; the first explains those after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SaidState {
    /// NCCL returned an error to it.
    Failed,
    /// It is still in `ncclCommInit`.
    InInit,
    /// It did not answer.
    NoAnswer,
}

impl Verdict {
    /// Its kind.
    pub fn kind(&self) -> VerdictKind {
        match self {
            Verdict::Mismatch(_) => VerdictKind::Mismatch,
            Verdict::Sink(sink) => sink.kind(),
            Verdict::Stall(stall) => match stall.outcome {
                Outcome::Dead(_) => VerdictKind::Dead,
                Outcome::Stopped(_) => VerdictKind::Stopped,
                Outcome::Unknown => VerdictKind::Unknown,
                Outcome::GoesOn | Outcome::NotLaunched | Outcome::NotBegun | Outcome::Stuck => {
                    VerdictKind::NoProgress
                }
            },
            Verdict::Cycle(cycle) => match cycle.astray {
                Some(_) => VerdictKind::Missing,
                None => VerdictKind::Cycle,
            },
            Verdict::Quiet(quiet) => match quiet.because {
                Because::Over | Because::Active { .. } | Because::Finished(_, true) => {
                    VerdictKind::NoHang
                }
                Because::Stopped(_) => VerdictKind::Stopped,
                Because::Silent(_) => VerdictKind::Silent,
                Because::Blocked(ref found) if !found.names_some => VerdictKind::NoProgress,
                Because::Blocked(_) => VerdictKind::Missing,
                Because::BeforeFirst(ref found) if found.waits_in_init() => VerdictKind::Missing,
                Because::FromOutside(_)
                | Because::Dead(_)
                | Because::Said(_)
                | Because::BeforeFirst(_)
                | Because::NotAnnounced
                | Because::Partial(_)
                | Because::Finished(_, false)
                | Because::NotRecorded(_) => VerdictKind::Unknown,
            },
        }
    }

    /// Whether the job hangs; `None` if that can't be told.
    pub fn hang(&self) -> Option<bool> {
        match self {
            Verdict::Mismatch(mismatch) => mismatch.hang,
            Verdict::Sink(sink) => match sink.reason {
                Reason::Dead | Reason::Ended | Reason::Destroyed => Some(true),
                Reason::Stopped(by_time) | Reason::Silent(by_time) | Reason::Running(by_time) => {
                    by_time.hang()
                }
            },
            Verdict::Stall(stall) => match stall.outcome {
                Outcome::Dead(_) => Some(true),
                Outcome::Unknown => None,
                Outcome::Stopped(_)
                | Outcome::GoesOn
                | Outcome::NotLaunched
                | Outcome::NotBegun
                | Outcome::Stuck => stall.by_time.hang(),
            },
            Verdict::Cycle(cycle) => cycle.by_time.hang(),
            Verdict::Quiet(quiet) => match &quiet.because {
                Because::Blocked(found) => found.by_time.hang(),
                Because::BeforeFirst(found) => found.by_time.hang(),
                _ => (self.kind() == VerdictKind::NoHang).then_some(false),
            },
        }
    }

    /// Whether nothing that is missing from the capture could name another rank or call.
    pub fn certain(&self) -> bool {
        match self {
            Verdict::Mismatch(mismatch) => !mismatch.partial,
            Verdict::Sink(sink) => {
                let silent = matches!(sink.reason, Reason::Silent(_));
                let waits = sink.may_wait_on.is_some() || sink.may_wait_in.is_some();
                let other = sink.may_be_in_graph || sink.may_be_stopped;
                !waits && !silent && !other && !sink.may_lack_earlier
            }
            Verdict::Stall(stall) => {
                let clear = !stall.may_be_behind && !stall.network.is_unclear();
                clear && stall.outcome != Outcome::Unknown
            }
            Verdict::Cycle(cycle) => !cycle.partial,
            // Which ranks belong to a communicator that is not made yet is not known.
            Verdict::Quiet(quiet) => {
                let of_init =
                    matches!(quiet.because, Because::Blocked(_) | Because::BeforeFirst(_));
                self.hang().is_some() && !of_init
            }
        }
    }

    /// The ranks that it names.
    pub fn blamed(&self) -> Vec<Member> {
        match self {
            Verdict::Mismatch(mismatch) => {
                let most = mismatch.most.iter().filter(|_| mismatch.tied);
                mismatch.odd.iter().chain(most).collect()
            }
            Verdict::Sink(sink) => sink.ranks.iter().collect(),
            Verdict::Stall(stall) => {
                let sink = stall.network.sinks.first();
                let members = match (stall.outcome, sink) {
                    (Outcome::Dead(member) | Outcome::Stopped(member), _) => vec![member],
                    (Outcome::Stuck, Some(sink)) => sink.members.clone(),
                    _ => Vec::new(),
                };
                let communicator = stall.ranks.communicator;
                let member = |member| Member {
                    communicator,
                    member,
                };
                members.into_iter().map(member).collect()
            }
            Verdict::Cycle(cycle) => match &cycle.astray {
                Some(astray) => vec![cycle.steps[astray.step].waiting],
                None if !cycle.turned.is_empty() => cycle.turned.clone(),
                None => cycle.steps.iter().map(|step| step.waiting).collect(),
            },
            Verdict::Quiet(quiet) => quiet.named.clone(),
        }
    }

    /// The call that they lack, or are in.
    pub fn call(&self) -> Option<&CallRow> {
        match self {
            Verdict::Mismatch(mismatch) => mismatch.expected.as_ref(),
            Verdict::Sink(sink) => Some(&sink.call),
            Verdict::Stall(stall) => Some(&stall.call),
            Verdict::Cycle(cycle) => match &cycle.astray {
                Some(astray) => Some(&astray.lacked),
                None => cycle.steps.first().map(|step| &step.call),
            },
            Verdict::Quiet(_) => None,
        }
    }

    /// For how long others have waited, ns; `None` if nobody does, or times are not known.
    pub fn waited(&self) -> Option<Nanos> {
        match self {
            Verdict::Mismatch(mismatch) => mismatch.quiet_for,
            Verdict::Sink(sink) => sink.lasted,
            Verdict::Stall(stall) => stall.lasted,
            Verdict::Cycle(cycle) => cycle.lasted,
            Verdict::Quiet(quiet) => match &quiet.because {
                Because::Blocked(found) => Some(found.lasted),
                Because::BeforeFirst(found) => found.in_init_for,
                _ => None,
            },
        }
    }

    /// Why the network operations of a call do not go on that all ranks are in; `None` if that can't be told,
    /// or it has none.
    pub fn cause(&self) -> Option<Cause> {
        match self {
            Verdict::Stall(stall) => stall.network.cause(),
            _ => None,
        }
    }
}

impl Sink {
    fn kind(&self) -> VerdictKind {
        match (self.reason, self.lack) {
            (Reason::Dead, _) => VerdictKind::Dead,
            (Reason::Ended | Reason::Destroyed, _) => VerdictKind::Left,
            (Reason::Stopped(_), _) => VerdictKind::Stopped,
            (Reason::Silent(_), _) => VerdictKind::Silent,
            (Reason::Running(_), Lack::Call) => VerdictKind::Missing,
            (Reason::Running(_), Lack::Launch) => VerdictKind::Inside,
            (Reason::Running(_), Lack::Start) => VerdictKind::NotBegun,
        }
    }
}

//! Rank progress: how far each rank got on each communicator.
//!
//! [`communicators`] gives a [`CommunicatorProgress`] for each communicator of the capture, in its order,
//! with a [`RankProgress`] for each rank that the capture holds. All other facts of a verdict name ranks by
//! their places in these lists: a [`Member`], or [`Members`] of one communicator. A call is named by a
//! [`CallRow`].
//!
//! Rule: what was not recorded is `None`. What the capture does not hold of a communicator's ranks is
//! [`Unknown`], and nothing is concluded from it.

use super::calls::{CommunicatorCalls, Lane, RankCalls, LANES};
use super::case::Case;
use super::inside::{calling_thread, in_mpi, in_nccl, Inside};
use super::liveness::Liveness;
use super::reached::{known, Reached};
use crate::subject::ProcessId;
use crate::time::Nanos;
use std::collections::{BTreeMap, BTreeSet};
use tables::exit::Exit;
use tables::sightings::LastSeen;

/// A communicator and how far its ranks got.
#[derive(Clone, Debug)]
pub struct CommunicatorProgress {
    /// Its id.
    pub id: String,
    /// Name given by the program.
    pub name: Option<String>,
    /// Number of its ranks.
    pub nranks: Option<u32>,
    /// All its ranks in the capture have destroyed it.
    pub over: bool,
    /// Its ranks have numbers that are the same on all communicators ([`RankProgress::number`]).
    pub numbered: bool,
    /// What the capture does not hold of its ranks; `None` if it holds all.
    pub unknown: Option<Unknown>,
    /// Its ranks that the capture holds.
    pub ranks: Vec<RankProgress>,
}

/// What the capture does not hold of a communicator's ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// So many ranks are absent: nothing of them is in the capture.
    Absent {
        /// How many.
        count: u32,
        /// Their ranks in the communicator; empty if they can't be named.
        ranks: Vec<u32>,
    },
    /// Lost rows hide which calls of these members stand beside which of the others.
    Unaligned(Vec<usize>),
    /// Some rows of some rank are lost.
    Lost,
}

/// How far one rank got: its last call that came to each stage.
#[derive(Clone, Debug)]
pub struct RankProgress {
    /// Its process.
    pub process: ProcessId,
    /// The launcher's rank.
    pub global_rank: Option<u32>,
    /// Its number for people: the launcher's rank. If a process has several ranks, it is that in the
    /// communicator that all ranks are on, else that in its own communicator.
    pub number: Option<u32>,
    /// The thread that made its newest call.
    pub thread: Option<u32>,
    /// Its state.
    pub state: Liveness,
    /// What was seen of it when it was stopped, if that can't be asked any more.
    pub was_stopped: Option<LastSeen>,
    /// It died before the others, and nobody saw that: it may have been stopped until all were killed.
    pub has_unseen_end: bool,
    /// How it ended, if `ncclscope run` saw that.
    pub exit: Option<Exit>,
    /// How old the newest evidence of it is, by that of the capture.
    pub evidence_age: Option<Nanos>,
    /// The call of MPI that it is in.
    pub in_mpi: Option<Inside>,
    /// The call of NCCL's that it is in, and that makes or ends a communicator.
    pub in_nccl: Option<Inside>,
    /// The last call that it entered.
    pub entered: Option<CallRow>,
    /// How far that call came.
    pub came: Option<Reached>,
    /// The last that NCCL enqueued.
    pub enqueued: Option<CallRow>,
    /// The last that was launched, or returned.
    pub launched: Option<CallRow>,
    /// The last that the GPU began.
    pub started: Option<CallRow>,
    /// The last that the GPU ended.
    pub finished: Option<CallRow>,
}

impl RankProgress {
    /// The call of MPI that it is in, or else that of NCCL's.
    pub fn inside(&self) -> Option<&Inside> {
        self.in_mpi.as_ref().or(self.in_nccl.as_ref())
    }
}

/// A member of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Index into [`super::Hang::communicators`].
    pub communicator: usize,
    /// Index into its [`CommunicatorProgress::ranks`].
    pub member: usize,
}

/// Members of one communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    /// Index into [`super::Hang::communicators`].
    pub communicator: usize,
    /// Indexes into its [`CommunicatorProgress::ranks`].
    pub members: Vec<usize>,
}

impl Members {
    /// One member.
    pub fn one(communicator: usize, member: usize) -> Members {
        Members {
            communicator,
            members: vec![member],
        }
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Member> + '_ {
        let member = |member: &usize| Member {
            communicator: self.communicator,
            member: *member,
        };
        self.members.iter().map(member)
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

/// A call as one rank made it.
#[derive(Clone, Debug, PartialEq)]
pub struct CallRow {
    /// Index into [`super::Hang::communicators`].
    pub communicator: usize,
    /// Number of the call on the communicator from 1, replays apart; `None` for sends, receives and after
    /// lost rows.
    pub number: Option<u64>,
    /// Whether it replays a captured call.
    pub replay: bool,
    /// Function; `AlltoAll` and the like for those that come in pieces.
    pub function: Option<String>,
    /// Datatype.
    pub datatype: Option<String>,
    /// Bytes by nccl-tests' convention.
    pub bytes: Option<u64>,
    /// Root.
    pub root: Option<u32>,
    /// Peer of a send or receive.
    pub peer: Option<u32>,
    /// NCCL's sequence number.
    pub seq: Option<u64>,
    /// The line of the program that made it, if stacks are recorded.
    pub caller: Option<String>,
    /// How long ago it was entered, as of the newest evidence.
    pub age: Option<Nanos>,
}

/// How far all ranks of all communicators got.
pub(super) fn communicators(case: &Case) -> Vec<CommunicatorProgress> {
    let numbers = Numbers::new(case);
    let of = |(index, calls): (usize, &CommunicatorCalls)| {
        let communicator = &case.capture.communicators[index];
        let (numbers, numbered) = numbers.of(case, calls);
        CommunicatorProgress {
            id: communicator.id.clone(),
            name: communicator.name.clone(),
            nranks: communicator.nranks,
            over: calls.is_over(),
            numbered,
            unknown: unknown(calls),
            ranks: (0..calls.ranks.len())
                .map(|member| rank_progress(case, index, member, numbers[member]))
                .collect(),
        }
    };
    let all = case.calls.communicators.iter().enumerate();
    all.map(of).collect()
}

/// The numbers of ranks for people.
enum Numbers {
    /// The launcher's ranks: no process has two ranks on one communicator.
    Launcher,
    /// By vertex: the rank in the communicator that has all. A process has several ranks.
    World(BTreeMap<usize, u32>),
    /// There is none that has all.
    Apart,
}

impl Numbers {
    fn new(case: &Case) -> Numbers {
        let all = &case.calls.communicators;
        if all.iter().all(|calls| has_launcher_ranks(case, calls)) {
            return Numbers::Launcher;
        }
        // Where devices are not known, one vertex has all ranks of a process.
        let of = |calls: &CommunicatorCalls| {
            let ranks = calls.ranks.iter();
            let world = ranks.map(|own| Some((own.vertex, own.rank?)));
            let world: BTreeMap<usize, u32> = world.collect::<Option<_>>()?;
            let has_all = world.len() == calls.ranks.len() && world.len() == case.calls.vertices;
            has_all.then_some(world)
        };
        all.iter()
            .find_map(of)
            .map_or(Numbers::Apart, Numbers::World)
    }

    /// Those of the ranks of a communicator, and whether they are the same on all communicators.
    fn of(&self, case: &Case, calls: &CommunicatorCalls) -> (Vec<Option<u32>>, bool) {
        let is_launchers = match self {
            Numbers::Launcher => true,
            Numbers::World(_) => false,
            Numbers::Apart => has_launcher_ranks(case, calls),
        };
        let number = |own: &RankCalls| match self {
            _ if is_launchers => case.capture.processes[own.process].rank,
            Numbers::World(world) => world.get(&own.vertex).copied(),
            _ => own.rank,
        };
        let is_alone = case.calls.communicators.len() == 1;
        let is_one = is_launchers || is_alone || matches!(self, Numbers::World(_));
        (calls.ranks.iter().map(number).collect(), is_one)
    }
}

fn has_launcher_ranks(case: &Case, calls: &CommunicatorCalls) -> bool {
    let process = |own: usize| &case.capture.processes[own];
    let rank = |own: usize| Some((process(own).rank?, process(own).restart));
    let ranks = calls.ranks.iter().filter_map(|own| rank(own.process));
    ranks.collect::<BTreeSet<_>>().len() == calls.ranks.len()
}

fn unknown(calls: &CommunicatorCalls) -> Option<Unknown> {
    if !calls.is_partial() {
        return None;
    }
    let unaligned = |member: &usize| calls.ranks[*member].base.is_none();
    let unaligned: Vec<usize> = (0..calls.ranks.len()).filter(unaligned).collect();
    Some(match calls.nabsent {
        0 if unaligned.is_empty() => Unknown::Lost,
        0 => Unknown::Unaligned(unaligned),
        count => Unknown::Absent {
            count,
            ranks: calls.absent.clone(),
        },
    })
}

fn rank_progress(
    case: &Case,
    communicator: usize,
    member: usize,
    number: Option<u32>,
) -> RankProgress {
    let own = case.member(communicator, member);
    let process = &case.capture.processes[own.process];
    let newest_call = |at_least: Reached| {
        let newest = |lane: Lane| {
            let calls = &own.calls[lane as usize];
            let index = calls
                .iter()
                .rposition(|call| case.calls.reached(own.process, *call) >= at_least)?;
            let base = match lane {
                Lane::Eager => own.base,
                Lane::Replay => Some(own.forgotten[1]),
            };
            Some((calls[index], base.map(|base| base + index as u64), lane))
        };
        let collectives = LANES.into_iter().filter_map(newest);
        let piece = own.newest_piece(&case.calls, at_least);
        let all = collectives.chain(piece.map(|call| (call, None, Lane::Eager)));
        all.max_by_key(|(call, ..)| *call)
    };
    let last = |at_least: Reached| {
        let (call, ordinal, lane) = newest_call(at_least)?;
        Some(call_row(case, communicator, (member, call), ordinal, lane))
    };
    let came = |(call, ..): (u32, _, _)| case.calls.reached(own.process, call);
    RankProgress {
        process: ProcessId {
            rank: own.rank,
            host: process.host.clone(),
            pid: process.pid,
        },
        global_rank: process.rank,
        number,

        thread: calling_thread(process),
        state: case.state_now(own.process),
        was_stopped: process.was_stopped(),
        has_unseen_end: case.has_unseen_end(own.process),
        exit: process.exit,
        evidence_age: case.ago(case.evidence.newest[own.process]),
        in_mpi: in_mpi(process),
        in_nccl: in_nccl(process, case.evidence.newest[own.process]),
        entered: last(Reached::Entered),
        came: newest_call(Reached::Entered).map(came),
        enqueued: last(Reached::Enqueued),
        launched: last(Reached::Launched),
        started: last(Reached::Started),
        finished: last(Reached::Finished),
    }
}

/// A call of a member by its index, with its ordinal on its lane.
pub(super) fn call_row(
    case: &Case,
    communicator: usize,
    at: (usize, u32),
    ordinal: Option<u64>,
    lane: Lane,
) -> CallRow {
    let (call, shape) = case.calls.made(communicator, at);
    let function = case.calls.function(communicator, at);
    let numbered = case.of(communicator).numbered || lane == Lane::Replay;
    let name = |name| case.capture.names.get(name).map(str::to_owned);
    CallRow {
        communicator,
        number: ordinal.filter(|_| numbered).map(|ordinal| ordinal + 1),
        replay: lane == Lane::Replay,
        function: name(function),
        datatype: name(shape.datatype),
        bytes: case.capture.bytes_as(shape, function),
        root: shape.root,
        peer: shape.peer.filter(|_| function == shape.function),
        seq: call.seq.checked_sub(1),
        caller: name(shape.caller),
        age: case.ago(known(call.api_ns)),
    }
}

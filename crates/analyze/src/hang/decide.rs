//! Chooses the verdict.
//!
//! [`decide`] asks in this order. Do ranks make different calls? Where does the wait-for graph end: in sinks,
//! in operations that do not end, or in a cycle? And if nobody is seen to wait, why not? Each answer is a
//! [`Verdict`] with its evidence.
//!
//! Rule: of several answers the first that is a hang is chosen, then the first that is undecided, then what
//! is none. While a rank is stopped, no other wait proves anything, because all may wait for that rank.

use super::blocked::blocked;
use super::calls::{CommunicatorCalls, Lane, RankCalls};
use super::case::Case;
use super::graphs::{self, Lacked};
use super::liveness::Liveness;
use super::mismatch::{differing, first_mismatch};
use super::network::{moved, network};
use super::progress::{call_row, CallRow, Member, Members};
use super::reached::Reached;
use super::verdict::{
    Astray, AstrayBecause, Because, Cycle, CycleStep, Lacking, Mismatch, Outcome, Quiet, Reason,
    Said, SaidState, Sink, Stall, Verdict, VerdictKind,
};
use super::wait_for::{self, is_astray, CycleEdge, WaitForGraph};
use super::waits::{self, Lack, Wait};
use super::went_on;
use crate::completeness::is_masked;
use crate::subject::ProcessId;
use crate::time::{HostTime, Nanos};
use std::collections::{BTreeMap, BTreeSet};
use tables::graphs::Unseen;
use tables::{Capture, Life, Process};

/// The verdict.
pub(super) fn decide(case: &Case) -> Verdict {
    if lacks_calls(case) {
        return Verdict::Quiet(quiet(case));
    }
    if let Some(mismatch) = mismatch(case) {
        return Verdict::Mismatch(mismatch);
    }
    let lacked = || Some(Verdict::Sink(graph_lacked(case, &graphs::lacked(case)?)));
    match waits_end(case) {
        Some(Verdict::Sink(sink)) => {
            let other = behind_graph(case, &sink).or_else(|| went_on::find(case, &sink));
            Verdict::Sink(other.unwrap_or(sink))
        }
        Some(other) => other,
        None => lacked().unwrap_or_else(|| Verdict::Quiet(quiet(case))),
    }
}

/// Who is waited for in truth if GPUs have not begun a call because their stream stands in a graph: they
/// launched it before they made the call, and the ranks that wait in the call had not launched it then.
fn behind_graph(case: &Case, sink: &Sink) -> Option<Sink> {
    let of = sink.ranks.communicator;
    let ordinal = sink.call.number?.checked_sub(1)?;
    let started = sink.lack == Lack::Start && !sink.call.replay;
    let lacked = graphs::lacked_before(case, of, ordinal).filter(|_| started)?;
    let vertices = |of: usize, members: &[usize]| -> BTreeSet<usize> {
        let vertex = |member: &usize| case.member(of, *member).vertex;
        members.iter().map(vertex).collect()
    };
    let waiting = vertices(sink.waiting.communicator, &sink.waiting.members);
    let is_it = !waiting.is_empty()
        && waiting.is_subset(&vertices(of, &lacked.missing))
        && sink
            .ranks
            .members
            .iter()
            .all(|member| lacked.waiting.contains(member));
    if !is_it {
        return None;
    }
    let first = *lacked.missing.first()?;
    let call = case.member(of, first).call(Lane::Eager, ordinal)?;
    let went_on = call_row(case, of, (first, call), Some(ordinal), Lane::Eager);
    Some(Sink {
        went_on: Some(went_on),
        ..graph_lacked(case, &lacked)
    })
}

/// Calls were not announced. Each rank lacks other ones, so none can be compared with those of another rank.
fn lacks_calls(case: &Case) -> bool {
    case.capture.processes.iter().any(is_masked)
}

pub(super) fn members(communicator: usize, members: &[usize]) -> Members {
    Members {
        communicator,
        members: members.to_vec(),
    }
}

fn mismatch(case: &Case) -> Option<Mismatch> {
    let found = first_mismatch(case)?;
    let of = case.of(found.communicator);
    let call = |member: usize| {
        let call = found.call(case, member)?;
        let at = (member, call);
        let ordinal = of.ranks[member].ordinal_of(call);
        Some(call_row(case, found.communicator, at, ordinal, Lane::Eager))
    };
    let active = of
        .ranks
        .iter()
        .filter_map(|own| case.evidence.active[own.vertex]);
    let quiet_for = case.ago(active.max());
    let (made, expected) = (call(found.odd[0]), call(found.most[0]));
    let both = made.as_ref().zip(expected.as_ref());
    Some(Mismatch {
        differ_in: both.map(|(made, expected)| differing(made, expected)),
        made,
        expected,
        odd: members(found.communicator, &found.odd),
        most: members(found.communicator, &found.most),
        tied: found.tied,
        how: found.how,
        quiet_for,
        hang: quiet_for
            .filter(|ns| *ns >= case.limits.brief)
            .map(|_| true),
        partial: of.is_partial(),
    })
}

/// Where the waits end that there are.
fn waits_end(case: &Case) -> Option<Verdict> {
    let graph = WaitForGraph::new(case);
    let sinks = graph.sinks();
    if let Some(cycle) = held_up(case, &sinks) {
        return Some(Verdict::Cycle(cycle));
    }
    if let Some(cycle) = crossed(case) {
        return Some(Verdict::Cycle(cycle));
    }
    if case.stalls.iter().all(|stall| stall.may_be_behind) && are_in_calls(case, &sinks) {
        // Streams that stand in calls of each other prove more than an end of the graph that is in a call
        // itself: nothing but what is not recorded keeps that one from being an edge.
        let stand = |steps: &Vec<CycleEdge>| steps.iter().all(|step| stands_in(case, step));
        let steps = graph.cycle();
        if let Some(steps) = steps.filter(|steps| sinks.is_empty() || stand(steps)) {
            return Some(Verdict::Cycle(cycle(case, &graph, &steps)));
        }
    }
    let own = OwnWaits::new(case, !sinks.is_empty());
    let mut all: Vec<Verdict> = sinks
        .iter()
        .map(|found| Verdict::Sink(sink(case, found, &own)))
        .collect();
    let mut stalls: Vec<Stall> = case.stalls.iter().map(|found| stall(case, found)).collect();
    // A GPU that one operation waits for may be busy with another.
    stalls.sort_by_key(|stall| {
        let dead = matches!(stall.outcome, Outcome::Dead(_));
        let cause = stall.network.cause();
        (!dead, cause.is_none(), cause)
    });
    all.extend(stalls.into_iter().map(Verdict::Stall));
    let chosen = choose(&all)?;
    let mut verdict = all.swap_remove(chosen);
    if let Verdict::Sink(sink) = &mut verdict {
        let others = sinks.iter().enumerate().filter(|(at, _)| *at != chosen);
        sink.others = others.map(|(_, other)| lacking(case, other)).collect();
    }
    Some(verdict)
}

/// A cycle: ranks made a collective and have not come to it, because they wait for ranks that wait in it. If
/// one rank alone went astray, it is one that is held up: it left out an earlier collective, and went on to
/// what the others do later. If nothing shows who did, and all made both calls, only their order is wrong.
fn held_up(case: &Case, sinks: &[wait_for::Sink]) -> Option<Cycle> {
    let comes = |sink: &wait_for::Sink| {
        let of = case.waits[sink.wait].communicator;
        let is_there = |member: &usize| {
            case.state(of, *member) == Liveness::Running
                && case.member(of, *member).ended_at.is_none()
        };
        sink.members.iter().all(is_there)
    };
    if case.held_up.is_empty() || !sinks.iter().all(comes) {
        return None;
    }
    let graph = WaitForGraph::with_held_up(case);
    let steps = graph.cycle()?;
    let found = cycle(case, &graph, &steps);
    let vertex = |wait: usize, member: usize| {
        let communicator = case.wait(wait).communicator;
        case.member(communicator, member).vertex
    };
    let is_held = |step: &CycleEdge| {
        let mut held = steps.iter().filter(|of| of.wait >= case.waits.len());
        held.any(|of| vertex(of.wait, of.missing) == vertex(step.wait, step.waiting))
    };
    let counts = match &found.astray {
        Some(astray) => is_held(&steps[astray.step]),
        None => sinks.iter().all(|sink| case.waits[sink.wait].is_crossed),
    };
    counts.then_some(found)
}

/// A cycle of calls that all ranks made, in an order that can't end, for longer than any job waits. It counts
/// if calls of it are seen not to have ended, or if ranks came to it in a new order: an order that nothing
/// shows to be wrong may be the job's habit, on streams that run side by side.
fn crossed(case: &Case) -> Option<Cycle> {
    let runs = |wait: &Wait| {
        let mut all = wait.waiting.iter().chain(&wait.missing);
        all.all(|member| case.state(wait.communicator, *member) == Liveness::Running)
    };
    if case.crossed.is_empty() || !case.crossed.iter().all(runs) {
        return None;
    }
    let graph = WaitForGraph::of_crossed(case);
    let steps = graph.cycle()?;
    let turned = wait_for::turned(case);
    let operations = case
        .crossed
        .iter()
        .map(|wait| (wait.communicator, wait.ordinal));
    let operations: BTreeSet<(usize, Option<u64>)> = operations.collect();
    let of_stall = |stall: &waits::Stall| operations.contains(&(stall.communicator, stall.ordinal));
    let is_open = case.stalls.iter().any(of_stall);
    let found = Cycle {
        astray: None,
        turned,
        ..cycle(case, &graph, &steps)
    };
    let counts = is_open || !found.turned.is_empty();
    (counts && found.by_time.hang() != Some(false)).then_some(found)
}

/// Which of these verdicts it is, by index.
fn choose(all: &[Verdict]) -> Option<usize> {
    let weight = |verdict: &Verdict| match verdict.hang() {
        Some(true) => 0,
        None => 1,
        Some(false) => 2,
    };
    let best = all.iter().map(weight).min()?;
    let first = all.iter().position(|verdict| weight(verdict) == best)?;
    let stopped = all
        .iter()
        .position(|verdict| verdict.kind() == VerdictKind::Stopped);
    // Those that are dead or have left will not come, whoever else is stopped.
    let proven = matches!(all[first].kind(), VerdictKind::Dead | VerdictKind::Left);
    Some(stopped.filter(|_| !proven).unwrap_or(first))
}

/// The call that those who lack it should have made.
fn lacked_call(case: &Case, wait: &Wait) -> CallRow {
    let row = call_row(case, wait.communicator, wait.call, wait.ordinal, wait.lane);
    other_half(case, row, wait.call.0)
}

/// What answers a member's call: a send's other half is a receive.
pub(super) fn other_half(case: &Case, mut row: CallRow, member: usize) -> CallRow {
    let other = match row.function.as_deref() {
        Some("Send") => Some("Recv"),
        Some("Recv") => Some("Send"),
        _ => None,
    };
    if let Some(other) = other {
        row.function = Some(other.to_owned());
        row.caller = None;
        row.peer = case.member(row.communicator, member).rank;
    }
    row
}

fn lacking(case: &Case, sink: &wait_for::Sink) -> Lacking {
    let wait = &case.waits[sink.wait];
    Lacking {
        ranks: members(wait.communicator, &sink.members),
        lack: wait.lack,
        call: lacked_call(case, wait),
    }
}

fn sink(case: &Case, found: &wait_for::Sink, own: &OwnWaits) -> Sink {
    let wait = &case.waits[found.wait];
    let first = found.members[0];
    let waited = case.ago(wait.since);
    let reason = reason(case, wait.communicator, &found.members, wait.since);
    let vertex = case.member(wait.communicator, first).vertex;
    let Lacking { ranks, call, .. } = lacking(case, found);
    let process = |member: usize| case.member(wait.communicator, member).process;
    let hides_launches = |member: &usize| {
        let mut unseen = case.capture.processes[process(*member)]
            .graphs
            .unseen
            .iter();
        // A graph that never ran holds up nothing.
        unseen.any(|unseen| !matches!(unseen, Unseen::NeverLaunched(_)))
    };
    Sink {
        ranks,
        lack: wait.lack,
        call,
        waiting: members(wait.communicator, &wait.waiting),
        lasted: waited,
        may_lack_earlier: wait.lack == Lack::Call && own.may_lack_beside(vertex, wait.communicator),
        may_wait_on: match reason {
            Reason::Silent(_) | Reason::Running(_) => own.may_wait_on.get(&vertex).copied(),
            _ => None,
        },
        may_wait_in: match reason {
            Reason::Silent(_) | Reason::Running(_) => own.may_wait_in(case, vertex),
            _ => None,
        },
        may_be_in_graph: wait.lack == Lack::Start && found.members.iter().any(hides_launches),
        may_be_stopped: reason == Reason::Dead && case.has_unseen_end(process(first)),
        went_on: wait.went_on.map(|later| {
            let (communicator, ordinal) = (wait.communicator, later.ordinal);
            call_row(case, communicator, later.at, ordinal, later.lane)
        }),
        reason,
        others: Vec::new(),
    }
}

/// Why members do not come to an operation that others have waited in since then.
pub(super) fn reason(
    case: &Case,
    communicator: usize,
    of: &[usize],
    since: Option<HostTime>,
) -> Reason {
    let waited = case.ago(since);
    match case.state(communicator, of[0]) {
        Liveness::Dead => Reason::Dead,
        Liveness::Ended => Reason::Ended,
        Liveness::Stopped => Reason::Stopped(case.limits.by_time_of_stopped(waited)),
        Liveness::Silent => Reason::Silent(case.limits.by_time(waited)),
        Liveness::Running if case.member(communicator, of[0]).ended_at.is_some() => {
            Reason::Destroyed
        }
        Liveness::Running => {
            let away = |member: &usize| away(case, communicator, *member, since);
            let away = of.iter().filter_map(away).max();
            Reason::Running(case.limits.by_time_of_ranks(away, waited))
        }
    }
}

/// Ranks that lack a launch of a CUDA graph which others of their communicator have made.
fn graph_lacked(case: &Case, lacked: &Lacked) -> Sink {
    let communicator = lacked.communicator;
    let row = CallRow {
        communicator,
        number: None,
        replay: false,
        function: Some(format!("launch {} of a CUDA graph", lacked.number)),
        datatype: None,
        bytes: None,
        root: None,
        peer: None,
        seq: None,
        caller: None,
        age: case.ago(lacked.since),
    };
    // Those that surely never come explain it.
    let hopeless = |member: &usize| match case.state(communicator, *member) {
        Liveness::Dead => 0,
        Liveness::Ended => 1,
        Liveness::Stopped | Liveness::Silent => 2,
        Liveness::Running => 3,
    };
    let least = lacked.missing.iter().map(hopeless).min();
    let missing = lacked.missing.iter().copied();
    let missing: Vec<usize> = missing
        .filter(|member| Some(hopeless(member)) == least)
        .collect();
    Sink {
        reason: reason(case, communicator, &missing, lacked.since),
        ranks: members(communicator, &missing),
        lack: Lack::Call,
        call: row,
        waiting: members(communicator, &lacked.waiting),
        lasted: case.ago(lacked.since),
        may_lack_earlier: false,
        may_wait_on: None,
        may_wait_in: None,
        may_be_in_graph: false,
        may_be_stopped: false,
        went_on: None,
        others: Vec::new(),
    }
}

/// For how long a member has made no call while others waited for it since then.
fn away(case: &Case, communicator: usize, member: usize, since: Option<HostTime>) -> Option<Nanos> {
    let own = case.member(communicator, member);
    let until = case.evidence.newest[own.process]?;
    let since = since.filter(|since| case.ago(Some(*since)).is_some())?;
    let since = since.max(case.evidence.active[own.vertex].unwrap_or(since));
    Some((until - since).max(Nanos::ZERO))
}

/// In what ranks may wait themselves, by vertex. Gathered once for all sinks: with thousands of communicators
/// there may be as many.
#[derive(Default)]
struct OwnWaits {
    /// The first communicator on which it may wait: it is in its newest call there, and of the other ranks
    /// not all is known.
    may_wait_on: BTreeMap<usize, usize>,
    /// The first two communicators that it has not left, and on which not all calls of it are known.
    partial: BTreeMap<usize, Vec<usize>>,
    /// The first stall in which it may wait, and its call there: all are in it, and it may be behind the call
    /// that the vertex lacks.
    stalls: BTreeMap<usize, (usize, (usize, u32))>,
}

impl OwnWaits {
    fn new(case: &Case, is_asked: bool) -> OwnWaits {
        let mut all = OwnWaits::default();
        if !is_asked {
            return all;
        }
        let communicators = case.calls.communicators.iter().enumerate();
        for (index, communicator) in communicators.filter(|(_, of)| of.is_partial()) {
            let ranks = communicator.ranks.iter();
            for own in ranks.filter(|own| own.ended_at.is_none()) {
                if is_in_newest(case, own) {
                    all.may_wait_on.entry(own.vertex).or_insert(index);
                }
                let partial = all.partial.entry(own.vertex).or_default();
                if partial.len() < 2 && partial.last() != Some(&index) {
                    partial.push(index);
                }
            }
        }
        let stalls = case.stalls.iter().enumerate();
        for (index, stall) in stalls.filter(|(_, stall)| stall.may_be_behind) {
            for at in &stall.calls {
                let vertex = case.member(stall.communicator, at.0).vertex;
                all.stalls.entry(vertex).or_insert((index, *at));
            }
        }
        all
    }

    /// Whether a vertex may lack an earlier call on another communicator than this one.
    fn may_lack_beside(&self, vertex: usize, communicator: usize) -> bool {
        let mut partial = self.partial.get(&vertex).into_iter().flatten();
        partial.any(|of| *of != communicator)
    }

    /// The call in which a vertex may wait itself.
    fn may_wait_in(&self, case: &Case, vertex: usize) -> Option<CallRow> {
        let (stall, at) = *self.stalls.get(&vertex)?;
        let stall = &case.stalls[stall];
        let (communicator, ordinal) = (stall.communicator, stall.ordinal);
        Some(call_row(case, communicator, at, ordinal, stall.lane))
    }
}

/// Whether the GPU of the rank that waits in a step of a cycle is seen to be in the call.
fn stands_in(case: &Case, step: &CycleEdge) -> bool {
    let wait = case.wait(step.wait);
    let process = case.member(wait.communicator, step.waiting).process;
    let mut calls = wait
        .calls
        .iter()
        .filter(|(member, _)| *member == step.waiting);
    calls.any(|(_, call)| case.calls.reached(process, *call) == Reached::Started)
}

/// Whether all members of all sinks run, and each may be in a call itself, beside the one that it lacks.
fn are_in_calls(case: &Case, sinks: &[wait_for::Sink]) -> bool {
    if sinks.is_empty() {
        return true;
    }
    let ranks = case.calls.communicators.iter().flat_map(|of| &of.ranks);
    let in_calls = ranks.filter(|own| own.ended_at.is_none() && is_in_newest(case, own));
    let in_calls: BTreeSet<usize> = in_calls.map(|own| own.vertex).collect();
    sinks.iter().all(|sink| {
        let of = case.waits[sink.wait].communicator;
        sink.members.iter().all(|member| {
            case.state(of, *member) == Liveness::Running
                && in_calls.contains(&case.member(of, *member).vertex)
        })
    })
}

/// Whether a rank may be in its newest call on a communicator.
fn is_in_newest(case: &Case, own: &RankCalls) -> bool {
    let collectives = own.calls.iter().flatten().copied();
    let piece = own.newest_piece(&case.calls, Reached::Entered);
    let last = collectives.chain(piece).max();
    // An operation that ended on this rank had everybody in it.
    last.is_some_and(|last| case.calls.reached(own.process, last) != Reached::Finished)
}

/// The member of a communicator that died first, if any did. A launcher that sees one die ends the others, so
/// several may be dead when somebody looks.
fn first_dead(case: &Case, communicator: usize) -> Option<usize> {
    let members = 0..case.of(communicator).ranks.len();
    let dead = members.filter(|member| case.state(communicator, *member) == Liveness::Dead);
    dead.min_by_key(|member| {
        let process = case.member(communicator, *member).process;
        let exit = case.capture.processes[process].exit;
        // What it wrote last was before its end.
        let end = exit
            .map(|exit| HostTime(exit.at_ns))
            .or(case.evidence.newest[process]);
        (end.is_none(), end)
    })
}

fn stall(case: &Case, found: &waits::Stall) -> Stall {
    let of = case.of(found.communicator);
    let in_state = |state: Liveness| {
        let mut members = 0..of.ranks.len();
        members.find(|member| case.state(found.communicator, *member) == state)
    };
    // What still moves, however slowly, does not hang. Nor does a host that is far ahead of its GPU.
    let active = || {
        let ranks = of.ranks.iter();
        ranks
            .filter_map(|own| case.evidence.active[own.vertex])
            .max()
    };
    let ahead = found.before.then(active).flatten();
    let lasted = case.ago(found.since.max(moved(case, found)).max(ahead));
    let stopped = in_state(Liveness::Stopped);
    let by_time = match stopped {
        Some(_) => case.limits.by_time_of_stopped(lasted),
        None if is_moment(case) => case.limits.by_time_of_moment(lasted),
        None => case.limits.by_time(lasted),
    };
    let outcome = if let Some(dead) = first_dead(case, found.communicator) {
        Outcome::Dead(dead)
    } else if let Some(stopped) = stopped {
        Outcome::Stopped(stopped)
    } else if by_time.hang() == Some(false) {
        Outcome::GoesOn
    } else if of.is_partial() {
        Outcome::Unknown
    } else if found.inside {
        Outcome::NotLaunched
    } else if found.before {
        Outcome::NotBegun
    } else {
        Outcome::Stuck
    };
    let (network, ticket) = network(case, found);
    // A send or receive that the others wait for is the one to name.
    let piece = || {
        let member = network.open[network.sinks.first()?.op].member;
        let calls = &case.calls.process(found.communicator, member).calls;
        let call = calls.binary_search_by_key(&ticket?, |call| call.ticket);
        Some((member, call.ok()? as u32))
    };
    let (call, ranks) = match found.ordinal {
        Some(_) => (found.call, (0..of.ranks.len()).collect()),
        None => {
            let open = network.open.iter().map(|open| open.member);
            let ranks: BTreeSet<usize> = open.chain([found.call.0]).collect();
            (piece().unwrap_or(found.call), ranks.into_iter().collect())
        }
    };
    Stall {
        call: call_row(case, found.communicator, call, found.ordinal, found.lane),
        ranks: Members {
            communicator: found.communicator,
            members: ranks,
        },
        piece: found.ordinal.is_none(),
        outcome,
        lasted,
        by_time,
        may_be_behind: found.may_be_behind,
        network,
    }
}

/// Whether the capture is of another tool, which shows a moment.
fn is_moment(case: &Case) -> bool {
    let mut all = case.capture.processes.iter();
    all.all(|process| process.other_tool().is_some())
}

fn cycle(case: &Case, graph: &WaitForGraph, steps: &[CycleEdge]) -> Cycle {
    let wait = |step: &CycleEdge| case.wait(step.wait);
    let vertex = |step: &CycleEdge| case.member(wait(step).communicator, step.waiting).vertex;
    let since = steps.iter().filter_map(|step| wait(step).since);
    let active = steps
        .iter()
        .filter_map(|step| case.evidence.active[vertex(step)]);
    let lasted = case.ago(since.chain(active).max());
    let before = |step: usize| (step + steps.len() - 1) % steps.len();
    let all = 0..steps.len();
    let on_every_cycle = all
        .clone()
        .filter(|step| graph.is_on_every_cycle(vertex(&steps[*step])));
    let in_new_order = all.filter(|step| {
        let (own, lacked) = (&steps[*step], &steps[before(*step)]);
        is_astray(case, (own.wait, own.waiting), (lacked.wait, lacked.missing))
    });
    let (one, other): (Vec<usize>, Vec<usize>) = (on_every_cycle.collect(), in_new_order.collect());
    let astray = match (&one[..], &other[..]) {
        ([step], _) => Some((*step, AstrayBecause::OnEveryCycle)),
        (_, [step]) => Some((*step, AstrayBecause::NewOrder)),
        _ => None,
    };
    let astray = astray.map(|(step, because)| {
        let lacked = wait(&steps[before(step)]);
        Astray {
            because,
            step,
            lacked: lacked_call(case, lacked),
            waiting: members(lacked.communicator, &lacked.waiting),
        }
    });
    let step = |step: &CycleEdge| {
        let wait = wait(step);
        let member = |member: usize| Member {
            communicator: wait.communicator,
            member,
        };
        CycleStep {
            waiting: member(step.waiting),
            call: call_row(case, wait.communicator, wait.call, wait.ordinal, wait.lane),
            missing: member(step.missing),
        }
    };
    let communicators: BTreeSet<usize> = steps.iter().map(|s| wait(s).communicator).collect();
    let mut all = communicators.iter().map(|index| case.of(*index));
    Cycle {
        one_communicator: communicators.len() == 1,
        partial: all.any(CommunicatorCalls::is_partial),
        steps: steps.iter().map(step).collect(),
        astray,
        turned: Vec::new(),
        lasted,
        by_time: case.limits.by_time(lasted),
    }
}

/// Whether `ncclscope attach` recorded this process and it goes on. Its communicators may have been made
/// before, so nobody knows which ranks belong together or who waits for whom.
fn is_from_outside(process: &Process) -> bool {
    process.is_attached() && !process.ended
}

/// Of all calls that have not returned, the one that began first: who is in it, and for how long.
fn oldest_open(case: &Case) -> Option<(ProcessId, Nanos)> {
    let processes = case
        .capture
        .processes
        .iter()
        .filter(|process| is_from_outside(process));
    let open = processes.flat_map(|process| {
        let calls = process.calls.iter();
        let open = calls.filter(|call| !call.sealed && call.return_ns == 0 && call.api_ns != 0);
        open.map(move |call| (process, call.api_ns))
    });
    let (process, since) = open.min_by_key(|(_, api_ns)| *api_ns)?;
    Some((name_of(process), case.ago(Some(HostTime(since)))?))
}

pub(super) fn name_of(process: &Process) -> ProcessId {
    // A process with several GPUs has several ranks.
    let devices = process.communicators.iter().map(|of| of.device);
    let has_one = devices.collect::<BTreeSet<_>>().len() <= 1;
    ProcessId {
        rank: process.rank.filter(|_| has_one),
        host: process.host.clone(),
        pid: process.pid,
    }
}

/// Nobody is seen to wait.
fn quiet(case: &Case) -> Quiet {
    let all = case.calls.communicators.iter().enumerate();
    let open: Vec<(usize, &CommunicatorCalls)> = all
        .filter(|(_, communicator)| !communicator.is_over() && communicator.is_shared())
        .collect();
    let newest_call_ago = case.ago(case.evidence.active.iter().flatten().copied().max());
    let in_state = |state: Liveness| {
        let mut of: BTreeMap<usize, Member> = BTreeMap::new();
        for (communicator, calls) in &open {
            for (member, own) in calls.ranks.iter().enumerate() {
                if own.ended_at.is_none() && case.states[own.process] == state {
                    of.entry(own.process).or_insert(Member {
                        communicator: *communicator,
                        member,
                    });
                }
            }
        }
        (!of.is_empty()).then_some(of)
    };
    let mut named = Vec::new();
    let mut names = |of: BTreeMap<usize, Member>| {
        named.extend(of.values());
        let name = |process: &usize| name_of(&case.capture.processes[*process]);
        of.keys().map(name).collect::<Vec<ProcessId>>()
    };
    let mut processes = case.capture.processes.iter().zip(&case.states);
    // What it did last may not be here.
    let is_killed = |of: &&Process| !of.ended && of.life == Life::Gone;
    let killed = case.capture.processes.iter().filter(is_killed);
    let killed: Vec<ProcessId> = killed.map(name_of).collect();
    let all_killed = killed.len() == case.capture.processes.len();
    let over = processes.all(|(process, state)| process.ended || *state == Liveness::Ended)
        || open.is_empty() && killed.is_empty();
    // Another tool may not say when calls were made.
    let timed = case
        .capture
        .processes
        .iter()
        .all(|process| process.other_tool().is_none());
    let partial = open
        .iter()
        .find(|(_, communicator)| communicator.is_partial());
    // Calls that are not here may be old or new.
    let active = match newest_call_ago {
        Some(ns) => ns <= case.limits.brief,
        None => timed && partial.is_none(),
    };
    let said = said(case.capture).into_iter().next();
    let inside = blocked(case, newest_call_ago);
    let because = if open.is_empty() && case.capture.processes.iter().any(is_from_outside) {
        Because::FromOutside(oldest_open(case))
    } else if over && said.is_none() && inside.is_none() {
        Because::Over
    } else if let Some(stopped) = in_state(Liveness::Stopped) {
        Because::Stopped(names(stopped))
    } else if let Some(dead) = in_state(Liveness::Dead) {
        Because::Dead(names(dead))
    } else if let Some(said) = said {
        named.extend(members_of(case, |process| {
            let process = &case.capture.processes[process];
            let mut names = said.of.iter();
            names.any(|name| process.is(&name.host, name.pid))
        }));
        Because::Said(said)
    } else if let Some((found, awaited)) = inside {
        named.extend(members_of(case, |process| awaited.contains(&process)));
        Because::Blocked(found)
    } else if open.is_empty() {
        Because::Dead(killed)
    } else if active {
        Because::Active { all_killed }
    } else if lacks_calls(case) {
        Because::NotAnnounced
    } else if let Some(silent) = in_state(Liveness::Silent) {
        Because::Silent(names(silent))
    } else if let Some((communicator, _)) = partial {
        Because::Partial(*communicator)
    } else {
        let ranks = open
            .iter()
            .map(|(_, communicator)| communicator.ranks.len());
        let ranks = ranks.max().unwrap_or(0);
        let mut all = open
            .iter()
            .flat_map(|(_, communicator)| &communicator.ranks);
        if all.all(|own| has_ended_all(case, own)) {
            Because::Finished(
                ranks,
                newest_call_ago.is_some_and(|ns| ns < case.limits.patience),
            )
        } else {
            Because::NotRecorded(ranks)
        }
    };
    Quiet {
        because,
        named,
        newest_call_ago,
    }
}

/// What another tool says of processes that are not well, by what it says; what explains most comes first.
pub(super) fn said(capture: &Capture) -> Vec<Said> {
    let mut all: BTreeMap<(SaidState, &str), Vec<ProcessId>> = BTreeMap::new();
    for process in capture
        .processes
        .iter()
        .filter(|of| of.other_tool().is_some())
    {
        let state = match process.fact("state") {
            Some("failed") => SaidState::Failed,
            Some("in_init") => SaidState::InInit,
            Some("no_answer") => SaidState::NoAnswer,
            _ => continue,
        };
        let text = process.fact("said").unwrap_or("not known");
        let of = all.entry((state, text)).or_default();
        of.push(name_of(process));
    }
    let said = |((state, text), of): ((SaidState, &str), _)| Said {
        state,
        text: text.to_owned(),
        of,
    };
    all.into_iter().map(said).collect()
}

/// Some processes, as members of the first communicator that each is in.
fn members_of(case: &Case, is_of: impl Fn(usize) -> bool) -> Vec<Member> {
    let mut found: BTreeMap<usize, Member> = BTreeMap::new();
    for (communicator, calls) in case.calls.communicators.iter().enumerate() {
        for (member, own) in calls.ranks.iter().enumerate() {
            if is_of(own.process) {
                found.entry(own.process).or_insert(Member {
                    communicator,
                    member,
                });
            }
        }
    }
    found.into_values().collect()
}

/// Whether the GPU is seen to have ended the newest call of a rank; NCCL runs those of a communicator in
/// order.
fn has_ended_all(case: &Case, own: &RankCalls) -> bool {
    let piece = own.newest_piece(&case.calls, Reached::Entered);
    let newest = own.calls.iter().flatten().copied().chain(piece).max();
    newest.is_none_or(|call| case.calls.reached(own.process, call) == Reached::Finished)
}

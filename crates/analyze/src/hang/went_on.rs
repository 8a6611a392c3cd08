//! Ranks that left out a call and went on to the one in which they wait.
//!
//! A rank that leaves out a send, or a call of some ranks, goes on to a later call. The rank that needs what
//! was left out waits for it, and seems to be missing in the later call. Without GPU times nobody sees it
//! wait. So the newest call of the rank that seems to be missing is looked at. If another rank has not made
//! its half of that, and made something else where it always made it, then that one is waited for.
//!
//! Rule: a rank waits in its newest call only if it has made one more of them than the other one had when it
//! came to its later call. A rank that only pauses has not.

use super::calls::{is_send, Lane, RankCalls};
use super::case::Case;
use super::decide::{members, other_half, reason};
use super::pattern::left_out;
use super::progress::call_row;
use super::reached::{known, Reached};
use super::verdict::{Reason, Sink};
use super::waits::Lack;
use capture::live::flag;
use std::collections::HashMap;
use std::ops::Range;
use tables::Shape;

/// A rank that went on.
struct Gone {
    later: Later,
    /// Its member on the communicator of what it left out.
    member: usize,
}

/// The call that a rank has come to.
struct Later {
    communicator: usize,
    member: usize,
    call: u32,
}

/// Those that wait, by process: their members on the communicator of the sink.
type Waiting = HashMap<usize, usize>;

/// A call of a rank that seems to be missing.
struct Newest<'a> {
    communicator: usize,
    /// The rank's member there.
    member: usize,
    call: u32,
    shape: &'a Shape,
}

/// Who is waited for in truth, if it is not who seems to be missing.
pub(super) fn find(case: &Case, sink: &Sink) -> Option<Sink> {
    let may_come = matches!(sink.reason, Reason::Running(_) | Reason::Silent(_));
    let is_one = sink.waiting.communicator == sink.ranks.communicator;
    if sink.lack != Lack::Call || sink.call.replay || !may_come || !is_one {
        return None;
    }
    let of = sink.ranks.communicator;
    let waiting = sink.waiting.members.iter();
    let waiting = waiting.map(|member| (case.member(of, *member).process, *member));
    let waiting: Waiting = waiting.collect();
    let missing = sink.ranks.members.iter();
    let found = missing.map(|missing| gone_on(case, sink, &waiting, *missing));
    let found: Vec<(Newest, Vec<Gone>)> = found.collect::<Option<_>>()?;
    let (newest, _) = found.first()?;
    let with = newest.communicator;
    if found.iter().any(|(of, _)| of.communicator != with) {
        return None;
    }
    let mut ranks: Vec<usize> = found
        .iter()
        .flat_map(|(_, gone)| gone)
        .map(|of| of.member)
        .collect();
    ranks.sort_unstable();
    ranks.dedup();
    let waiting: Vec<usize> = found.iter().map(|(of, _)| of.member).collect();
    let since = known(case.calls.made(with, (newest.member, newest.call)).0.api_ns);
    // Without a number: who left it out may have made one with that number since.
    let mut row = call_row(case, with, (newest.member, newest.call), None, Lane::Eager);
    // A piece, and not the composite that it is of.
    row.function = case
        .capture
        .names
        .get(newest.shape.function)
        .map(str::to_owned);
    let mut row = other_half(case, row, newest.member);
    row.caller = None;
    let later = &found.iter().flat_map(|(_, gone)| gone).next()?.later;
    let ordinal = case
        .member(later.communicator, later.member)
        .ordinal_of(later.call);
    let at = (later.member, later.call);
    Some(Sink {
        reason: reason(case, with, &ranks, since),
        ranks: members(with, &ranks),
        lack: Lack::Call,
        call: row,
        waiting: members(with, &waiting),
        lasted: case.ago(since),
        may_lack_earlier: false,
        may_wait_on: None,
        may_wait_in: None,
        may_be_in_graph: false,
        may_be_stopped: false,
        went_on: Some(call_row(case, later.communicator, at, ordinal, Lane::Eager)),
        others: Vec::new(),
    })
}

/// What a rank that seems to be missing waits in, and the ranks that have not made their half of it.
fn gone_on<'a>(
    case: &Case<'a>,
    sink: &Sink,
    waiting: &Waiting,
    missing: usize,
) -> Option<(Newest<'a>, Vec<Gone>)> {
    let of = sink.ranks.communicator;
    let newest = newest(case, case.member(of, missing).process);
    // Who lacks a call of a communicator is not waited for in an earlier collective of it.
    let is_earlier =
        |of_newest: &Newest| of_newest.communicator == of && !of_newest.shape.is(flag::P2P);
    let newest = newest.into_iter().filter(|newest| !is_earlier(newest));
    newest.into_iter().find_map(|newest| {
        let others = 0..case.of(newest.communicator).ranks.len();
        let others = others.filter(|member| *member != newest.member);
        let gone: Vec<Gone> = others
            .filter_map(|member| has_gone_on(case, sink, waiting, member, &newest))
            .collect();
        (!gone.is_empty()).then_some((newest, gone))
    })
}

/// The newest call of a process, with all of a composite.
fn newest<'a>(case: &Case<'a>, process: usize) -> Vec<Newest<'a>> {
    let of = &case.capture.processes[process];
    let Some(last) = of.calls.len().checked_sub(1) else {
        return Vec::new();
    };
    let composite = (of.calls[last].composite as usize).checked_sub(1);
    let calls = match composite.and_then(|index| of.composites.get(index)) {
        Some(composite) => composite.calls.clone(),
        None => vec![last as u32],
    };
    let newest = |call: u32| {
        let shape = &of.shapes[of.calls.get(call as usize)?.shape as usize];
        let (communicator, member) = member_of(case, process, shape)?;
        Some(Newest {
            communicator,
            member,
            call,
            shape,
        })
    };
    calls.into_iter().filter_map(newest).collect()
}

/// A rank of the same communicator, if it left out its half of a call.
fn has_gone_on(
    case: &Case,
    sink: &Sink,
    waiting: &Waiting,
    member: usize,
    newest: &Newest,
) -> Option<Gone> {
    let with = newest.communicator;
    let ranks = &case.of(with).ranks;
    let (own, its) = (&ranks[member], &ranks[newest.member]);
    if newest.shape.is(flag::P2P) && newest.shape.peer != own.rank {
        return None;
    }
    let later = later(case, sink, waiting, own.process)?;
    let since = not_made(case, own, its, newest, later.call)?;
    let process = &case.capture.processes[own.process];
    let expected = left_out(process, since.start, since.end)?;
    let expected = &process.shapes[process.calls.get(expected)?.shape as usize];
    let is_half = if newest.shape.is(flag::P2P) {
        expected.is(flag::P2P)
            && is_send(case.capture, expected) != is_send(case.capture, newest.shape)
            && expected.peer == its.rank
    } else {
        expected.function == newest.shape.function && expected.count == newest.shape.count
    };
    (is_half && expected.uid == own.uid).then_some(Gone { later, member })
}

/// The call in which a rank waits; of one that is not seen to wait, its newest.
fn later(case: &Case, sink: &Sink, waiting: &Waiting, process: usize) -> Option<Later> {
    let of = sink.ranks.communicator;
    let Some(member) = waiting.get(&process) else {
        let process_of = &case.capture.processes[process];
        let last = process_of.calls.len().checked_sub(1)?;
        let shape = &process_of.shapes[process_of.calls[last].shape as usize];
        let (communicator, member) = member_of(case, process, shape)?;
        return Some(Later {
            communicator,
            member,
            call: last as u32,
        });
    };
    let there = case.member(of, *member);
    let call = match sink.call.number {
        Some(number) => there.call(Lane::Eager, number.checked_sub(1)?)?,
        None => there.newest_piece(&case.calls, Reached::Entered)?,
    };
    Some(Later {
        communicator: of,
        member: *member,
        call,
    })
}

/// Since which call a rank would have made its half of a call, until the one in which it waits; `None` if it
/// made it.
fn not_made(
    case: &Case,
    own: &RankCalls,
    its: &RankCalls,
    newest: &Newest,
    until: u32,
) -> Option<Range<u32>> {
    let (before, last) = if newest.shape.is(flag::P2P) {
        let send = is_send(case.capture, newest.shape);
        let made = its.pairs(send, own.rank?);
        let number = made.calls.binary_search(&newest.call).ok()? + made.forgotten;
        let halves = own.pairs(!send, its.rank?);
        let before = halves.before(until);
        let last = before.checked_sub(1).and_then(|last| halves.call(last));
        (before == number, last)
    } else {
        let before = own.before(until)?;
        let last = before.checked_sub(1);
        let last = last.and_then(|last| own.call(Lane::Eager, last));
        (its.ordinal_of(newest.call)? == before, last)
    };
    before.then_some(last.map_or(0, |last| last + 1)..until)
}

/// The communicator of a call, and the member of its process there.
fn member_of(case: &Case, process: usize, shape: &Shape) -> Option<(usize, usize)> {
    let communicator = shape.communicator? as usize;
    let is_own = |own: &RankCalls| own.process == process && own.uid == shape.uid;
    let member = case.of(communicator).ranks.iter().position(is_own)?;
    Some((communicator, member))
}

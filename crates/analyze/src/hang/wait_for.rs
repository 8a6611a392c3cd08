//! The wait-for graph of the job: which ranks wait for which, and where that ends.
//!
//! A vertex of the [`WaitForGraph`] is a process, or one GPU of a process with several, over all
//! communicators. An edge runs from a vertex that waits in an operation to each vertex that lacks it.
//! Followed to its end, the graph leads to a [`Sink`]: ranks that others wait for and that wait for nobody
//! themselves. If there is none, ranks wait for each other in a cycle of [`CycleEdge`]s.
//!
//! Rule: ranks that are dead, silent, stopped or have left are sinks, whatever they waited for before. Sinks
//! stand in the order in which they explain most, and that order is the same on every run.

use super::calls::is_send;
use super::case::Case;
use super::liveness::Liveness;
use super::pattern::{expected, strayed};
use super::progress::Member;
use super::waits::{Lack, Wait};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Vertices from which a cycle is sought: a bound that keeps thousands of ranks cheap.
const STARTS: usize = 4096;

/// Members that others wait for in one wait, and that wait for nobody.
pub(super) struct Sink {
    /// Index of the wait.
    pub wait: usize,
    /// Only the most hopeless of them: dead ones, else those that have ended, and so on.
    pub members: Vec<usize>,
}

/// One edge of a cycle.
#[derive(Clone, Copy)]
pub(super) struct CycleEdge {
    /// Index of the wait.
    pub wait: usize,
    /// The member that waits.
    pub waiting: usize,
    /// The member that it waits for, which waits in the next step.
    pub missing: usize,
}

/// See the module.
pub(super) struct WaitForGraph<'c> {
    case: &'c Case<'c>,
    /// By [`Case::wait`]'s number.
    waits: Vec<&'c Wait>,
    /// By vertex: those that it waits for.
    edges: BTreeMap<usize, BTreeSet<usize>>,
}

impl<'c> WaitForGraph<'c> {
    pub fn new(case: &'c Case) -> WaitForGraph<'c> {
        WaitForGraph::of(case, case.waits.iter().collect())
    }

    /// With the waits for members that others hold up.
    pub fn with_held_up(case: &'c Case) -> WaitForGraph<'c> {
        WaitForGraph::of(case, case.waits.iter().chain(&case.held_up).collect())
    }

    /// With those in an order that can't end; there is no other wait then.
    pub fn of_crossed(case: &'c Case) -> WaitForGraph<'c> {
        WaitForGraph::of(case, case.crossed.iter().collect())
    }

    fn of(case: &'c Case, waits: Vec<&'c Wait>) -> WaitForGraph<'c> {
        let mut edges: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for wait in &waits {
            let vertex = |member: &usize| case.member(wait.communicator, *member).vertex;
            for waiting in &wait.waiting {
                let to = edges.entry(vertex(waiting)).or_default();
                to.extend(wait.missing.iter().map(vertex));
            }
        }
        // A process with two ranks on one communicator may be in an operation with one and lack it with the
        // other.
        for (vertex, to) in &mut edges {
            to.remove(vertex);
        }
        WaitForGraph { case, waits, edges }
    }

    /// The ranks that wait for nobody, those first that explain most.
    pub fn sinks(&self) -> Vec<Sink> {
        let case = self.case;
        let waits_for = |vertex: usize| self.edges.get(&vertex).is_some_and(|to| !to.is_empty());
        let stalled: BTreeSet<usize> = case
            .stalls
            .iter()
            .filter(|stall| !stall.may_be_behind)
            .flat_map(|stall| &case.of(stall.communicator).ranks)
            .map(|own| own.vertex)
            .collect();
        // Many waits lack the same few ranks.
        let waiters = self.waiters();
        let mut waiters_of: BTreeMap<usize, usize> = BTreeMap::new();
        let mut expected_of: BTreeMap<usize, Option<usize>> = BTreeMap::new();
        let mut found = Vec::new();
        for (index, wait) in case.waits.iter().enumerate() {
            let gone = |member: usize| {
                case.state(wait.communicator, member) != Liveness::Running
                    || case.member(wait.communicator, member).ended_at.is_some()
            };
            // Those that surely never come go before those that may.
            let order = |member: usize| match case.state(wait.communicator, member) {
                Liveness::Dead => 0,
                Liveness::Ended => 1,
                _ if gone(member) => 2,
                _ => 3,
            };
            let ends_here = |member: &usize| {
                let vertex = case.member(wait.communicator, *member).vertex;
                gone(*member) || !waits_for(vertex) && !stalled.contains(&vertex)
            };
            let members: Vec<usize> = wait.missing.iter().copied().filter(ends_here).collect();
            let Some(first) = members.first().copied() else {
                continue;
            };
            let least = members.iter().map(|member| order(*member)).min();
            let least = least.unwrap_or(3);
            let own = case.member(wait.communicator, first);
            let waiters = waiters_of
                .entry(own.vertex)
                .or_insert_with(|| waiters(own.vertex));
            let process = &case.capture.processes[own.process];
            let expected = expected_of
                .entry(own.process)
                .or_insert_with(|| expected(process));
            let key = (
                least,
                Reverse(*waiters),
                // If one rank lacks several operations: the one that it is in, else the one that comes next
                // in its pattern.
                Reverse(wait.lack == Lack::Launch),
                wait.lack == Lack::Call,
                !expected.is_some_and(|expected| is_it(case, wait, (own.process, expected))),
                (wait.since.is_none(), wait.since),
                index,
            );
            let alike = members.into_iter().filter(|member| order(*member) == least);
            let sink = Sink {
                wait: index,
                members: alike.collect(),
            };
            found.push((key, sink));
        }
        found.sort_by_key(|(key, _)| *key);
        found.into_iter().map(|(_, sink)| sink).collect()
    }

    /// How many vertices wait for a vertex, directly or over others.
    fn waiters(&self) -> impl Fn(usize) -> usize {
        let mut back: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (from, to) in &self.edges {
            for vertex in to {
                back.entry(*vertex).or_default().push(*from);
            }
        }
        move |vertex| {
            let (mut seen, mut next) = (BTreeSet::from([vertex]), vec![vertex]);
            while let Some(vertex) = next.pop() {
                for from in back.get(&vertex).into_iter().flatten() {
                    if seen.insert(*from) {
                        next.push(*from);
                    }
                }
            }
            seen.len() - 1
        }
    }

    /// A smallest cycle, from its lowest vertex on.
    pub fn cycle(&self) -> Option<Vec<CycleEdge>> {
        let ring = self.ring()?;
        let mut of_vertex: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, wait) in self.waits.iter().enumerate() {
            for member in &wait.waiting {
                let vertex = self.case.member(wait.communicator, *member).vertex;
                of_vertex.entry(vertex).or_default().push(index);
            }
        }
        let step = |(index, vertex): (usize, &usize)| {
            let to = ring[(index + 1) % ring.len()];
            let mut waits = of_vertex.get(vertex)?.iter().copied();
            waits.find_map(|index| {
                let wait = self.waits[index];
                let member = |members: &[usize], vertex: usize| {
                    let of = |member: &usize| self.case.member(wait.communicator, *member).vertex;
                    members.iter().copied().find(|member| of(member) == vertex)
                };
                Some(CycleEdge {
                    wait: index,
                    waiting: member(&wait.waiting, *vertex)?,
                    missing: member(&wait.missing, to)?,
                })
            })
        };
        Some(ring.iter().enumerate().filter_map(step).collect())
    }

    /// Whether no vertices wait for each other in a cycle but through this one.
    pub fn is_on_every_cycle(&self, without: usize) -> bool {
        // Vertices that wait for nobody are taken away until none is left, or only those on and before
        // cycles.
        let mut back: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut open: BTreeMap<usize, usize> = BTreeMap::new();
        for (from, to) in self.edges.iter().filter(|(from, _)| **from != without) {
            for to in to.iter().filter(|to| **to != without) {
                back.entry(*to).or_default().push(*from);
                *open.entry(*from).or_default() += 1;
            }
        }
        let mut free: Vec<usize> = back
            .keys()
            .copied()
            .filter(|v| !open.contains_key(v))
            .collect();
        while let Some(vertex) = free.pop() {
            for from in back.get(&vertex).into_iter().flatten() {
                if let Some(left) = open.get_mut(from) {
                    *left -= 1;
                    if *left == 0 {
                        open.remove(from);
                        free.push(*from);
                    }
                }
            }
        }
        open.is_empty()
    }

    /// The vertices of a smallest cycle.
    fn ring(&self) -> Option<Vec<usize>> {
        let mut best: Option<Vec<usize>> = None;
        // Each cycle is found from each of its vertices.
        for start in self.edges.keys().take(STARTS) {
            let mut from: BTreeMap<usize, usize> = BTreeMap::new();
            let mut next = VecDeque::from([*start]);
            'search: while let Some(vertex) = next.pop_front() {
                for to in self.edges.get(&vertex).into_iter().flatten() {
                    if to == start {
                        let mut ring = vec![vertex];
                        while *ring.last()? != *start {
                            ring.push(from[ring.last()?]);
                        }
                        ring.reverse();
                        if best.as_ref().is_none_or(|best| ring.len() < best.len()) {
                            best = Some(ring);
                        }
                        break 'search;
                    }
                    if !from.contains_key(to) {
                        from.insert(*to, vertex);
                        next.push_back(*to);
                    }
                }
            }
            if best.as_ref().is_some_and(|best| best.len() == 2) {
                break;
            }
        }
        best
    }
}

/// Whether a wait is for a call like this one of a process.
fn is_it(case: &Case, wait: &Wait, (process, expected): (usize, usize)) -> bool {
    let of = &case.capture.processes[process];
    let theirs = &of.shapes[of.calls[expected].shape as usize];
    let (_, ours) = case.calls.made(wait.communicator, wait.call);
    let fits = match wait.ordinal {
        Some(_) => theirs.function == ours.function,
        None => theirs.peer == case.member(wait.communicator, wait.call.0).rank,
    };
    fits && theirs.communicator == Some(wait.communicator as u32) && theirs.count == ours.count
}

/// Of a cycle of calls that all made: the ranks that came to theirs in a new order, before a call in which
/// others wait for them. All ranks that wait at its operations are looked at, beside those of the ring, and
/// all calls in which others wait for them: which of these has the cause is not known.
pub(super) fn turned(case: &Case) -> Vec<Member> {
    let mut lacked: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    let first = case.waits.len() + case.held_up.len();
    for (at, wait) in case.crossed.iter().enumerate() {
        for missing in &wait.missing {
            let vertex = case.member(wait.communicator, *missing).vertex;
            let of_vertex = lacked.entry(vertex).or_default();
            of_vertex.push((first + at, *missing));
        }
    }
    let mut found: BTreeMap<usize, Member> = BTreeMap::new();
    for (at, wait) in case.crossed.iter().enumerate() {
        for waiting in &wait.waiting {
            let vertex = case.member(wait.communicator, *waiting).vertex;
            let Some(lacked) = lacked.get(&vertex).filter(|_| !found.contains_key(&vertex)) else {
                continue;
            };
            if are_astray(case, (first + at, *waiting), lacked) {
                let communicator = wait.communicator;
                let member = *waiting;
                found.insert(
                    vertex,
                    Member {
                        communicator,
                        member,
                    },
                );
            }
        }
    }
    found.into_values().collect()
}

/// Whether a rank came to the call that it waits in in a new order. Only calls since its last one on the
/// communicator of the wait that lacks it count, because others wait for it there. Both are a wait by its
/// number and the rank's member there.
pub(super) fn is_astray(case: &Case, own: (usize, usize), lacked: (usize, usize)) -> bool {
    are_astray(case, own, &[lacked])
}

/// The same of several waits that lack it. A new order before the call of one of them is one.
fn are_astray(case: &Case, (wait, waiting): (usize, usize), lacked: &[(usize, usize)]) -> bool {
    let wait = case.wait(wait);
    let own = case.member(wait.communicator, waiting);
    let call = match wait.ordinal {
        Some(ordinal) => own.call(wait.lane, ordinal),
        None => (wait.call.0 == waiting).then_some(wait.call.1),
    };
    let Some(call) = call else {
        return false;
    };
    // What came since the oldest of them holds what came since each other.
    let from = lacked
        .iter()
        .map(|lacked| last_before(case, *lacked, call))
        .min();
    from.is_some_and(|from| strayed(&case.capture.processes[own.process], from, call))
}

/// The last call before `call` that a rank made on the communicator of a wait that lacks it; `None` if it
/// made none. It is a wait by its number and the rank's member there.
fn last_before(case: &Case, (lacked, missing): (usize, usize), call: u32) -> Option<u32> {
    let lacked = case.wait(lacked);
    let there = case.member(lacked.communicator, missing);
    if lacked.ordinal.is_some() {
        let calls = &there.calls[lacked.lane as usize];
        let before = calls.partition_point(|earlier| *earlier < call);
        return before.checked_sub(1).map(|at| calls[at]);
    }
    let (_, shape) = case.calls.made(lacked.communicator, lacked.call);
    let send = !is_send(case.capture, shape);
    let peer = case.member(lacked.communicator, lacked.call.0).rank?;
    let last = there.pairs(send, peer).call(lacked.met.checked_sub(1)?);
    last.filter(|earlier| *earlier < call)
}

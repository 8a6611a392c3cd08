//! Leaves out what only waits behind an earlier operation.
//!
//! A rank that left out a call goes on to the next one. There it looks as if all others were with it, because
//! that operation does not end either. But the others wait in the earlier one, and have not come to the later
//! one on their GPUs. [`settle`] keeps the earlier one alone. If both have the same ranks, they may wait for
//! each other: a rank that left out a collective sends to ranks that wait for it in that collective.
//!
//! Rule: an operation that some rank lacks is always kept. Calls of one group have no order.

use super::super::calls::CaptureCalls;
use super::super::reached::known;
use super::{Lack, Later, Stall, Wait, Waits};
use std::collections::HashMap;

/// A call in which a vertex waits for others.
#[derive(Clone, Copy)]
struct Held {
    /// Which of the waits that are kept.
    wait: usize,
    may_have_ended: bool,
    communicator: usize,
    call: u32,
    group: u64,
    stream: u64,
}

/// What holds up vertices, by vertex.
#[derive(Default)]
struct HeldUp(HashMap<usize, OfVertex>);

/// What holds up a vertex, by the wait. A vertex may wait on thousands of communicators, and few of these are
/// of one communicator or stream.
#[derive(Default)]
struct OfVertex {
    all: Vec<Held>,
    by_communicator: HashMap<usize, Vec<Held>>,
    by_stream: HashMap<u64, Vec<Held>>,
    /// The earliest call.
    first: Option<u32>,
}

/// What an earlier call says of a later one of the same vertex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    /// Nothing.
    Apart,
    /// The later one may wait for it: they are on other communicators and not seen to be on one stream, or
    /// the earlier one may have ended.
    Unknown,
    /// The later one waits for it.
    Behind,
}

/// The waits and stalls that no earlier wait explains, and stalls that such a wait explains, as waits for the
/// members that it holds up.
pub(super) fn settle(calls: &CaptureCalls, waits: Vec<Wait>, mut stalls: Vec<Stall>) -> Waits {
    let mut held = HeldUp::default();
    let since = |wait: &Wait| (wait.lack != Lack::Call, wait.since.is_none(), wait.since);
    let mut order: Vec<(usize, Wait)> = waits.into_iter().enumerate().collect();
    order.sort_by_key(|(index, wait)| (since(wait), *index));
    let mut kept: Vec<(usize, Wait)> = Vec::new();
    for (index, mut wait) in order {
        if let (Some(ordinal), true) = (wait.ordinal, wait.lack != Lack::Call) {
            let ranks = &calls.communicators[wait.communicator].ranks;
            wait.missing.retain(|member| {
                let call = ranks[*member].call(wait.lane, ordinal);
                call.is_none_or(|call| {
                    let (order, _) = held.order(calls, wait.communicator, (*member, call));
                    order != Order::Behind
                })
            });
        }
        if !wait.missing.is_empty() {
            held.add(calls, kept.len(), &wait);
            kept.push((index, wait));
        }
    }
    let mut held_up = Vec::new();
    stalls.retain_mut(|stall| {
        let order = |at: &(usize, u32)| held.order(calls, stall.communicator, *at);
        let found = stall
            .calls
            .iter()
            .map(order)
            .max_by_key(|(order, _)| *order);
        let (order, first) = found.unwrap_or((Order::Apart, 0));
        if let Some((_, wait)) = kept.get_mut(first).filter(|_| order != Order::Apart) {
            let missing = wait.missing.first().copied();
            let same = wait.communicator == stall.communicator;
            let at = stall.calls.iter().find(|at| same && Some(at.0) == missing);
            wait.went_on = at.map(|at| Later {
                at: *at,
                ordinal: stall.ordinal,
                lane: stall.lane,
            });
        }
        stall.may_be_behind = order == Order::Unknown;
        if order == Order::Behind {
            held_up.extend(held.up(calls, stall));
        }
        order != Order::Behind
    });
    kept.sort_by_key(|(index, _)| *index);
    Waits {
        waits: kept.into_iter().map(|(_, wait)| wait).collect(),
        stalls,
        held_up,
        crossed: Vec::new(),
    }
}

impl HeldUp {
    fn add(&mut self, calls: &CaptureCalls, number: usize, wait: &Wait) {
        for (member, call) in &wait.calls {
            let own = &calls.communicators[wait.communicator].ranks[*member];
            let (made, shape) = calls.made(wait.communicator, (*member, *call));
            let held = Held {
                wait: number,
                may_have_ended: wait.may_have_ended,
                communicator: wait.communicator,
                call: *call,
                group: made.group,
                stream: shape.stream,
            };
            self.0.entry(own.vertex).or_default().add(held);
        }
    }

    /// A collective that all made, as a wait for those members that an earlier call holds up.
    fn up(&self, calls: &CaptureCalls, stall: &Stall) -> Option<Wait> {
        let is_held = |at: &(usize, u32)| {
            let (order, _) = self.order(calls, stall.communicator, *at);
            order == Order::Behind
        };
        let (missing, waiting): (Vec<_>, Vec<_>) = stall.calls.iter().partition(|at| is_held(at));
        let call = *waiting.first().filter(|_| stall.ordinal.is_some())?;
        let made = |at: &(usize, u32)| calls.made(stall.communicator, *at).0;
        let since = waiting.iter().filter_map(|at| known(made(at).api_ns)).min();
        let members = |of: &[(usize, u32)]| of.iter().map(|(member, _)| *member).collect();
        Some(Wait {
            communicator: stall.communicator,
            lane: stall.lane,
            ordinal: stall.ordinal,
            lack: Lack::Start,
            waiting: members(&waiting),
            missing: members(&missing),
            call,
            calls: waiting,
            met: 0,
            is_crossed: false,
            may_have_ended: false,
            went_on: None,
            since,
        })
    }

    /// Whether a member's call waits for an earlier one in which its vertex waits for others, and for which
    /// wait.
    fn order(&self, calls: &CaptureCalls, communicator: usize, at: (usize, u32)) -> (Order, usize) {
        let own = &calls.communicators[communicator].ranks[at.0];
        let (made, shape) = calls.made(communicator, at);
        let Some(of_vertex) = self.0.get(&own.vertex) else {
            return (Order::Apart, 0);
        };
        if of_vertex.first.is_none_or(|first| first >= at.1) {
            return (Order::Apart, 0);
        }
        let is_earlier = |held: &&Held| {
            let together = made.group != 0 && made.group == held.group;
            held.call < at.1 && !together
        };
        let holds = |held: &&Held| !held.may_have_ended && is_earlier(held);
        let stream = Some(shape.stream).filter(|stream| *stream != 0);
        let stream = stream.and_then(|stream| of_vertex.by_stream.get(&stream));
        let near = [of_vertex.by_communicator.get(&communicator), stream];
        let near = near.into_iter().flatten();
        let behind = near.filter_map(|of| of.iter().find(holds));
        if let Some(wait) = behind.map(|held| held.wait).min() {
            return (Order::Behind, wait);
        }
        let earlier = of_vertex.all.iter().find(is_earlier);
        earlier.map_or((Order::Apart, 0), |held| (Order::Unknown, held.wait))
    }
}

impl OfVertex {
    fn add(&mut self, held: Held) {
        self.all.push(held);
        let of = self.by_communicator.entry(held.communicator);
        of.or_default().push(held);
        self.by_stream.entry(held.stream).or_default().push(held);
        let first = self.first.map_or(held.call, |first| first.min(held.call));
        self.first = Some(first);
    }
}

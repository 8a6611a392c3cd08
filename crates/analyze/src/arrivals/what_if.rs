//! What the run loses by a late rank: the run played again, with that rank as early as the others.
//!
//! Held-up time, summed over operations, is more than the run loses. If five operations run beside a rank's
//! computing, and the rank is late to the first, it is late to all five. And others that wait there have work
//! in between anyway. So a [`WhatIf`] takes each operation's ranks as they became *ready*, moves the late
//! rank's readiness forward to the median of the others', and lets the operations follow. An operation begins
//! when its last rank is ready and the operation before it on its communicator is over. It takes as long as
//! its transfer took. What of that arrives at the end of the run is the loss.
//!
//! **Ready.** Where a kernel began some time after everything before it had ended, its rank was ready then.
//! If it began as soon as the one before it was over, it had been queued. Then it is inferred when its rank
//! was ready. That was not before the launch. Nor was it before the rank's usual work was done: as much as
//! ranks did that were neither queued nor held up by their hosts.
//!
//! **Anchor.** What a rank computes may depend on the end of an operation, and then moves forward with it, or
//! run beside it. That shows over the steps at the same place of the pattern: most take the same time,
//! counted from that end, or else from where the wait for it began. Where waits tell nothing, it is taken to
//! depend. The last operation that a rank's work depended on is its anchor, and lateness that its anchor had
//! on another communicator is inherited.
//!
//! **Bound.** A rank that others wait for may hide that these have work of their own beside the wait: its
//! lateness grows until they do nothing else but wait. The few steps before that show how long their work
//! takes, and the run can't become shorter than that ([`WhatIf::bound`]).
//!
//! Rule: with nobody moved, every operation ends when it did.
//!
//! Source: to follow a wait back to the delay that caused it, also over others in between, is from D. Böhme,
//! M. Geimer, F. Wolf and L. Arnold, "Identifying the root causes of wait states in large-scale parallel
//! applications", ICPP 2010.

use super::operations::{Lane, Operations, PartIndex, OTHER};
use crate::interval::Batches;
use std::collections::{BTreeMap, HashMap, VecDeque};

pub(super) mod path;

/// A kernel that begins so soon after another was queued behind it, ns.
const QUEUED_NS: i64 = 10_000;
/// A kernel that begins so soon after its launch began when its host let it, ns; or so small a part of the
/// time since the one before.
const AT_ONCE_NS: i64 = 50_000;
const AT_ONCE_PART: i64 = 4;
/// Where a larger part than this is queued, work runs beside the operation before.
const MOSTLY_QUEUED: f64 = 0.25;
/// Where steps are apart by less than this part of what they are otherwise, work runs beside the operation
/// before.
const CLEARLY: f64 = 0.7;
/// Of fewer steps than this, waits tell nothing.
const LEAST_STEPS: usize = 8;
/// So many times ranks must have done something after the end of an operation to show how long their own work
/// takes.
const LEAST_FREE: usize = 3;
/// Waits that differ by less than this tell nothing, ns.
const ALIKE_NS: f64 = 2_000.0;
/// Host and GPU clocks are put together anew so often, ns: they drift by less than 0.1 ms meanwhile.
const WINDOW_NS: i64 = 1_000_000_000;
/// How far back the kernel is looked for that ended last.
const BACK: usize = 16;

const NONE: u32 = u32::MAX;

/// What the run loses by a rank, and the 95 % interval of that, ns.
pub(super) struct Loss {
    pub(super) ns: f64,
    pub(super) interval: Option<(f64, f64)>,
}

/// One rank's part in an operation.
#[derive(Clone, Copy)]
struct Node {
    lane: u32,
    operation: u32,
    start: i64,
    end: i64,
    /// Launch on the clock of its GPU; [`i64::MIN`] where it is not known.
    launch: i64,
    /// As in [`super::operations::Part`].
    error: u32,
    /// The node of its lane that ended last before it began.
    before: u32,
    /// The node before it on the same communicator.
    previous: u32,
    /// The node at whose end the work before it began.
    anchor: u32,
    /// It began as soon as `before` was over.
    queued: bool,
    /// When its rank was ready, at `start` or before.
    ready: i64,
}

/// A run that can be played again.
pub(super) struct WhatIf {
    nodes: Vec<Node>,
    /// By operation: its nodes.
    operations: Vec<(u32, u32)>,
    /// By operation.
    communicators: Vec<u32>,
    /// By lane, its nodes as they began.
    lanes: Vec<Vec<u32>>,
    /// Operations, each after those that it depends on.
    order: Vec<u32>,
    /// By node: how long its rank's own work since `before` began takes, ns, where that shows; else
    /// [`i64::MIN`].
    alone: Vec<i64>,
}

impl WhatIf {
    pub(super) fn new(of: &Operations) -> WhatIf {
        let mut what_if = WhatIf {
            nodes: Vec::new(),
            operations: Vec::with_capacity(of.whole.len()),
            communicators: Vec::with_capacity(of.whole.len()),
            lanes: vec![Vec::new(); of.lanes.len()],
            order: Vec::new(),
            alone: Vec::new(),
        };
        let mut rows = Vec::new();
        for (operation, whole) in of.whole.iter().enumerate() {
            let first = what_if.nodes.len() as u32;
            for (sequence, _, place) in &of.parts[whole.0..whole.1] {
                let (part, place): (_, PartIndex) = (of.part(*place), *place);
                rows.push((*sequence, part.row));
                let start = wide(part.start);
                what_if.lanes[place.0 as usize].push(what_if.nodes.len() as u32);
                what_if.nodes.push(Node {
                    lane: place.0,
                    operation: operation as u32,
                    start,
                    end: start.saturating_add(part.ns.into()),
                    launch: part.launch_ns,
                    error: part.error,
                    before: NONE,
                    previous: NONE,
                    anchor: NONE,
                    queued: false,
                    ready: start,
                });
            }
            let last = what_if.nodes.len() as u32;
            what_if.operations.push((first, last));
            what_if
                .communicators
                .push(of.communicators[of.parts[whole.0].0 as usize]);
        }
        what_if.follow(&of.lanes);
        what_if.anchor(&rows);
        what_if.sort();
        what_if.infer();
        what_if
    }

    fn node(&self, index: u32) -> &Node {
        &self.nodes[index as usize]
    }

    fn communicator(&self, node: u32) -> u32 {
        self.communicators[self.node(node).operation as usize]
    }

    /// Puts lanes in order, launches on the GPUs' clocks, and says what each node comes after.
    fn follow(&mut self, of: &[Lane]) {
        let least = self.least_from_launch(of);
        let mut lanes = std::mem::take(&mut self.lanes);
        for (lane, least) in lanes.iter_mut().zip(&least) {
            lane.sort_unstable_by_key(|node| (self.node(*node).start, *node));
            let mut last: HashMap<u32, u32> = HashMap::new();
            for (at, index) in lane.iter().enumerate() {
                let node = *self.node(*index);
                let window = node.start / WINDOW_NS;
                let near = least.range(window.saturating_sub(1)..=window.saturating_add(1));
                let offset = near.map(|(_, apart)| *apart).min();
                let previous = last.insert(self.communicator(*index), *index);
                // Kernels of one communicator follow each other: where they seem to overlap, that is the
                // error of the clock.
                let before = lane[at.saturating_sub(BACK)..at]
                    .iter()
                    .filter(|b| {
                        let ended = self.node(**b).end <= node.start.saturating_add(QUEUED_NS);
                        ended || Some(**b) == previous
                    })
                    .max_by_key(|b| (self.node(**b).end, **b))
                    .copied();
                let ended = before.map(|before| self.node(before).end);
                let node = &mut self.nodes[*index as usize];
                node.launch = match offset {
                    Some(offset) if node.launch != 0 => {
                        // Times on the host's clock are off by their error at most.
                        let known = (node.error > 0).then_some(i64::from(node.error));
                        node.launch
                            .saturating_add(offset.min(known.unwrap_or(i64::MAX)))
                    }
                    _ => i64::MIN,
                };
                node.before = before.unwrap_or(NONE);
                node.previous = previous.unwrap_or(NONE);
                node.queued = ended.is_some_and(|end| node.start <= end.saturating_add(QUEUED_NS));
            }
        }
        self.lanes = lanes;
    }

    /// By lane and window: the GPU's clock less its host's, at most. A kernel that began as it was launched
    /// shows it, and where the kernel of another rank of the host did, their common end does.
    fn least_from_launch(&self, of: &[Lane]) -> Vec<BTreeMap<i64, i64>> {
        let mut least = vec![BTreeMap::new(); of.len()];
        let mut hosts: HashMap<&str, i64> = HashMap::new();
        for (first, last) in &self.operations {
            hosts.clear();
            let nodes = || (*first..*last).map(|index| self.node(index));
            let launched = |node: &&Node| node.launch != 0;
            for node in nodes().filter(launched) {
                let took = node.end.saturating_sub(node.start);
                let host = of[node.lane as usize].clock.as_str();
                let latest = hosts.entry(host).or_insert(i64::MIN);
                *latest = node.launch.saturating_add(took).max(*latest);
            }
            for node in nodes().filter(launched) {
                let apart = node
                    .end
                    .saturating_sub(hosts[of[node.lane as usize].clock.as_str()]);
                lower(&mut least[node.lane as usize], node.start, apart);
            }
        }
        for (lane, least) in of.iter().zip(&mut least) {
            let others = lane.parts.iter().filter(|p| p.sequence == OTHER);
            for part in others.filter(|part| part.launch_ns != 0) {
                let start = wide(part.start);
                lower(least, start, start.saturating_sub(part.launch_ns));
            }
        }
        least
    }

    /// Whether a kernel began when its host let it, `since` the one before.
    fn at_once(node: &Node, since: i64) -> bool {
        let late = node.start.saturating_sub(node.launch);
        node.launch != i64::MIN && late <= AT_ONCE_NS.max(since / AT_ONCE_PART)
    }

    /// Finds where work depends on the end of the operation before, and so each node's anchor. `rows` says
    /// what each node is.
    fn anchor(&mut self, rows: &[(u32, u32)]) {
        // Where in the pattern: what it is, and the two before it.
        let mut positions: HashMap<[(u32, u32); 3], u32> = HashMap::new();
        let mut position_of = vec![0u32; self.nodes.len()];
        for lane in &self.lanes {
            // Before the first there may have been more of the same.
            let first = lane
                .first()
                .map_or((NONE, NONE), |first| rows[*first as usize]);
            let mut recent = [first; 3];
            for index in lane {
                recent = [recent[1], recent[2], rows[*index as usize]];
                let next = positions.len() as u32;
                position_of[*index as usize] = *positions.entry(recent).or_insert(next);
            }
        }
        let mut places = vec![Position::default(); positions.len()];
        let mut alone = vec![i64::MIN; self.nodes.len()];
        // By position: what ranks did that mostly do nothing after the end before, at the times when they
        // did.
        let mut hidden: Vec<Vec<(f64, f64)>> = vec![Vec::new(); positions.len()];
        // By lane: the positions at which it is such a rank.
        let mut waits: Vec<HashMap<u32, usize>> = Vec::with_capacity(self.lanes.len());
        for lane in &self.lanes {
            let mut counts: HashMap<u32, usize> = HashMap::new();
            let mut times: HashMap<u32, Times> = HashMap::new();
            for index in lane {
                let node = self.node(*index);
                let Some(before) = self.nodes.get(node.before as usize) else {
                    continue;
                };
                let position = position_of[*index as usize];
                let place = &mut places[position as usize];
                place.all += 1;
                *counts.entry(position).or_default() += 1;
                if node.queued {
                    place.queued += 1;
                    continue;
                }
                let times = times.entry(position).or_default();
                let pair = |after: i64, wait: i64| {
                    (
                        after.saturating_sub(before.end) as f64,
                        before.end.saturating_sub(wait) as f64,
                    )
                };
                times.by_start.push(pair(node.start, before.start));
                let since = node.start.saturating_sub(before.start);
                if WhatIf::at_once(node, since) && before.launch != i64::MIN {
                    times.by_launch.push(pair(node.launch, before.launch));
                }
            }
            for (position, times) in &times {
                places[*position as usize].add(times.alike());
            }
            counts.retain(|position, all| {
                let times = times.get(position).map_or(&[][..], |times| &times.by_start);
                let free = times.iter().filter(|(after, _)| *after > AT_ONCE_NS as f64);
                let waits = 2 * free.clone().count() <= *all;
                if waits {
                    hidden[*position as usize].extend(free);
                }
                waits
            });
            waits.push(counts);
        }
        let work: Vec<Option<i64>> = hidden.iter().map(|free| work_beside(free)).collect();
        for (lane, waits) in self.lanes.iter().zip(&waits) {
            for index in lane {
                let position = position_of[*index as usize];
                if let (Some(work), true) = (work[position as usize], waits.contains_key(&position))
                {
                    alone[*index as usize] = work;
                }
            }
        }
        self.alone = alone;
        for lane in &self.lanes {
            let mut anchor = NONE;
            for index in lane {
                let node = &mut self.nodes[*index as usize];
                let depends = places[position_of[*index as usize] as usize].depends();
                if depends && !node.queued && node.before != NONE {
                    anchor = node.before;
                }
                node.anchor = anchor;
            }
        }
    }

    /// Sorts operations by what they depend on.
    fn sort(&mut self) {
        let mut edges: Vec<(u32, u32)> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let on = [node.before, node.previous, node.anchor];
            let on = on.into_iter().filter(|on| *on != NONE);
            edges.extend(on.map(|on| (self.node(on).operation, node.operation)));
        }
        edges.sort_unstable();
        edges.dedup();
        let mut open = vec![0u32; self.operations.len()];
        edges.iter().for_each(|(_, to)| open[*to as usize] += 1);
        let free = (0..open.len() as u32).filter(|o| open[*o as usize] == 0);
        let mut ready: VecDeque<u32> = free.collect();
        let mut done = vec![false; open.len()];
        while let Some(operation) = ready.pop_front() {
            self.order.push(operation);
            done[operation as usize] = true;
            let first = edges.partition_point(|(from, _)| *from < operation);
            for (_, to) in edges[first..].iter().take_while(|(f, _)| *f == operation) {
                open[*to as usize] -= 1;
                if open[*to as usize] == 0 {
                    ready.push_back(*to);
                }
            }
        }
        // Clocks that disagree by some µs may close a circle of very short operations.
        let left = (0..open.len() as u32).filter(|o| !done[*o as usize]);
        self.order.extend(left);
    }

    /// How long the work since the operation before took the rank of this node, where its host did not hold
    /// it up.
    fn work(&self, node: &Node) -> Option<i64> {
        let previous = self.nodes.get(node.previous as usize)?;
        let since = node.start.saturating_sub(previous.ready);
        let beside = !node.queued && node.anchor == previous.anchor;
        // The GPU kept pace with its host: that is the host's time.
        let of_host = node.launch != i64::MIN
            && previous.launch != i64::MIN
            && node.launch.saturating_sub(previous.launch).abs_diff(since)
                < since.unsigned_abs() / 4;
        (beside && !of_host && !WhatIf::at_once(node, since)).then_some(since)
    }

    /// Infers when ranks were ready whose kernels were queued.
    fn infer(&mut self) {
        for at in 0..self.order.len() {
            let (first, last) = self.operations[self.order[at] as usize];
            let work = (first..last)
                .filter_map(|index| self.work(self.node(index)))
                .min();
            for index in first..last {
                let node = self.node(index);
                if !node.queued {
                    continue;
                }
                let previous = self.nodes.get(node.previous as usize);
                let previous = previous.filter(|p| p.anchor == node.anchor);
                let worked = previous.zip(work).map(|(p, w)| p.ready.saturating_add(w));
                let launched = (node.launch != i64::MIN).then_some(node.launch);
                let ready = worked.max(launched).unwrap_or(node.start);
                self.nodes[index as usize].ready = ready.min(node.start);
            }
        }
    }

    /// For how long the rank of `node` was late by itself, against the median of the others of its operation.
    fn own(&self, index: u32, others: &mut Vec<i64>) -> i64 {
        let node = self.node(index);
        let (first, last) = self.operations[node.operation as usize];
        let communicator = self.communicator(index);
        let elsewhere = node.anchor != NONE && self.communicator(node.anchor) != communicator;
        // From the end that all share; where the anchor is another communicator's, from that.
        let late = |node: &Node| match elsewhere {
            false => Some(node.ready.saturating_sub(node.end)),
            true => {
                let anchor = self.nodes.get(node.anchor as usize)?;
                Some(node.ready.saturating_sub(anchor.end))
            }
        };
        others.clear();
        let other = (first..last).filter(|other| *other != index);
        others.extend(other.filter_map(|other| late(self.node(other))));
        others.sort_unstable();
        let median = others.get(others.len() / 2);
        let own = median
            .zip(late(node))
            .map_or(0, |(median, late)| late.saturating_sub(*median));
        own.min(self.of_host(index, others)).max(0)
    }

    /// By how much a rank's host took longer than the others' since their anchors, if the host held the rank
    /// up. Being on time can't gain more than that, because then all wait for the hosts.
    fn of_host(&self, index: u32, others: &mut Vec<i64>) -> i64 {
        let (node, known) = (self.node(index), |node: &Node| node.launch != i64::MIN);
        let anchor = |node: &Node| self.nodes.get(node.anchor as usize);
        let at_once = |node: &Node| {
            let before = self.nodes.get(node.before as usize);
            let since = before.map_or(0, |b| node.start.saturating_sub(b.start));
            WhatIf::at_once(node, since)
        };
        let (true, Some(mine)) = (at_once(node), anchor(node)) else {
            return i64::MAX;
        };
        // Starts have no error of a map of clocks in them.
        let launch = |node: &Node| match at_once(node) {
            true => node.start,
            false => node.launch,
        };
        let (first, last) = self.operations[node.operation as usize];
        others.clear();
        others.extend((first..last).filter_map(|other| {
            let other = self.node(other);
            let theirs = anchor(other).filter(|a| other.lane != node.lane && known(a))?;
            // A host that launches before the anchor's end does not wait for it.
            let waited = launch(other) >= theirs.end.saturating_sub(AT_ONCE_NS);
            let from = |anchor: &Node| match waited {
                true => anchor.end,
                false => launch(anchor),
            };
            let took = |node: &Node, anchor: &Node| launch(node).saturating_sub(from(anchor));
            let both = known(other) && known(mine);
            both.then(|| took(node, mine).saturating_sub(took(other, theirs)))
        }));
        others.sort_unstable();
        others.get(others.len() / 2).copied().unwrap_or(i64::MAX)
    }

    /// By how much each operation would have ended earlier, ns by operation. Without `shorter`: if the rank
    /// of `lane` had been as early as the median of the others. With it: if its transfer had been shorter by
    /// that.
    fn without(&self, lane: u32, shorter: Option<&[i64]>) -> Vec<i64> {
        self.without_in(lane, shorter, None)
    }

    /// The same, had that rank been as early in the operations of `only` alone.
    fn without_in(&self, lane: u32, shorter: Option<&[i64]>, only: Option<&[bool]>) -> Vec<i64> {
        let mut earlier = vec![0i64; self.operations.len()];
        let mut others = Vec::new();
        for operation in &self.order {
            let (first, last) = self.operations[*operation as usize];
            let transfer = (first..last)
                .map(|index| self.node(index).end.saturating_sub(self.node(index).start))
                .min()
                .unwrap_or(0);
            let mut least = i64::MAX;
            for index in first..last {
                let node = self.node(index);
                let moved = |on: u32| {
                    self.nodes
                        .get(on as usize)
                        .map_or(0, |on| earlier[on.operation as usize])
                };
                let begin = node.end.saturating_sub(transfer);
                let moves = only.is_none_or(|only| only[*operation as usize]);
                let own = match node.lane == lane && shorter.is_none() && moves {
                    true => self.own(index, &mut others),
                    false => 0,
                };
                let ready = node.ready.saturating_sub(moved(node.anchor));
                let mut could = ready.saturating_sub(own);
                let behind = if node.queued {
                    node.before
                } else {
                    node.previous
                };
                if let Some(before) = self.nodes.get(behind as usize) {
                    could = could.max(before.end.saturating_sub(moved(behind)));
                }
                least = least.min(begin.saturating_sub(could));
            }
            let shorter = shorter.map_or(0, |shorter| shorter[*operation as usize]);
            earlier[*operation as usize] = least.max(0).saturating_add(shorter);
        }
        earlier
    }

    /// The operations of a lane, each with the one in which its rank became late. The others' kernels may
    /// have been queued behind the operation before, with all work beside it. Then they may have been ready
    /// long since, and the rank is as late as it was in that operation. Where it became later by half of what
    /// it held up (`held` by operation, ns) or more, it did so by itself.
    pub(super) fn origins(&self, lane: u32, held: impl Fn(u32) -> f64) -> Vec<(u32, u32)> {
        let mut origins: Vec<(u32, u32)> = Vec::with_capacity(self.lanes[lane as usize].len());
        let mut of: HashMap<u32, (u32, i64)> = HashMap::new();
        let mut others = Vec::new();
        for index in &self.lanes[lane as usize] {
            let node = self.node(*index);
            let own = self.own(*index, &mut others);
            let before = self.nodes.get(node.previous as usize).filter(|previous| {
                let (first, last) = self.operations[node.operation as usize];
                let mut others = (first..last).filter(|o| o != index).map(|o| self.node(o));
                let behind = |other: &Node| {
                    let before = self.nodes.get(other.before as usize);
                    other.queued && before.is_some_and(|b| b.operation == previous.operation)
                };
                node.anchor == previous.anchor && others.any(behind)
            });
            let origin = before
                .and_then(|before| of.get(&before.operation))
                .filter(|(_, was)| ((own - was) as f64) < 0.5 * held(node.operation))
                .map_or(node.operation, |(origin, _)| *origin);
            of.insert(node.operation, (origin, own));
            origins.push((node.operation, origin));
        }
        origins
    }

    /// What the run loses by the rank of `lane`.
    pub(super) fn loss(&self, lane: u32) -> Loss {
        let loss = self.told(lane, self.without(lane, None));
        let bound = self.bound(lane);
        Loss {
            ns: loss.ns.min(bound),
            interval: loss
                .interval
                .map(|(low, high)| (low.min(bound), high.min(bound))),
        }
    }

    /// What the run loses by the rank of `lane`, ns: in the operations of `only`, and in the ones after them
    /// that are parts of the same work.
    pub(super) fn loss_in(&self, lane: u32, only: &[bool]) -> f64 {
        let mut with = only.to_vec();
        let mut since = None;
        for index in &self.lanes[lane as usize] {
            let node = self.node(*index);
            let operation = node.operation as usize;
            if only[operation] {
                since = Some(node.anchor);
            } else if since == Some(node.anchor) {
                with[operation] = true;
            } else {
                since = None;
            }
        }
        let earlier = self.without_in(lane, None, Some(&with));
        let last = self.lanes[lane as usize].last();
        last.map_or(0.0, |last| {
            earlier[self.node(*last).operation as usize] as f64
        })
    }

    /// What the run can lose by the rank of `lane` at most, ns: each other rank's time less that of its own
    /// work.
    fn bound(&self, lane: u32) -> f64 {
        let of = |nodes: &Vec<u32>| {
            let beyond = |index: &u32| {
                let (node, own) = (self.node(*index), self.alone[*index as usize]);
                let before = self.nodes.get(node.before as usize);
                let since = before.map_or(0, |before| node.start.saturating_sub(before.start));
                match own {
                    i64::MIN => since,
                    own => since.saturating_sub(own).max(0),
                }
            };
            let waits = |index: &u32| {
                self.node(*index)
                    .end
                    .saturating_sub(self.node(*index).start)
            };
            let last = nodes.last().map_or(0, waits);
            nodes.iter().map(|index| beyond(index) as f64).sum::<f64>() + last as f64
        };
        let others = (0..)
            .zip(&self.lanes)
            .filter(|(other, nodes)| *other != lane && !nodes.is_empty());
        others
            .map(|(_, nodes)| of(nodes))
            .fold(f64::INFINITY, f64::min)
    }

    /// What it loses by transfers that take so much longer, ns by operation, as the rank of `lane` sees it.
    pub(super) fn loss_of(&self, lane: u32, longer: &[i64]) -> Loss {
        self.told(lane, self.without(lane, Some(longer)))
    }

    /// `earlier` is by how much operations end earlier.
    fn told(&self, lane: u32, earlier: Vec<i64>) -> Loss {
        let nodes = &self.lanes[lane as usize];
        // At anchors all work of a step is behind; between them, lateness comes and goes.
        let mut marks: Vec<u32> = nodes.iter().map(|n| self.node(*n).anchor).collect();
        marks.retain(|anchor| *anchor != NONE);
        marks.dedup();
        marks.extend(nodes.last());
        if marks.len() < crate::interval::LEAST_OPERATIONS {
            marks.clone_from(nodes);
        }
        let at = |node: u32| earlier[self.node(node).operation as usize] as f64;
        let (Some(first), Some(last)) = (marks.first(), marks.last()) else {
            return Loss {
                ns: 0.0,
                interval: None,
            };
        };
        // The time up to the first is the start-up, which is no sample of the steps.
        let (start_up, steps) = (at(*first), marks.len() - 1);
        let batches = Batches::new(steps).map(|mut batches| {
            for (index, pair) in marks.windows(2).enumerate() {
                batches.add(index, steps, at(pair[1]) - at(pair[0]), 1.0);
            }
            batches
        });
        let mean = batches.and_then(|batches| batches.mean(0.0));
        let whole = |of_step: f64| start_up + steps as f64 * of_step;
        let interval = mean.and_then(|mean| mean.interval());
        Loss {
            ns: at(*last),
            interval: interval.map(|(low, high)| (whole(low), whole(high))),
        }
    }
}

fn wide(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX / 2)
}

/// Keeps the least of each window.
fn lower(least: &mut BTreeMap<i64, i64>, at: i64, apart: i64) {
    let of_window = least.entry(at / WINDOW_NS).or_insert(i64::MAX);
    *of_window = apart.min(*of_window);
}

/// What a rank did at one place of the pattern: time after the end before, and the wait for that end.
#[derive(Default)]
struct Times {
    by_start: Vec<(f64, f64)>,
    /// Where a kernel began when its host let it.
    by_launch: Vec<(f64, f64)>,
}

impl Times {
    /// As the host made them, where it mostly did: never some so and others so.
    fn alike(&self) -> &[(f64, f64)] {
        match 2 * self.by_launch.len() > self.by_start.len() {
            true => &self.by_launch,
            false => &self.by_start,
        }
    }
}

/// How long ranks' own work takes from the start of the operation before, if it shows that they work beside
/// the wait for its end. `free` is the time after that end, and the wait for it, when they did not only wait.
fn work_beside(free: &[(f64, f64)]) -> Option<i64> {
    if free.len() < LEAST_FREE {
        return None;
    }
    let after = apart(free.iter().map(|(after, _)| *after));
    let whole = apart(free.iter().map(|(after, wait)| after + wait));
    let mut wholes: Vec<f64> = free.iter().map(|(after, wait)| after + wait).collect();
    wholes.sort_unstable_by(f64::total_cmp);
    // Of an even number the lower one: less work makes the bound wider.
    let median = wholes[(wholes.len() - 1) / 2];
    (whole < CLEARLY * CLEARLY * after && whole < 0.25 * median).then_some(median as i64)
}

/// One place of the pattern, over ranks and steps.
#[derive(Clone, Default)]
struct Position {
    all: u64,
    queued: u64,
    /// How far apart the times after the end before are, and those with the wait before it: sums of squares.
    after: f64,
    with_wait: f64,
    judged: f64,
}

impl Position {
    /// Adds what one rank did here: the time after the end before, and how long it had waited for that end.
    fn add(&mut self, times: &[(f64, f64)]) {
        if times.len() < LEAST_STEPS {
            return;
        }
        let n = times.len() as f64;
        self.after += n * apart(times.iter().map(|(after, _)| *after)).powi(2);
        self.with_wait += n * apart(times.iter().map(|(after, wait)| after + wait)).powi(2);
        self.judged += n;
    }

    /// Whether work here waits for the end of the operation before: then it takes its time from there,
    /// however long the wait was; else from where that wait began. Most steps are alike one way or the other;
    /// those that something disturbed tell nothing.
    fn depends(&self) -> bool {
        if self.queued as f64 > MOSTLY_QUEUED * self.all as f64 {
            return false;
        }
        let alike = self.judged * ALIKE_NS * ALIKE_NS;
        self.with_wait + alike >= CLEARLY * CLEARLY * self.after
    }
}

/// How far apart those values are that lie closest to each other, half of all.
fn apart(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    let widths = values
        .iter()
        .zip(&values[half..])
        .map(|(low, high)| high - low);
    widths.fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests;

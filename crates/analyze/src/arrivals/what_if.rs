//! What the run loses by a late rank: the run played again, with that rank as early as the others.
//!
//! Held-up time, summed over operations, is more than the run loses. If five operations run beside a rank's
//! computing, and the rank is late to the first, it is late to all five. And others that wait there have work
//! in between anyway. So a [`WhatIf`] takes each operation's ranks as they became *ready*, moves the late
//! rank's readiness forward to where the others' is, but for chance, and lets the operations follow. An
//! operation begins when its last rank is ready and the operation before it on its communicator is over. It
//! takes as long as its transfer took. What of that arrives at the end of the run is the loss.
//!
//! **Chance.** A rank that is not late is still last now and then. So at each place of the pattern, the late
//! rank keeps the order of its steps. Its distances from the median of the others become those of a normal
//! distribution, as wide as its spread by chance ([`WhatIf::avoidable`]).
//!
//! **Ready.** Where a kernel began some time after everything before it had ended, its rank was ready then.
//! If it began as soon as the one before it on its communicator was over, it had been queued. Then it is
//! inferred when its rank was ready. That was not before the launch, nor before the end of what its work
//! depended on. Nor was it before the rank's usual work was done. That is as much as ranks did that were
//! neither queued nor held up by their hosts. It counts until the operation, or until their streams stood
//! still for it.
//!
//! **Anchor.** What a rank computes may depend on the end of an operation, and then moves forward with it, or
//! run beside it. That shows over the steps at the same place of the pattern: most take the same time,
//! counted from that end, or else from where the wait for it began. Where waits tell nothing, it is taken to
//! depend. The last operation that a rank's work depended on is its anchor, and lateness that its anchor had
//! on another communicator is inherited.
//!
//! **Streams.** It may be recorded for how long a stream stood still for an operation. Its rank had own work
//! to do until then. So it can't go on before that, however early the operation ends.
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
use crate::interval::without_chance;
use crate::time::Nanos;
use std::collections::{BTreeMap, HashMap, VecDeque};

pub(super) mod loss;
pub(super) mod path;
mod ready;

/// A kernel that begins so soon after another was queued behind it, ns.
const QUEUED_NS: i64 = 10_000;
/// A kernel that begins so soon after its launch began when its host let it, ns; or so small a part of the
/// time since the one before.
const AT_ONCE_NS: i64 = 50_000;
const AT_ONCE_PART: i64 = 4;
/// Host and GPU clocks are put together anew so often, ns: they drift by less than 0.1 ms meanwhile.
const WINDOW_NS: i64 = 1_000_000_000;
/// How far back the kernel is looked for that ended last.
const BACK: usize = 16;

const NONE: u32 = u32::MAX;

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
    /// By node: for how long a stream stood still for it, ns, if that was recorded.
    exposed: Vec<Option<u64>>,
    /// By node: its place in the pattern.
    places: Vec<u32>,
}

/// By place in the pattern: by how much a rank was later than the others in each operation, ns, and which
/// that is.
type Lateness = BTreeMap<u32, Vec<(i64, u32)>>;

/// How wide lateness is spread by chance alone.
type ByChance = fn(&[f64]) -> f64;

impl WhatIf {
    pub(super) fn new(of: &Operations) -> WhatIf {
        let mut what_if = WhatIf {
            nodes: Vec::new(),
            operations: Vec::with_capacity(of.whole.len()),
            communicators: Vec::with_capacity(of.whole.len()),
            lanes: vec![Vec::new(); of.lanes.len()],
            order: Vec::new(),
            alone: Vec::new(),
            exposed: WhatIf::exposed(of),
            places: Vec::new(),
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
                    end: start.saturating_add_unsigned(part.ns),
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
        what_if.infer_waits();
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

    /// Fills in waits of which nothing is known. If a stream came to wait for an operation just as the one
    /// before it ended, it had waited for that one, too: at most since that one began.
    fn infer_waits(&mut self) {
        for (index, node) in self.nodes.iter().enumerate() {
            let known = self.exposed[index].filter(|ns| *ns > 0);
            let (Some(ns), Some(before)) = (known, self.nodes.get(node.previous as usize)) else {
                continue;
            };
            let came = node.end.saturating_sub_unsigned(ns);
            let exposed = &mut self.exposed[node.previous as usize];
            if exposed.is_none() && (0..AT_ONCE_NS).contains(&came.saturating_sub(before.end)) {
                let most = before.end.saturating_sub(before.start);
                *exposed = Some(u64::try_from(most).unwrap_or(0));
            }
        }
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

    /// By how much the rank of a lane was later than the others, by place in the pattern. `beside` is a lane
    /// that is late, too, and no measure of others.
    fn lateness(&self, lane: u32, beside: u32) -> Lateness {
        let mut others = Vec::new();
        let mut places = Lateness::new();
        for index in &self.lanes[lane as usize] {
            let own = self.own(*index, beside, &mut others);
            let of_place = places.entry(self.places[*index as usize]).or_default();
            of_place.push((own, self.node(*index).operation));
        }
        places
    }

    /// For how long the rank was late by itself in each operation, ns. `by_chance` says what of its lateness
    /// is chance: that stays.
    fn avoidable(&self, lateness: &Lateness, by_chance: ByChance) -> Vec<i64> {
        let mut late = vec![0; self.operations.len()];
        for of_place in lateness.values() {
            let own: Vec<f64> = of_place.iter().map(|(own, _)| *own as f64).collect();
            let mut of_place = of_place.clone();
            without_chance(&mut of_place, by_chance(&own));
            for (own, operation) in of_place {
                late[operation as usize] = own.max(0);
            }
        }
        late
    }

    /// For how long the rank of a node was later than the median of the others of its operation, by itself.
    fn own(&self, index: u32, beside: u32, others: &mut Vec<i64>) -> i64 {
        let node = self.node(index);
        let (first, last) = self.operations[node.operation as usize];
        let communicator = self.communicator(index);
        let elsewhere = node.anchor != NONE && self.communicator(node.anchor) != communicator;
        // From the end that all share; where the anchor is another communicator's, from that.
        let late = |node: &Node| {
            if !elsewhere {
                Some(node.ready.saturating_sub(node.end))
            } else {
                let anchor = self.nodes.get(node.anchor as usize)?;
                Some(node.ready.saturating_sub(anchor.end))
            }
        };
        others.clear();
        let other = (first..last).filter(|other| *other != index);
        let other = other.map(|other| self.node(other));
        others.extend(other.filter(|other| other.lane != beside).filter_map(late));
        others.sort_unstable();
        let median = others.get(others.len() / 2);
        let own = median
            .zip(late(node))
            .map_or(0, |(median, late)| late.saturating_sub(*median));
        own.min(self.of_host(index, others))
    }

    /// By how much a rank's host took longer than the others' since their anchors, if the host held the rank
    /// up. Being on time can't gain more than that, because then all wait for the hosts. Where anchors
    /// differ, it is since the later one, if both ranks were in that operation.
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
        let launch = |node: &Node| {
            if at_once(node) {
                node.start
            } else {
                node.launch
            }
        };
        // The nodes of an operation are by lane.
        let in_operation = |of: &Node, lane: u32| {
            let (first, last) = self.operations[of.operation as usize];
            let nodes = &self.nodes[first as usize..last as usize];
            let at = nodes.binary_search_by_key(&lane, |node| node.lane);
            at.ok().map(|at| &nodes[at])
        };
        let since = |mine: &Node, theirs: &Node| {
            if mine.end >= theirs.end {
                in_operation(mine, theirs.lane).map(|theirs| (*mine, *theirs))
            } else {
                in_operation(theirs, mine.lane).map(|mine| (*mine, *theirs))
            }
        };
        let (first, last) = self.operations[node.operation as usize];
        others.clear();
        others.extend((first..last).filter_map(|other| {
            let other = self.node(other);
            let theirs = anchor(other).filter(|a| other.lane != node.lane && known(a))?;
            let (mine, theirs) = if mine.operation == theirs.operation {
                (*mine, *theirs)
            } else {
                since(mine, theirs).unwrap_or((*mine, *theirs))
            };
            // A host that launches before the anchor's end does not wait for it.
            let waited = launch(other) >= theirs.end.saturating_sub(AT_ONCE_NS);
            let from = |anchor: &Node| if waited { anchor.end } else { launch(anchor) };
            let took = |node: &Node, anchor: &Node| launch(node).saturating_sub(from(anchor));
            let all = known(other) && known(&mine) && known(&theirs);
            all.then(|| took(node, &mine).saturating_sub(took(other, &theirs)))
        }));
        others.sort_unstable();
        others.get(others.len() / 2).copied().unwrap_or(i64::MAX)
    }

    /// By how much each operation would have ended earlier, ns by operation, if the ranks of these lanes had
    /// not been late, and transfers had been shorter by so much.
    fn without(&self, late: &[(u32, Vec<i64>)], shorter: Option<&[i64]>) -> Vec<i64> {
        let mut earlier = vec![0i64; self.operations.len()];
        // By node: by how much earlier its rank goes on with what depends on it.
        let mut goes_on = vec![0i64; self.nodes.len()];
        // By node: how much less its rank worked since its anchor. One that was queued does not show it, so
        // it is as before.
        let mut less = vec![0i64; self.nodes.len()];
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
                let since = goes_on.get(node.anchor as usize).copied().unwrap_or(0);
                let begin = node.end.saturating_sub(transfer);
                let late = late.iter().find(|(lane, _)| *lane == node.lane);
                let own = late.map_or(0, |(_, late)| late[*operation as usize]);
                let anchor = self.nodes.get(node.anchor as usize);
                let anchor = anchor.map_or(i64::MIN, |anchor| anchor.end.saturating_sub(since));
                let mut could = node
                    .ready
                    .saturating_sub(since)
                    .saturating_sub(own)
                    .max(anchor);
                let same_work = [node.before, node.previous].into_iter().filter(|before| {
                    let before = self.nodes.get(*before as usize);
                    before.is_some_and(|before| before.anchor == node.anchor)
                });
                let before = same_work.map(|before| less[before as usize]).max();
                let before = before.filter(|_| self.in_line(index));
                less[index as usize] = own.max(before.unwrap_or(0));
                // Its stream had nothing else to do that much sooner.
                goes_on[index as usize] = since.saturating_add(less[index as usize]);
                let behind = if node.queued {
                    node.before
                } else {
                    node.previous
                };
                // One that began before the other was over did not wait for it.
                let waited = |before: &&Node| before.end <= node.start.saturating_add(QUEUED_NS);
                if let Some(before) = self.nodes.get(behind as usize).filter(waited) {
                    could = could.max(before.end.saturating_sub(moved(behind)));
                }
                least = least.min(begin.saturating_sub(could));
            }
            let shorter = shorter.map_or(0, |shorter| shorter[*operation as usize]);
            let ends = least.max(0).saturating_add(shorter);
            earlier[*operation as usize] = ends;
            for index in first..last {
                // A stream that stood still for it can't go on before its own work is done.
                let most = match self.exposed[index as usize] {
                    Some(ns) => goes_on[index as usize].saturating_add_unsigned(ns),
                    None => i64::MAX,
                };
                goes_on[index as usize] = ends.min(most);
            }
        }
        earlier
    }

    /// The operations of a lane, each with the one in which its rank became late. The others' kernels may
    /// have been queued behind the operation before, with all work beside it. Then they may have been ready
    /// long since, and the rank is as late as it was in that operation. Where it became later by half of what
    /// it held up (`held` by operation) or more, it did so by itself.
    pub(super) fn origins(&self, lane: u32, held: impl Fn(u32) -> Nanos) -> Vec<(u32, u32)> {
        let mut origins: Vec<(u32, u32)> = Vec::with_capacity(self.lanes[lane as usize].len());
        let mut of: HashMap<u32, (u32, i64)> = HashMap::new();
        let mut others = Vec::new();
        for index in &self.lanes[lane as usize] {
            let node = self.node(*index);
            let own = self.own(*index, NONE, &mut others).max(0);
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
                .filter(|(_, was)| Nanos::from(own - was) < held(node.operation) * 0.5)
                .map_or(node.operation, |(origin, _)| *origin);
            of.insert(node.operation, (origin, own));
            origins.push((node.operation, origin));
        }
        origins
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

#[cfg(test)]
mod tests;

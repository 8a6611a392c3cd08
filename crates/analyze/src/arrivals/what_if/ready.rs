//! When ranks were ready for operations, and on the end of which one their work depended.
//!
//! Rule: where waits tell nothing, work is taken to depend on the operation before.

use super::{Node, WhatIf, AT_ONCE_NS, NONE, QUEUED_NS};
use std::collections::{HashMap, HashSet};

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
/// Work waits for the operation before it, if it was still to be done after so many times more long waits
/// than those after which it was done.
const MOSTLY_BEFORE: u64 = 3;
/// Waits that differ by less than this tell nothing, ns.
const ALIKE_NS: f64 = 2_000.0;

impl WhatIf {
    /// Finds where work depends on the end of the operation before, and so each node's anchor. `rows` says
    /// what each node is.
    pub(super) fn anchor(&mut self, rows: &[(u32, u32)]) {
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
                let times = times.entry(position).or_default();
                if node.queued {
                    place.queued += 1;
                    times
                        .queued
                        .push(before.end.saturating_sub(before.start) as f64);
                    continue;
                }
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
                let place = &mut places[*position as usize];
                place.add(times.alike());
                place.add_long_waits(times);
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
        (self.alone, self.places) = (alone, position_of.clone());
        let last: HashSet<u32> = (0..self.operations.len())
            .filter_map(|operation| self.waited_for(operation))
            .collect();
        let end =
            |nodes: &[Node], of: u32| nodes.get(of as usize).map_or(i64::MIN, |node| node.end);
        for lane in &self.lanes {
            let waited = lane
                .iter()
                .filter(|index| self.exposed[**index as usize].is_some());
            let communicators: HashSet<u32> =
                waited.map(|index| self.communicator(*index)).collect();
            let (mut inferred, mut awaited) = (NONE, NONE);
            // The anchors so far.
            let mut stops: Vec<u32> = Vec::new();
            // Operations for which streams stood still, and that had not ended when the one before began.
            let mut open: Vec<u32> = Vec::new();
            for index in lane {
                let node = self.nodes[*index as usize];
                open.retain(|of| {
                    let ended = end(&self.nodes, *of);
                    if ended <= node.start && ended > end(&self.nodes, awaited) {
                        awaited = *of;
                    }
                    ended > node.start
                });
                let place = &places[position_of[*index as usize] as usize];
                // Where streams wait for such operations, that is measured and not inferred. Others of the
                // same communicator may run on the stream that computes, where no stream need wait for them:
                // they stop it if that shows.
                if place.depends() && !node.queued && node.before != NONE {
                    let is_known = self.exposed[node.before as usize].is_some()
                        || communicators.contains(&self.communicator(node.before))
                            && !place.shows();
                    inferred = if is_known { inferred } else { node.before };
                }
                let later = |of: &u32| end(&self.nodes, *of);
                let anchor = std::cmp::max_by_key(inferred, awaited, later);
                if stops.last() != Some(&anchor) && anchor != NONE {
                    stops.push(anchor);
                }
                // What ended while it was queued, and was launched after it, it did not wait for.
                let launched = |of: &u32| self.nodes[*of as usize].launch < node.launch;
                let mut before = stops.iter().rev().copied().filter(launched);
                self.nodes[*index as usize].anchor = match node.launch {
                    i64::MIN => anchor,
                    _ if self.in_line(*index) => before.next().unwrap_or(anchor),
                    // Kernels of different communicators do not queue: it waited for that one.
                    _ if node.queued && launched(&node.before) => node.before,
                    _ => anchor,
                };
                if self.stopped(*index) || last.contains(index) {
                    open.push(*index);
                }
            }
        }
    }

    /// Whether a stream stood still for a node, as far as that is known.
    fn stopped(&self, index: u32) -> bool {
        self.exposed[index as usize].is_some_and(|ns| ns > QUEUED_NS as u64)
    }

    /// The node that came last to an operation for which the streams of all others stood still: all its ranks
    /// go on together. The last one may do so without standing still, because the operation was over when
    /// its host asked to wait for it.
    fn waited_for(&self, operation: usize) -> Option<u32> {
        let (first, last) = self.operations[operation];
        let late = (first..last).max_by_key(|index| (self.node(*index).start, *index))?;
        let mut others = (first..last).filter(|index| *index != late);
        let is_known = last - first > 1 && self.exposed[late as usize].is_some();
        (is_known && others.all(|index| self.stopped(index))).then_some(late)
    }

    /// How long the work since the operation before took the rank of this node, where its host did not hold
    /// it up.
    fn work(&self, node: &Node) -> Option<i64> {
        let previous = self.nodes.get(node.previous as usize)?;
        let since = node.start.saturating_sub(previous.ready);
        let beside = !node.queued && node.anchor == previous.anchor;
        // The GPU kept pace with its host: that is the host's time. A host that is ahead keeps the GPU's.
        let of_host = node.launch > previous.ready
            && previous.launch != i64::MIN
            && node.launch.saturating_sub(previous.launch).abs_diff(since)
                < since.unsigned_abs() / 4;
        (beside && !of_host && !WhatIf::at_once(node, since)).then_some(since)
    }

    /// Whether a node was queued behind the one before it on its communicator.
    pub(super) fn in_line(&self, index: u32) -> bool {
        let node = self.node(index);
        node.queued && self.communicator(node.before) == self.communicator(index)
    }

    /// From when on a stream stood still for a node.
    fn stood_still(&self, index: u32) -> Option<i64> {
        let ns = self.exposed[index as usize].filter(|ns| *ns > 0)?;
        Some(self.node(index).end.saturating_sub_unsigned(ns))
    }

    /// Infers when ranks were ready whose kernels were queued.
    pub(super) fn infer(&mut self) {
        for at in 0..self.order.len() {
            let (first, last) = self.operations[self.order[at] as usize];
            let work = (first..last)
                .filter_map(|index| self.work(self.node(index)))
                .min();
            // How long a rank that was not queued computed on until its stream stood still for this.
            let free = (first..last).filter(|index| !self.in_line(*index));
            let beside = free.filter_map(|index| {
                Some((self.stood_still(index)? - self.node(index).start).max(0))
            });
            let beside = beside.min();
            for index in first..last {
                let node = self.node(index);
                if !self.in_line(index) {
                    continue;
                }
                let previous = self.nodes.get(node.previous as usize);
                let previous = previous.filter(|p| p.anchor == node.anchor);
                let worked = previous.zip(work).map(|(p, w)| p.ready.saturating_add(w));
                let launched = (node.launch != i64::MIN).then_some(node.launch);
                let stopped = self
                    .stood_still(index)
                    .zip(beside)
                    .map(|(at, beside)| at - beside);
                let anchor = self
                    .nodes
                    .get(node.anchor as usize)
                    .map(|anchor| anchor.end);
                let ready = stopped
                    .or(worked)
                    .max(launched)
                    .max(anchor)
                    .unwrap_or(node.start);
                self.nodes[index as usize].ready = ready.min(node.start);
            }
        }
    }
}

/// What a rank did at one place of the pattern: time after the end before, and the wait for that end.
#[derive(Default)]
struct Times {
    by_start: Vec<(f64, f64)>,
    /// Where a kernel began when its host let it.
    by_launch: Vec<(f64, f64)>,
    /// The waits after which a kernel began at once.
    queued: Vec<f64>,
}

impl Times {
    /// As the host made them, where it mostly did: never some so and others so.
    fn alike(&self) -> &[(f64, f64)] {
        if 2 * self.by_launch.len() > self.by_start.len() {
            &self.by_launch
        } else {
            &self.by_start
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
    /// Waits that were longer than the work after them: those after which it was still to be done, and those
    /// after which it was done.
    before_work: u64,
    beside_work: u64,
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

    /// Adds what long waits of one rank show. Work beside a wait that is longer than the work is done when
    /// the wait ends. Of operations that are alike, only the first of a step may have such a wait.
    fn add_long_waits(&mut self, times: &Times) {
        let mut after: Vec<f64> = times.by_start.iter().map(|(after, _)| *after).collect();
        after.sort_unstable_by(f64::total_cmp);
        let Some(usual) = after.get(after.len() / 2) else {
            return;
        };
        let is_long = |wait: &f64| *wait > 2.0 * usual;
        let long = times.by_start.iter().filter(|(_, wait)| is_long(wait));
        let to_do = |(after, _): &&(f64, f64)| 2.0 * after > *usual;
        let (all, before) = (long.clone().count(), long.filter(to_do).count());
        self.before_work += before as u64;
        let queued = times.queued.iter().filter(|wait| is_long(wait));
        self.beside_work += (all - before + queued.count()) as u64;
    }

    /// Whether steps show that work here waits for the end of the operation before. Either they are more
    /// alike from that end than from where the wait began. Or the work is still to be done after waits that
    /// are longer than the work.
    fn shows(&self) -> bool {
        let long = self.before_work >= LEAST_STEPS as u64;
        long && self.before_work > MOSTLY_BEFORE * self.beside_work
            || self.judged > 0.0 && self.after + self.judged * ALIKE_NS * ALIKE_NS < self.with_wait
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
mod tests {
    use super::*;

    #[test]
    fn a_host_that_is_slow_now_and_then_does_not_hide_what_waits() {
        // Time after an operation and wait for it, ms, of a host that sleeps 100 ms a step. A slow phase
        // makes one longer and the other shorter.
        let measured = [
            (127.33, 78.98),
            (137.27, 67.44),
            (137.03, 80.45),
            (124.77, 69.46),
            (130.18, 72.83),
            (135.41, 70.01),
            (123.96, 83.24),
            (124.56, 82.16),
            (123.58, 82.13),
            (140.12, 81.39),
            (138.09, 71.75),
            (123.79, 82.06),
            (123.52, 85.08),
            (123.03, 78.75),
            (122.65, 80.02),
            (123.33, 69.11),
            (124.04, 80.19),
            (122.44, 82.87),
            (122.17, 82.62),
            (121.33, 84.12),
            (122.14, 85.02),
            (123.65, 83.35),
            (131.65, 80.59),
            (132.67, 79.18),
        ];
        let ns = |scale: fn(f64, f64) -> (f64, f64)| -> Vec<(f64, f64)> {
            let ns = |(after, wait)| (after * 1e6, wait * 1e6);
            measured
                .iter()
                .map(|(after, wait)| ns(scale(*after, *wait)))
                .collect()
        };
        let depends = |times: &[(f64, f64)]| {
            let mut position = Position::default();
            position.add(times);
            position.depends()
        };
        assert!(depends(&ns(|after, wait| (after, wait))));
        // The same, had it gone on beside the operation.
        assert!(!depends(&ns(|after, wait| (after - wait, wait))));
    }
}

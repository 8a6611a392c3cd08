//! Who waits for whom, and those that wait for nobody.

use super::judge::{Found, Judge};
use super::liveness::State;
use super::waits::Lack;
use super::Verdict;
use std::collections::{BTreeMap, BTreeSet};

/// Ranks that wait for nobody and that others wait for, in one wait.
pub(super) struct Root {
    pub index: usize,
    pub ranks: Vec<usize>,
    /// Dead ones first, those that may come last.
    pub order: u32,
    pub waiters: usize,
    /// The call is the one that comes next in their pattern.
    pub expected: bool,
}

impl Judge<'_> {
    /// Follows who waits for whom to those that wait for nobody.
    pub(super) fn chains(&self) -> Option<Found> {
        let mut edges: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for wait in &self.waits {
            for waiting in &wait.waiting {
                let to = edges
                    .entry(self.vertex(wait.communicator, *waiting))
                    .or_default();
                to.extend(
                    wait.missing
                        .iter()
                        .map(|m| self.vertex(wait.communicator, *m)),
                );
            }
        }
        // One that lacks what it is in itself, of two of its communicators' ranks, waits for nobody else.
        for (vertex, to) in &mut edges {
            to.remove(vertex);
        }
        let stalled: BTreeSet<usize> = self
            .stalls
            .iter()
            .flat_map(|stall| &self.calls.communicators[stall.communicator].ranks)
            .map(|member| member.vertex)
            .collect();
        let waits_for = |vertex: usize| edges.get(&vertex).is_some_and(|to| !to.is_empty());
        let gone = |communicator: usize, member: usize| {
            matches!(
                self.state(communicator, member),
                State::Dead | State::Ended | State::Stopped | State::Silent
            ) || self.calls.communicators[communicator].ranks[member]
                .ended_ns
                .is_some()
        };
        // How many vertices wait for one, over others too.
        let mut back: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (from, to) in &edges {
            for vertex in to {
                back.entry(*vertex).or_default().push(*from);
            }
        }
        let waiters = |vertex: usize| {
            let (mut seen, mut next) = (BTreeSet::from([vertex]), vec![vertex]);
            while let Some(vertex) = next.pop() {
                for from in back.get(&vertex).into_iter().flatten() {
                    if seen.insert(*from) {
                        next.push(*from);
                    }
                }
            }
            seen.len() - 1
        };
        let mut roots: Vec<Root> = Vec::new();
        for (index, wait) in self.waits.iter().enumerate() {
            let ranks: Vec<usize> = wait
                .missing
                .iter()
                .copied()
                .filter(|member| {
                    let vertex = self.vertex(wait.communicator, *member);
                    gone(wait.communicator, *member)
                        || !waits_for(vertex) && !stalled.contains(&vertex)
                })
                .collect();
            if let Some(first) = ranks.first().copied() {
                let rank = |member: usize| match self.state(wait.communicator, member) {
                    State::Dead => 0,
                    State::Ended => 1,
                    _ if gone(wait.communicator, member) => 2,
                    _ => 3,
                };
                let order = ranks.iter().map(|s| rank(*s)).min().unwrap_or(3);
                let ranks = ranks.into_iter().filter(|s| rank(*s) == order).collect();
                let waiters = waiters(self.vertex(wait.communicator, first));
                let process = self.calls.communicators[wait.communicator].ranks[first].process;
                roots.push(Root {
                    index,
                    ranks,
                    order,
                    waiters,
                    expected: self.is_expected(wait, process),
                });
            }
        }
        roots.sort_by_key(|root| {
            let wait = &self.waits[root.index];
            (
                root.order,
                std::cmp::Reverse(root.waiters),
                // Of what one rank lacks: what it is in, else what comes next in its pattern.
                std::cmp::Reverse(wait.lack == Lack::Launch),
                wait.lack == Lack::Call,
                !root.expected,
                wait.since_ns.is_none(),
                wait.since_ns,
                root.index,
            )
        });
        let judged: Vec<Found> = roots.iter().map(|root| self.root(root, &roots)).collect();
        let mut stalls: Vec<Found> = self.stalls.iter().map(|stall| self.stall(stall)).collect();
        // A GPU that one waits for may be busy with another.
        stalls.sort_by_key(|found| {
            (
                found.verdict != Verdict::Dead,
                found.cause.is_none(),
                found.cause,
            )
        });
        let cycle = (judged.is_empty() && self.stalls.is_empty())
            .then(|| self.cycle(&edges))
            .flatten();
        let all: Vec<Found> = judged.into_iter().chain(stalls).chain(cycle).collect();
        // A hang goes before a doubt, and a doubt before what is no hang; then the order above.
        let weight = |found: &Found| match found.hang {
            Some(true) => 0,
            None => 1,
            Some(false) if found.verdict == Verdict::Stopped => 2,
            Some(false) => 3,
        };
        let best = all.iter().map(weight).min()?;
        let stopped = all
            .iter()
            .position(|found| found.verdict == Verdict::Stopped);
        let first = all.iter().position(|found| weight(found) == best)?;
        // While a rank is stopped, nothing that only lasts proves anything.
        let chosen = match stopped {
            Some(stopped) if !matches!(all[first].verdict, Verdict::Dead | Verdict::Left) => {
                stopped
            }
            _ => first,
        };
        all.into_iter().nth(chosen)
    }

    /// A smallest ring of vertices that wait for each other, from the lowest vertex on.
    pub(super) fn cycle(&self, edges: &BTreeMap<usize, BTreeSet<usize>>) -> Option<Found> {
        let mut best: Option<Vec<usize>> = None;
        // Each ring is found from each of its vertices; a bound keeps thousands of ranks cheap.
        for start in edges.keys().take(4096) {
            let mut from: BTreeMap<usize, usize> = BTreeMap::new();
            let mut next = std::collections::VecDeque::from([*start]);
            'search: while let Some(vertex) = next.pop_front() {
                for to in edges.get(&vertex).into_iter().flatten() {
                    if to == start {
                        let mut ring = vec![vertex];
                        while *ring.last()? != *start {
                            ring.push(from[ring.last()?]);
                        }
                        ring.reverse();
                        if best.as_ref().is_none_or(|b| ring.len() < b.len()) {
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
            if best.as_ref().is_some_and(|b| b.len() == 2) {
                break;
            }
        }
        let ring = best?;
        let steps: Vec<(usize, usize, usize)> = ring
            .iter()
            .enumerate()
            .filter_map(|(i, vertex)| {
                let to = ring[(i + 1) % ring.len()];
                self.waits.iter().enumerate().find_map(|(index, wait)| {
                    let member = |ranks: &[usize], vertex: usize| {
                        let is = |s: &&usize| self.vertex(wait.communicator, **s) == vertex;
                        ranks.iter().find(is).copied()
                    };
                    Some((
                        index,
                        member(&wait.waiting, *vertex)?,
                        member(&wait.missing, to)?,
                    ))
                })
            })
            .collect();
        let since = steps.iter().filter_map(|(w, ..)| self.waits[*w].since_ns);
        let active = ring.iter().filter_map(|vertex| self.active[*vertex]);
        let lasted = self.ago(since.chain(active).max());
        let hang = self.by_time(lasted);
        // Of ranks whose order is as it always was, and one whose order is new, the latter went astray.
        let astray: Vec<usize> = (0..steps.len())
            .filter(|step| {
                let before = (step + steps.len() - 1) % steps.len();
                self.is_astray(steps[*step], steps[before])
            })
            .collect();
        Some(match astray[..] {
            [step] => {
                let before = (step + steps.len() - 1) % steps.len();
                self.say_astray(&steps, step, before, hang, lasted)
            }
            _ => self.say_cycle(&steps, hang, lasted),
        })
    }
}

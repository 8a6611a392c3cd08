//! The critical path of a run: the chain of work and transfers that its time consists of.
//!
//! [`WhatIf::path`] goes back from the end of a rank's last operation. An operation's transfer began when its
//! last rank had arrived, so the path goes on at that rank. If the rank's kernel was queued, the path goes on
//! at the kernel before it. Else it goes through the rank's work, back to the end of the operation on which
//! that work depended. Stream waits show which operation that is; if they don't, it is the node's anchor.
//!
//! Rule: pieces follow each other without a gap. A piece begins when the one before it ended, by the clock of
//! its own rank, so no clocks are compared.

use super::{Node, WhatIf, NONE, QUEUED_NS};
use crate::arrivals::operations::{Operations, OTHER};

/// What passed the time of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Passed {
    /// The operation's transfer, from its last arrival to its end.
    Transfer,
    /// Work of the rank, which ended when its host launched the operation.
    WorkToLaunch,
    /// Work of the rank's GPU. The operation was launched long before it ended.
    WorkOfGpu,
    /// Work of the rank. It is not known when the operation was launched.
    Work,
    /// An NCCL kernel that is none of the operations with a time on every rank.
    OtherKernel,
}

/// A piece of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Index of its GPU.
    pub lane: usize,
    /// The operation, or that to which the work led: index among those with a time on every rank.
    pub operation: usize,
    /// Begin by the clock of the GPU's kernels, ns.
    pub from: i64,
    /// End.
    pub to: i64,
    /// What it is.
    pub what: Passed,
}

impl WhatIf {
    /// The path to the end of the last operation of `lane`, in order of time.
    pub(in crate::arrivals) fn path(&self, of: &Operations, lane: usize) -> Vec<Piece> {
        let mut others = Others::new(of);
        let mut pieces = Vec::new();
        let mut seen = vec![false; self.operations.len()];
        let mut next = self.lanes[lane].last().copied();
        let mut here = lane as u32;
        while let Some(operation) = next.map(|node| self.node(node).operation as usize) {
            // Clocks that disagree by some µs may close a circle of very short operations.
            if std::mem::replace(&mut seen[operation], true) {
                break;
            }
            let last = self.last_of(operation, here);
            let node = self.node(last);
            here = node.lane;
            let before = if node.queued {
                node.before
            } else {
                self.depended_on(last)
            };
            let ended = self.nodes.get(before as usize).map(|before| before.end);
            let piece = |from, to, what| Piece {
                lane: here as usize,
                operation,
                from,
                to,
                what,
            };
            // If kernels seem to overlap, that is the error of the clock.
            let begin = ended.unwrap_or(node.start).clamp(node.start, node.end);
            pieces.push(piece(begin, node.end, Passed::Transfer));
            if let Some(ended) = ended.filter(|ended| *ended < node.start) {
                let of_lane = others.of(here as usize);
                let mut work = |from, until, operation, what| {
                    let piece = |from, to, what| Piece {
                        operation,
                        ..piece(from, to, what)
                    };
                    let mut to = until;
                    for (begin, end) in within(of_lane, from, until).rev() {
                        pieces.push(piece(end, to, what));
                        pieces.push(piece(begin, end, Passed::OtherKernel));
                        to = begin;
                    }
                    pieces.push(piece(from, to, what));
                };
                // Work beside operations led to each of them in turn.
                let (mut of, mut until) = (node, node.start);
                for beside in self.began_within(node.lane, ended, node.start) {
                    let what = WhatIf::kind_of_work(of, beside.start);
                    work(beside.start, until, of.operation as usize, what);
                    (of, until) = (beside, beside.start);
                }
                let what = WhatIf::kind_of_work(of, ended);
                work(ended, until, of.operation as usize, what);
            }
            next = (before != NONE).then_some(before);
        }
        pieces.retain(|piece| piece.from < piece.to);
        pieces.reverse();
        pieces
    }

    /// The node of an operation that arrived last; of equals, that of `lane`, so that a path does not change
    /// its rank without need.
    fn last_of(&self, operation: usize, lane: u32) -> u32 {
        let (first, last) = self.operations[operation];
        let key = |index: &u32| {
            let node = self.node(*index);
            (node.end.saturating_sub(node.start), node.lane != lane)
        };
        (first..last).min_by_key(key).unwrap_or(first)
    }

    /// By node: for how long a stream stood still for it, ns, if that was recorded.
    pub(super) fn exposed(of: &Operations) -> Vec<Option<u64>> {
        let places = of.whole.iter().flat_map(|whole| of.of(whole));
        let exposed = |(lane, index): (u32, u32)| {
            let of_lane = &of.lanes[lane as usize].exposed;
            let ns = of_lane.get(index as usize).copied();
            ns.filter(|ns| *ns != u64::MAX)
        };
        places.map(exposed).collect()
    }

    /// The node at whose end the work before `index` began.
    fn depended_on(&self, index: u32) -> u32 {
        let node = self.node(index);
        let mut before = node.before;
        while let Some(earlier) = self.nodes.get(before as usize) {
            match self.exposed[before as usize] {
                Some(ns) if ns > QUEUED_NS as u64 => return before,
                // The stream that needed it never stood still for it.
                Some(_) => before = earlier.before,
                None => break,
            }
        }
        // Of the one that was measured last and the one that is inferred, the earlier.
        let end = |of: u32| self.nodes.get(of as usize).map_or(i64::MIN, |n| n.end);
        std::cmp::min_by_key(before, node.anchor, |of| end(*of))
    }

    /// Nodes of a lane that began between two times and were not queued, the last first.
    fn began_within(&self, lane: u32, from: i64, to: i64) -> impl Iterator<Item = &Node> {
        let nodes = &self.lanes[lane as usize];
        let [first, last] = [from + 1, to]
            .map(|time| nodes.partition_point(|index| self.node(*index).start < time));
        let within = nodes[first.min(last)..last].iter().rev();
        within.map(|index| self.node(*index)).filter(|n| !n.queued)
    }

    /// Which work led to a node, if it began at `from`.
    fn kind_of_work(node: &Node, from: i64) -> Passed {
        let since = node.start.saturating_sub(from);
        let after_launch = node.start.saturating_sub(node.launch);
        match node.launch {
            i64::MIN => Passed::Work,
            _ if node.queued || !WhatIf::at_once(node, since) && after_launch > since / 2 => {
                Passed::WorkOfGpu
            }
            _ => Passed::WorkToLaunch,
        }
    }
}

/// The kernels of each lane that are in no operation with a time on every rank.
struct Others<'a> {
    of: &'a Operations,
    /// By lane and part: it is in such an operation.
    whole: Vec<Vec<bool>>,
    /// By lane, intervals that do not overlap, once they were asked for.
    lanes: Vec<Option<Vec<(i64, i64)>>>,
}

impl Others<'_> {
    fn new(of: &Operations) -> Others<'_> {
        let lanes = of.lanes.iter();
        let mut whole: Vec<Vec<bool>> = lanes.map(|l| vec![false; l.parts.len()]).collect();
        for (lane, index) in of.whole.iter().flat_map(|whole| of.of(whole)) {
            whole[lane as usize][index as usize] = true;
        }
        Others {
            of,
            whole,
            lanes: vec![None; of.lanes.len()],
        }
    }

    fn of(&mut self, lane: usize) -> &[(i64, i64)] {
        let (of, whole) = (self.of, &self.whole[lane]);
        self.lanes[lane].get_or_insert_with(|| {
            let parts = of.lanes[lane].parts.iter().zip(whole);
            let mut all: Vec<(i64, i64)> = parts
                .filter(|(part, whole)| !**whole || part.sequence == OTHER)
                .map(|(part, _)| {
                    let start = super::wide(part.start);
                    (start, start.saturating_add_unsigned(part.ns))
                })
                .collect();
            all.sort_unstable();
            let mut until = i64::MIN;
            for (from, to) in &mut all {
                (*from, *to) = ((*from).max(until), (*to).max(until));
                until = *to;
            }
            all
        })
    }
}

/// What of these intervals, which are in order and do not overlap, lies between two times.
fn within(
    all: &[(i64, i64)],
    from: i64,
    to: i64,
) -> impl DoubleEndedIterator<Item = (i64, i64)> + '_ {
    let first = all.partition_point(|(_, end)| *end <= from);
    let last = all.partition_point(|(begin, _)| *begin < to);
    all[first..last.max(first)]
        .iter()
        .map(move |(begin, end)| ((*begin).max(from), (*end).min(to)))
}

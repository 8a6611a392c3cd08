//! Who waited for whom in windows, and how much of that was exposed.
//!
//! In an AllReduce, AllGather or ReduceScatter nobody can end before the last rank has begun, and all end
//! together, within some µs. So a rank waited for as long as its kernel ran longer than the shortest of the operation, and
//! whoever had the shortest was waited for. Kernels of different ranks are one operation if they are of the same function
//! and communicator and ran at the same time.
//!
//! Of a wait, the part counts beside which the GPU computed nothing: that much later the rank went on. The rest is
//! hidden, and slows the computing beside it. The last rank is charged for the time since the one before it had come: with
//! it in time, the operation would have begun then.
//!
//! **When.** GPUs are behind their hosts by different times. So only the time counts that windows of all GPUs show, and of
//! that whole cycles, where there are some. It is cut into [`Waits::pieces`], whose shares make the intervals.
//!
//! Rule: no rank's exposed waiting is more than its exposed communication, so no loss is more than the windows show.

use super::intervals::{Span, Union};
use super::kinds::function;
use super::{Lane, LaneWindow};
use std::collections::HashMap;

/// Functions whose operations nobody leaves before the last has begun.
const ALL_TO_ALL: [&str; 3] = ["AllReduce", "AllGather", "ReduceScatter"];

/// One kernel of an operation.
#[derive(Clone, Copy)]
struct Part {
    lane: usize,
    window: usize,
    start: i64,
    end: i64,
}

/// Waiting of GPUs, by piece of the common time, ns.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// By waiting lane and piece: exposed.
    pub all: HashMap<(usize, usize), i64>,
    /// By waiting lane, lane that was last, and piece: exposed and hidden, since the lane before the last had come.
    pub by: HashMap<(usize, usize, usize), (i64, i64)>,
    /// Operations by their last lane.
    pub last: HashMap<usize, u64>,
    /// Operations that were looked at.
    pub operations: u64,
    /// The time that windows of all GPUs show, in pieces, ascending.
    pub pieces: Vec<Span>,
    /// By lane: when its kernels waited for the last, in any operation.
    pub waiting: HashMap<usize, Union>,
    spans: HashMap<usize, Vec<Span>>,
}

/// A window is cut into so many pieces at most.
const PIECES: usize = 8;

/// The waits in all windows. `members` is how many GPUs a communicator has, by its index.
pub fn waits(lanes: &[Lane], members: &[usize]) -> Waits {
    let mut kinds: HashMap<(u32, &str), Vec<Vec<Part>>> = HashMap::new();
    for (lane, of) in lanes.iter().enumerate() {
        for (window, seen) in of.windows.iter().enumerate() {
            for kernel in &seen.seen.nccl {
                let name = function(seen.names.name(kernel.name));
                let Some(communicator) = kernel.communicator else {
                    continue;
                };
                if !ALL_TO_ALL.contains(&name) {
                    continue;
                }
                let parts = kinds.entry((communicator, name));
                parts.or_insert_with(|| vec![Vec::new(); lanes.len()])[lane].push(Part {
                    lane,
                    window,
                    start: kernel.start,
                    end: kernel.end,
                });
            }
        }
    }
    let mut waits = Waits {
        pieces: pieces(lanes),
        ..Waits::default()
    };
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(kind, _)| *kind);
    for ((communicator, _), mut parts) in kinds {
        parts.retain(|parts| !parts.is_empty());
        let all = members.get(communicator as usize).copied().unwrap_or(0);
        if parts.len() < 2 || parts.len() != all {
            continue;
        }
        parts
            .iter_mut()
            .for_each(|parts| parts.sort_by_key(|part| part.start));
        // That with the fewest: an operation must be on all.
        parts.sort_by_key(Vec::len);
        for first in &parts[0] {
            let others: Option<Vec<Part>> = parts[1..]
                .iter()
                .map(|parts| beside(parts, first))
                .collect();
            if let Some(mut operation) = others {
                operation.push(*first);
                waits.add(lanes, &operation);
            }
        }
    }
    let spans = std::mem::take(&mut waits.spans).into_iter();
    waits.waiting = spans
        .map(|(lane, spans)| (lane, Union::of(spans)))
        .collect();
    waits
}

/// The time that windows of all GPUs show: in whole cycles of the first where it has some, some of them to a piece.
fn pieces(lanes: &[Lane]) -> Vec<Span> {
    let known = |lane: &Lane| Union::of(lane.windows.iter().map(|w| w.seen.known).collect());
    let all = lanes.iter().map(known).reduce(|a, b| a.and(&b));
    let (Some(all), Some(first)) = (all, lanes.first()) else {
        return Vec::new();
    };
    let mut pieces = Vec::new();
    for window in &first.windows {
        for common in all.within(window.seen.known).spans() {
            let marks = window.seen.marks.iter().copied();
            let marks = marks.filter(|mark| (common.0..=common.1).contains(mark));
            let marks: Vec<i64> = marks.collect();
            let each = marks.len().saturating_sub(1).div_ceil(PIECES).max(1);
            let ends: Vec<i64> = marks.iter().copied().step_by(each).collect();
            pieces.extend(ends.windows(2).map(|pair| (pair[0], pair[1])));
        }
    }
    if pieces.is_empty() {
        // No cycles: as they are.
        pieces = all.spans().to_vec();
    }
    pieces
}

/// The kernel that ran beside `first` for the longest.
fn beside(parts: &[Part], first: &Part) -> Option<Part> {
    let from = parts.partition_point(|part| part.end <= first.start);
    let at_once = parts[from..]
        .iter()
        .take_while(|part| part.start < first.end);
    at_once
        .max_by_key(|part| part.end.min(first.end) - part.start.max(first.start))
        .copied()
}

impl Waits {
    /// How long the pieces are together, ns.
    pub fn common(&self) -> i64 {
        self.pieces.iter().map(|piece| piece.1 - piece.0).sum()
    }

    fn add(&mut self, lanes: &[Lane], operation: &[Part]) {
        let ns = |part: &Part| part.end - part.start;
        let Some(last) = operation.iter().min_by_key(|part| (ns(part), part.lane)) else {
            return;
        };
        if self.overlaps((last.start, last.end)).next().is_none() {
            return;
        }
        self.operations += 1;
        *self.last.entry(last.lane).or_default() += 1;
        let others = operation.iter().filter(|part| part.lane != last.lane);
        // How long the operation takes from the arrival of the one before the last.
        let second = others.clone().map(ns).min().unwrap_or(0);
        for part in others {
            let seen: &LaneWindow = &lanes[part.lane].windows[part.window];
            let whole: Span = (part.start, part.start + ns(part) - ns(last));
            let charged: Span = (part.start + ns(part) - second, whole.1);
            self.spans.entry(part.lane).or_default().push(whole);
            let within = |span: Span| {
                let hidden = seen.seen.computes.covers(span);
                (span.1 - span.0 - hidden, hidden)
            };
            let pieces: Vec<(usize, Span)> = self.overlaps(whole).collect();
            for (piece, span) in pieces {
                *self.all.entry((part.lane, piece)).or_default() += within(span).0;
                let span = (span.0.max(charged.0), span.1);
                if span.0 < span.1 {
                    let (exposed, hidden) = within(span);
                    let sum = self.by.entry((part.lane, last.lane, piece)).or_default();
                    *sum = (sum.0 + exposed, sum.1 + hidden);
                }
            }
        }
    }

    /// The pieces that overlap a span, and where.
    fn overlaps(&self, span: Span) -> impl Iterator<Item = (usize, Span)> + '_ {
        let first = self.pieces.partition_point(|piece| piece.1 <= span.0);
        let pieces = self.pieces.iter().enumerate().skip(first);
        let pieces = pieces.take_while(move |(_, piece)| piece.0 < span.1);
        let common = pieces.map(move |(at, p)| (at, (p.0.max(span.0), p.1.min(span.1))));
        common.filter(|(_, span)| span.0 < span.1)
    }
}

//! Which of the time counts: whole cycles of windows, cut into pieces.
//!
//! Rule: a piece counts if it is known for most of its operations when the others came.

use super::super::intervals::{length, Span, Union};
use super::super::Lane;
use super::matching::collective;
use super::{Found, WaitPart, Waits};
use crate::time::Nanos;

/// A window is cut into so many pieces at most.
const PIECES: usize = 8;

/// From mark to mark, some cycles to a piece, so many at most of a window; and how many cycles.
fn cut(marks: &[i64]) -> (impl Iterator<Item = Span>, u64) {
    let each = marks.len().saturating_sub(1).div_ceil(PIECES).max(1);
    let ends: Vec<i64> = marks.iter().copied().step_by(each).collect();
    let steps = (ends.len().saturating_sub(1) * each) as u64;
    let pairs: Vec<Span> = ends.windows(2).map(|pair| (pair[0], pair[1])).collect();
    (pairs.into_iter(), steps)
}

/// The time that windows of all GPUs show.
pub(super) fn shown_by_all(lanes: &[Lane]) -> Option<Union> {
    let known = |lane: &Lane| Union::of(lane.windows.iter().map(|w| w.seen.known).collect());
    lanes.iter().map(known).reduce(|a, b| a.and(&b))
}

/// The whole cycles of the first GPU in the time that windows of all show, some of them to a piece. And how
/// many cycles.
pub(super) fn pieces(lanes: &[Lane]) -> (Vec<Span>, u64) {
    let all = shown_by_all(lanes);
    let (Some(all), Some(first)) = (all, lanes.first()) else {
        return (Vec::new(), 0);
    };
    let (mut pieces, mut steps) = (Vec::new(), 0);
    for window in &first.windows {
        for common in all.within(window.seen.known).spans() {
            let marks = window.seen.marks.iter().copied();
            let marks = marks.filter(|mark| (common.0..=common.1).contains(mark));
            let (spans, cycles) = cut(&marks.collect::<Vec<_>>());
            steps += cycles;
            pieces.extend(spans);
        }
    }
    (pieces, steps)
}

/// The whole cycles that windows of a lane show, in pieces.
pub(super) fn own(lane: &Lane) -> Vec<Span> {
    let windows = lane.windows.iter();
    let mut spans: Vec<Span> = windows.flat_map(|w| cut(&w.seen.marks).0).collect();
    spans.sort_unstable();
    spans
}

/// What windows of a lane show, if no lane's show cycles, because steps differ. Where in a step a window
/// begins is drawn, so several windows show each part of a step as often as it comes.
pub(super) fn without_cycles(lane: &Lane) -> Vec<Span> {
    let mut spans: Vec<Span> = lane.windows.iter().map(|w| w.seen.known).collect();
    spans.sort_unstable();
    spans
}

impl Waits {
    /// How long the pieces are together.
    pub fn common(&self) -> Nanos {
        self.pieces.iter().map(|piece| length(*piece)).sum()
    }

    /// For how long it is known who was waited for, on the lane with the least of it.
    pub fn looked_at(&self) -> Nanos {
        let known = |lane: usize| {
            let pieces = self.own[lane].iter().enumerate();
            let known = pieces.filter(|(at, _)| self.weight(lane, *at).is_some());
            known.map(|(_, piece)| length(*piece)).sum::<Nanos>()
        };
        let lanes = (0..self.own.len()).filter(|lane| self.cycles[*lane]);
        lanes.map(known).min().unwrap_or_default()
    }

    /// What of the own pieces of a lane, and how long they are; of those that count. `of` is by piece.
    pub fn each<'a>(
        &'a self,
        lane: usize,
        of: impl Fn(usize) -> Nanos + 'a,
    ) -> impl Iterator<Item = (Nanos, Nanos)> + 'a {
        let pieces = self.own[lane].iter().enumerate();
        pieces.filter_map(move |(at, piece)| {
            let weight = self.weight(lane, at)?;
            Some((of(at) * weight, length(*piece)))
        })
    }

    /// What the collectives of an own piece that were found on all ranks stand for: events may leave some
    /// out. `None` if less than half of what the piece communicates was found.
    fn weight(&self, lane: usize, piece: usize) -> Option<f64> {
        let found = self.found.get(&(lane, piece)).copied().unwrap_or_default();
        let most = 2 * (found.on_all + found.sent) >= found.collectives + found.receives;
        most.then(|| match found.on_all {
            0 => 1.0,
            on_all => found.collectives as f64 / on_all as f64,
        })
    }

    /// Counts the kernels that wait for others, by own piece.
    pub(super) fn count(&mut self, lanes: &[Lane], members: &[usize]) {
        for (lane, of) in lanes.iter().enumerate() {
            for window in of.all() {
                for kernel in &window.seen.nccl {
                    let of = collective(window, kernel, members);
                    let is_of_several =
                        |(of, _): (u32, &str)| members.get(of as usize).is_some_and(|n| *n > 1);
                    let receives = window.seen.peers_of(kernel).iter().any(|p| p.receives);
                    if let Some(found) = self.found_in(lane, (kernel.start, kernel.end)) {
                        found.collectives += u64::from(of.is_some_and(is_of_several));
                        found.receives += u64::from(of.is_none() && receives);
                    }
                }
            }
        }
    }

    /// Of the own piece in which a kernel of a lane ended.
    pub(super) fn found_in(&mut self, lane: usize, kernel: Span) -> Option<&mut Found> {
        let (piece, _) = self.overlaps(lane, (kernel.1 - 1, kernel.1)).next()?;
        Some(self.found.entry((lane, piece)).or_default())
    }

    /// Whether own pieces show a part of a kernel.
    pub(super) fn shows(&self, part: &WaitPart) -> bool {
        self.overlaps(part.lane, (part.start, part.end))
            .next()
            .is_some()
    }

    /// The own pieces of a lane that overlap a span, and where.
    pub fn overlaps(&self, lane: usize, span: Span) -> impl Iterator<Item = (usize, Span)> + '_ {
        overlaps(&self.own[lane], span)
    }

    /// The pieces that overlap a span, and where.
    pub fn overlaps_common(&self, span: Span) -> impl Iterator<Item = (usize, Span)> + '_ {
        overlaps(&self.pieces, span)
    }
}

fn overlaps(pieces: &[Span], span: Span) -> impl Iterator<Item = (usize, Span)> + '_ {
    let first = pieces.partition_point(|piece| piece.1 <= span.0);
    let pieces = pieces.iter().enumerate().skip(first);
    let pieces = pieces.take_while(move |(_, piece)| piece.0 < span.1);
    let common = pieces.map(move |(at, p)| (at, (p.0.max(span.0), p.1.min(span.1))));
    common.filter(|(_, span)| span.0 < span.1)
}

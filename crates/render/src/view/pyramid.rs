//! The heat map at several widths of bins: which share of a bin's time a lane spent with what.
//!
//! The finest [`Level`] has so many bins that all lanes together keep within [`MOST_CELLS`]; each further one
//! has half as many, down to [`FEWEST`].
//!
//! Rule: a share is rounded up, so that what happened at all is seen at every width.

use super::{SliceKind, View, NONE};

/// Bins of the finest level, at most.
const MOST: usize = 4096;
/// Bins of the coarsest level.
const FEWEST: usize = 256;
/// Cells of the finest level, at most, unless that would be fewer than [`FEWEST`] bins.
const MOST_CELLS: usize = 32 << 20;

/// Of a lane in a bin, 0 to 255: waiting for the last rank, transfer, and anything else. On lanes of kernels,
/// transfer is all communication that is not known to wait, and the rest computes.
pub(super) type Cell = [u8; 3];

/// Shares by lane and bin.
pub(super) struct Level {
    pub(super) width_ns: i64,
    pub(super) bins: usize,
    pub(super) cells: Vec<Cell>,
}

/// The levels of a view, the finest first.
pub(super) fn of(view: &View<'_>) -> Vec<Level> {
    let lanes = view.lanes.len().max(1);
    let mut bins = MOST;
    while bins > FEWEST && bins * lanes > MOST_CELLS {
        bins /= 2;
    }
    let mut levels = vec![finest(view, bins)];
    while levels[levels.len() - 1].bins > FEWEST {
        levels.push(coarser(&levels[levels.len() - 1]));
    }
    levels
}

fn finest(view: &View<'_>, bins: usize) -> Level {
    let width_ns = view.length_ns / bins as i64 + 1;
    let mut cells = Vec::with_capacity(view.lanes.len() * bins);
    let mut sums = vec![[0i64; 3]; bins];
    let share = |ns: &i64| ((ns * 255 + width_ns - 1) / width_ns).clamp(0, 255) as u8;
    for lane in &view.lanes {
        sums.fill([0; 3]);
        for index in &view.by_lane[lane.calls.clone()] {
            let call = &view.seen[*index as usize];
            // It lies in its event.
            if call.kind == SliceKind::State {
                continue;
            }
            // Events may lie before the first call or behind the last.
            let inside = |ns: i64| (ns - view.base_ns).clamp(0, view.length_ns);
            let (begin, end) = (inside(call.span.begin), inside(call.span.end));
            let arrived = begin + call.waited_ns();
            let rest = match call.kind {
                SliceKind::Timed if call.transfer != NONE => 1,
                SliceKind::Communicates => 1,
                _ => 2,
            };
            for (kind, from, to) in [(0, begin, arrived), (rest, arrived, end)] {
                let mut at = from;
                while at < to {
                    let bin = (at / width_ns).min(bins as i64 - 1);
                    let until = if bin + 1 < bins as i64 {
                        ((bin + 1) * width_ns).min(to)
                    } else {
                        to
                    };
                    sums[bin as usize][kind] += until - at;
                    at = until;
                }
            }
        }
        cells.extend(sums.iter().map(|of| of.each_ref().map(share)));
    }
    Level {
        width_ns,
        bins,
        cells,
    }
}

/// The next level: half as many bins.
pub(super) fn coarser(finer: &Level) -> Level {
    let mean = |pair: &[Cell]| {
        [0, 1, 2].map(|kind| {
            let sum: u16 = pair.iter().map(|cell| u16::from(cell[kind])).sum();
            sum.div_ceil(2) as u8
        })
    };
    Level {
        width_ns: 2 * finer.width_ns,
        bins: finer.bins / 2,
        cells: finer.cells.chunks_exact(2).map(mean).collect(),
    }
}

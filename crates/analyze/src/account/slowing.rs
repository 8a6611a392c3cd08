//! What kernels of NCCL that wait cost the work beside them.
//!
//! A kernel of NCCL that waits for a late rank keeps multiprocessors busy, so what computes beside it takes
//! longer. If that rank was in time, it would not. Kernel windows show by how much: they have the same
//! kernels with and without it. Without windows, the channels tell: NCCL's kernel has one block for each of
//! them, and each keeps one multiprocessor. A kernel that fills the GPU and scales with it loses this part of
//! it. One that waits for memory loses less. One whose blocks need another wave without these
//! multiprocessors loses more.
//!
//! So the part that the channels keep is what is likely. In six slowed jobs of `data/` whose windows show the
//! loss, it was 0.28 to 1.55 times this part, and 0.92 times in the mean (a test reads them again). A ZeRO
//! job on H100 lost 2.1 times this part, and two DDP jobs on eight H200 some 0.9 and 1.3 times.
//!
//! Rule: only waits for the late lanes in collectives count, and only while the computing stream did not
//! stand still. Of sends and receives, the schedule decides if what is slowed costs anything.

use super::habit::row;
use super::launches::Lane;
use super::places::{Cell, Places};
use crate::streams::Streams;
use std::collections::HashMap;

/// What windows show of the loss, by the part that NCCL's channels keep: at least, and at most.
const OF_KEPT: (f64, f64) = (0.3, 2.0);

/// The mean over the others, ns of the steps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slowing {
    /// What is likely.
    pub likely: f64,
    /// At least, and at most.
    pub interval: (f64, f64),
}

impl Slowing {
    /// So many times as much.
    pub fn times(self, factor: f64) -> Slowing {
        Slowing {
            likely: factor * self.likely,
            interval: (factor * self.interval.0, factor * self.interval.1),
        }
    }
}

/// What others lose by that, while they wait for these lanes, in these steps.
pub fn of(
    lanes: &[Lane],
    places: &Places,
    late: &[usize],
    steps: &[bool],
    streams: Option<&Streams>,
) -> Slowing {
    let shown = |lane: usize| row(&lanes[lane], streams?)?.waiting_slows;
    let is_other = |lane: &usize| !late.contains(lane);
    let others: Vec<usize> = (0..lanes.len()).filter(is_other).collect();
    if late.is_empty() || others.is_empty() {
        return Slowing::default();
    }
    let known: Vec<f64> = others.iter().filter_map(|lane| shown(*lane)).collect();
    let mean = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
    let by_windows = |lane: usize| shown(lane).or(mean);
    let kept = |cell: &Cell| {
        let all = f64::from(lanes[cell.lane as usize].multiprocessors?);
        Some((f64::from(cell.launch.channels) / all).min(1.0))
    };
    // The time of the last lane, by operation, if that is one of these.
    let mut shortest: HashMap<(u32, u32), f64> = HashMap::new();
    let is_collective = |cell: &Cell| !cell.launch.sends && !cell.launch.receives;
    for operation in places.operations().filter(|of| is_collective(&of[0])) {
        let timed = operation
            .iter()
            .filter(|cell| cell.launch.length().is_some());
        let last = timed
            .clone()
            .min_by(|a, b| a.launch.ns.total_cmp(&b.launch.ns));
        if let Some(last) = last.filter(|last| late.contains(&(last.lane as usize))) {
            if timed.count() > 1 {
                let at = (operation[0].place, operation[0].step);
                shortest.insert(at, last.launch.length().unwrap_or(0.0));
            }
        }
    }
    let lost = |cell: &Cell| {
        let still = cell.still()?;
        let length = cell.launch.length()?;
        Some(match shortest.get(&(cell.place, cell.step)) {
            Some(shortest) => {
                by_windows(cell.lane as usize).or_else(|| kept(cell))?
                    * (length - shortest - still).max(0.0)
            }
            None => 0.0,
        })
    };
    let lost = places.scaled(steps, lost);
    let of_others = others.iter().map(|lane| lost[*lane].sum);
    let likely = of_others.sum::<f64>() / others.len() as f64;
    // The mean of those of which windows show it stands for the rest.
    let (least, most) = match mean {
        Some(_) => (1.0, 1.0),
        None => OF_KEPT,
    };
    Slowing {
        likely,
        interval: (least * likely, most * likely),
    }
}

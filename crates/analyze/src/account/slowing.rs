//! What kernels of NCCL that wait cost the work beside them.
//!
//! A kernel of NCCL that waits for a late rank keeps multiprocessors busy, so what computes beside it takes
//! longer. If that rank was in time, it would not. Kernel windows show by how much: they have the same
//! kernels with and without it. Without windows, there are bounds: NCCL's kernel has one block for each
//! channel, and each keeps one multiprocessor. A kernel that fills the GPU loses this part of it, and one
//! that waits for memory loses nothing. On two H200, AllReduces of 24 channels waited for 13.4 ms a step
//! beside a backward pass, and it took 3.0 ms longer; 24 of 132 multiprocessors are 18 %.
//!
//! Rule: only waits for the late lanes in collectives count, and only while the computing stream did not
//! stand still. Of sends and receives, the schedule decides if what is slowed costs anything.

use super::habit::row;
use super::launches::Lane;
use super::places::{Cell, Places};
use crate::streams::Streams;
use std::collections::HashMap;

/// What others lose by that, while they wait for these lanes: the mean over them, ns of these steps. At
/// least, and at most.
pub fn of(
    lanes: &[Lane],
    places: &Places,
    late: &[usize],
    steps: &[bool],
    streams: Option<&Streams>,
) -> (f64, f64) {
    let shown = |lane: usize| row(&lanes[lane], streams?)?.waiting_slows;
    let is_other = |lane: &usize| !late.contains(lane);
    let others: Vec<usize> = (0..lanes.len()).filter(is_other).collect();
    if late.is_empty() || others.is_empty() {
        return (0.0, 0.0);
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
        let last = timed.clone().min_by_key(|cell| cell.launch.ns);
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
    let sum = |of: &[usize]| of.iter().map(|lane| lost[*lane].sum).sum::<f64>();
    let seen: Vec<usize> = others
        .iter()
        .copied()
        .filter(|lane| by_windows(*lane).is_some())
        .collect();
    let n = others.len() as f64;
    (sum(&seen) / n, sum(&others) / n)
}

//! What kernels of NCCL that wait cost the work beside them.
//!
//! A kernel of NCCL that waits for a late rank keeps multiprocessors busy, so what computes beside it takes
//! longer. If that rank was in time, it would not. Kernel windows show by how much: they have the same
//! kernels with and without it.
//!
//! Rule: only waits for the late lanes in collectives count, and only while the computing stream did not
//! stand still. Of sends and receives, the schedule decides if what is slowed costs anything.

use super::habit::row;
use super::launches::Lane;
use super::places::{Cell, Places};
use crate::streams::Streams;
use std::collections::HashMap;

/// What others lose by that, while they wait for these lanes: the mean over them, ns of these steps.
pub fn of(
    lanes: &[Lane],
    places: &Places,
    late: &[usize],
    steps: &[bool],
    streams: &Streams,
) -> f64 {
    let shown = |lane: usize| row(&lanes[lane], streams)?.waiting_slows;
    let is_other = |lane: &usize| !late.contains(lane);
    let others: Vec<usize> = (0..lanes.len()).filter(is_other).collect();
    let known: Vec<f64> = others.iter().filter_map(|lane| shown(*lane)).collect();
    if late.is_empty() || known.is_empty() {
        return 0.0;
    }
    let mean = known.iter().sum::<f64>() / known.len() as f64;
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
    let hidden = |cell: &Cell| {
        let still = cell.still()?;
        let length = cell.launch.length()?;
        Some(match shortest.get(&(cell.place, cell.step)) {
            Some(shortest) => (length - shortest - still).max(0.0),
            None => 0.0,
        })
    };
    let beside = places.scaled(steps, hidden);
    let lost = |lane: &usize| shown(*lane).unwrap_or(mean) * beside[*lane].sum;
    others.iter().map(lost).sum::<f64>() / others.len() as f64
}

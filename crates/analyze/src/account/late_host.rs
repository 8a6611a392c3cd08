//! The host that is later than all others, where nothing shows for how long GPUs stood still: in CUDA graphs,
//! for example.
//!
//! With this host in time, no step is shorter by more than it works longer than the next one. If it is not
//! known how long programs were in the CUDA driver, a step is shorter by no more than its host begins it
//! after the others. And the run is shorter by no more than the GPU of any other rank waits, which has its
//! own work and transfers to do all the same. If hosts are ahead of their GPUs, a late host costs nothing.
//!
//! Rule: it is a bound, and blames nobody. Steps that stalled, and those beside them, say nothing of the
//! others.

use super::frame::Frame;
use super::launches::Lane;
use super::work::Work;
use super::{LateHost, MATTERS};
use crate::time::Nanos;

/// A host that begins steps later than others by this part of them may be a step behind: that says nothing.
const MOST: f64 = 0.9;

/// Of fewer steps, one of a few hosts is late by chance.
const LEAST_STEPS: usize = 20;

/// Hosts that do the same are apart by less than this in a step, ns.
const APART: f64 = 20e3;

/// Finds it; `None` if none is late, or nothing tells.
///
/// `regular` says which steps are no stalls, and `most_waits` for how long each lane's GPU waited for others
/// at most, µs.
pub fn find(
    lanes: &[Lane],
    frame: &Frame,
    work: &Work,
    regular: &[bool],
    most_waits: &[f64],
) -> Option<LateHost> {
    let longest = work.longest();
    let by_work = longest.is_some();
    let (rank, ns) = longest.or_else(|| last(lanes, frame, regular))?;
    let total = frame.total();
    let steps = regular.iter().filter(|is| **is).count();
    let is_apart = steps >= LEAST_STEPS && ns >= APART * steps as f64;
    let others = most_waits.iter().enumerate().filter(|(at, _)| *at != rank);
    let others_us = others.map(|(_, us)| *us);
    let others_ns = Nanos::from_us(others_us.fold(Nanos(total).us(), f64::min)).0;
    let most_ns = ns.min(others_ns);
    // Who holds others up waits less than they do.
    let own_us = most_waits.get(rank).copied().unwrap_or(0.0);
    let own_ns = Nanos::from_us(own_us).0;
    let waits_least = own_ns <= others_ns || own_ns >= total;
    let tells = is_apart && most_ns >= MATTERS * total && (by_work || ns < MOST * total);
    tells.then_some(LateHost {
        rank,
        most_us: Nanos(most_ns).us(),
        later_us: Nanos(ns).us(),
        by_work,
        leads: waits_least && 2.0 * most_ns >= others_ns,
    })
}

/// The lane whose host begins steps after all others by the most, and by how much in sum, ns. `None` if
/// clocks can't tell, or if the next such lane is as late, but for chance.
fn last(lanes: &[Lane], frame: &Frame, regular: &[bool]) -> Option<(usize, f64)> {
    let first = lanes.first()?;
    if lanes.iter().any(|lane| lane.clock != first.clock) {
        return None;
    }
    let mut later = vec![0.0; lanes.len()];
    let mut squares = vec![0.0; lanes.len()];
    let walls = frame.wall.iter().enumerate();
    for (step, wall) in walls.filter(|(step, _)| regular[*step]) {
        let mut at: Vec<(i64, usize)> = frame.begins.iter().map(|of| of[step]).zip(0..).collect();
        at.sort_unstable();
        if let [.., (next, _), (last, lane)] = at[..] {
            let ns = ((last - next) as f64).min(*wall);
            later[lane] += ns;
            squares[lane] += ns * ns;
        }
    }
    let mut order: Vec<usize> = (0..lanes.len()).collect();
    order.sort_by(|a, b| later[*b].total_cmp(&later[*a]));
    let [most, next, ..] = order[..] else {
        return None;
    };
    // Which of the two is last in a step may be a matter of chance, as the side of a coin is.
    let beyond = later[most] - later[next];
    let by_chance = 2.0 * (squares[most] + squares[next]).sqrt();
    (beyond > by_chance).then_some((most, later[most]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;

    /// Lanes whose hosts begin each of so many steps of 10 ms so many ms later, on these clocks.
    fn found(steps: usize, later: [f64; 3], clocks: [&str; 3]) -> Option<(usize, f64)> {
        let most = find_with(steps, later, clocks, [1e4 * steps as f64; 3])?;
        Some((most.rank, 1e3 * most.most_us))
    }

    /// The same, and GPUs waited for so many µs at most.
    fn find_with(
        steps: usize,
        later: [f64; 3],
        clocks: [&str; 3],
        most_waits: [f64; 3],
    ) -> Option<LateHost> {
        let begin = |step: usize, by: f64| ((10.0 * step as f64 + by) * MS) as i64;
        let begins = later.map(|by| (0..=steps).map(|step| begin(step, by)).collect());
        let frame = Frame {
            begins: begins.to_vec(),
            wall: vec![10.0 * MS; steps],
            skipped: 0,
            by_hosts: false,
            equal_parts: 1,
        };
        let lanes = clocks.map(|clock| Lane {
            clock: clock.to_owned(),
            ..Lane::default()
        });
        let work = Work::of(&lanes, &frame);
        let most = find(&lanes, &frame, &work, &vec![true; steps], &most_waits)?;
        assert!(!most.by_work);
        Some(most)
    }

    #[test]
    fn a_late_host_costs_no_more_than_another_gpu_waits() {
        let with = |still: f64| find_with(100, [0.0, 5.0, 1.0], ["a"; 3], [still, 1e5, 9e5]);
        let most = with(3e5).expect("a late host");
        assert_eq!((most.rank, most.most_us, most.later_us), (1, 3e5, 4e5));
        assert!(most.leads);
        // It waits longer than another one itself, as the last stage of a pipeline whose first is longest.
        let waits = find_with(100, [0.0, 5.0, 1.0], ["a"; 3], [3e5, 4e5, 9e5]);
        assert!(!waits.expect("a late host").leads);
        // Of that rank more than twice as much is open.
        let most = find_with(100, [0.0, 5.0, 1.0], ["a"; 3], [9e5; 3]).expect("a late host");
        assert_eq!((most.most_us, most.leads), (4e5, false));
        // That does not matter.
        assert!(find_with(100, [0.0, 5.0, 1.0], ["a"; 3], [1e4; 3]).is_none());
    }

    #[test]
    fn a_host_that_begins_steps_after_all_others_has_a_bound() {
        let one = ["a"; 3];
        assert_eq!(found(100, [0.0, 5.0, 1.0], one), Some((1, 400.0 * MS)));
        // Two of them are as late.
        assert_eq!(found(100, [0.0, 5.0, 5.0], one), None);
        // It may be a step behind.
        assert_eq!(found(100, [0.0, 0.0, 12.0], one), None);
        // Other clocks tell nothing, nor do a few steps.
        assert_eq!(found(100, [0.0, 5.0, 1.0], ["a", "a", "b"]), None);
        assert_eq!(found(8, [0.0, 5.0, 1.0], one), None);
    }
}

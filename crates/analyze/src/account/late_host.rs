//! The host that is later than all others, where nothing shows for how long GPUs stood still: in CUDA graphs,
//! for example.
//!
//! With this host in time, no step is shorter by more than it works longer than the next one. If it is not
//! known how long programs were in the CUDA driver, a step is shorter by no more than its host begins it
//! after the others. If hosts are ahead of their GPUs, that costs nothing.
//!
//! Rule: it is a bound, and blames nobody. Steps that stalled, and those beside them, say nothing of the
//! others.

use super::frame::Frame;
use super::launches::Lane;
use super::work::Work;
use super::{LateHost, MATTERS};

/// A host that begins steps later than others by this part of them may be a step behind: that says nothing.
const MOST: f64 = 0.9;

/// Of fewer steps, one of a few hosts is late by chance.
const LEAST_STEPS: usize = 20;

/// Hosts that do the same are apart by less than this in a step, ns.
const APART: f64 = 20e3;

/// Finds it; `None` if none is late, or nothing tells.
///
/// `regular` says which steps are no stalls.
pub fn find(lanes: &[Lane], frame: &Frame, work: &Work, regular: &[bool]) -> Option<LateHost> {
    let longest = work.longest();
    let by_work = longest.is_some();
    let (rank, ns) = longest.or_else(|| last(lanes, frame, regular))?;
    let total = frame.total();
    let steps = regular.iter().filter(|is| **is).count();
    let is_apart = steps >= LEAST_STEPS && ns >= APART * steps as f64;
    let tells = is_apart && ns >= MATTERS * total && (by_work || ns < MOST * total);
    tells.then_some(LateHost {
        rank,
        most_us: ns / 1e3,
        by_work,
    })
}

/// The lane whose host begins steps after all others by the most, and by how much in sum, ns; `None` if
/// clocks can't tell.
fn last(lanes: &[Lane], frame: &Frame, regular: &[bool]) -> Option<(usize, f64)> {
    let first = lanes.first()?;
    if lanes.iter().any(|lane| lane.clock != first.clock) {
        return None;
    }
    let mut later = vec![0.0; lanes.len()];
    let walls = frame.wall.iter().enumerate();
    for (step, wall) in walls.filter(|(step, _)| regular[*step]) {
        let mut at: Vec<(i64, usize)> = frame.begins.iter().map(|of| of[step]).zip(0..).collect();
        at.sort_unstable();
        if let [.., (next, _), (last, lane)] = at[..] {
            later[lane] += ((last - next) as f64).min(*wall);
        }
    }
    later
        .into_iter()
        .enumerate()
        .max_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;

    /// Lanes whose hosts begin each of so many steps of 10 ms so many ms later, on these clocks.
    fn found(steps: usize, later: [f64; 3], clocks: [&str; 3]) -> Option<(usize, f64)> {
        let begin = |step: usize, by: f64| ((10.0 * step as f64 + by) * MS) as i64;
        let begins = later.map(|by| (0..=steps).map(|step| begin(step, by)).collect());
        let frame = Frame {
            begins: begins.to_vec(),
            wall: vec![10.0 * MS; steps],
            skipped: 0,
            by_hosts: false,
        };
        let lanes = clocks.map(|clock| Lane {
            clock: clock.to_owned(),
            ..Lane::default()
        });
        let work = Work::of(&lanes, &frame);
        let most = find(&lanes, &frame, &work, &vec![true; steps])?;
        assert!(!most.by_work);
        Some((most.rank, 1e3 * most.most_us))
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

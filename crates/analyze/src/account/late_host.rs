//! The host that is later than all others, where nothing shows for how long GPUs stood still: in CUDA graphs,
//! for example.
//!
//! With this host in time, no step is shorter by more than it works longer than the next one. If it is not
//! known how long programs were in the CUDA driver, a step is shorter by no more than its host begins it
//! after the others. If hosts are ahead of their GPUs, that costs nothing.
//!
//! Rule: it is a bound, and blames nobody.

use super::frame::Frame;
use super::launches::Lane;
use super::work::Work;
use super::MATTERS;

/// A host that begins steps later than others by this part of them may be a step behind: that says nothing.
const MOST: f64 = 0.9;

/// What a late host costs at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Most {
    /// Its lane.
    pub lane: usize,
    /// What it costs at most, ns.
    pub ns: f64,
    /// It works longer. Else it begins steps later.
    pub by_work: bool,
}

/// Finds it; `None` if none is late, or nothing tells.
pub fn find(lanes: &[Lane], frame: &Frame, work: &Work) -> Option<Most> {
    let by_work = work.longest();
    let (lane, ns) = by_work.or_else(|| last(lanes, frame))?;
    let by_work = by_work.is_some();
    let total = frame.total();
    let tells = ns >= MATTERS * total && (by_work || ns < MOST * total);
    tells.then_some(Most { lane, ns, by_work })
}

/// The lane whose host begins steps after all others by the most, and by how much in sum, ns; `None` if
/// clocks can't tell.
fn last(lanes: &[Lane], frame: &Frame) -> Option<(usize, f64)> {
    let first = lanes.first()?;
    if lanes.iter().any(|lane| lane.clock != first.clock) {
        return None;
    }
    let mut later = vec![0.0; lanes.len()];
    for (step, wall) in frame.wall.iter().enumerate() {
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

    /// Lanes whose hosts begin each of a hundred steps of 10 so much later, on these clocks.
    fn found(later: [i64; 3], clocks: [&str; 3]) -> Option<(usize, f64)> {
        let begins = later.map(|by| (0..=100).map(|step| 10 * step + by).collect());
        let frame = Frame {
            begins: begins.to_vec(),
            wall: vec![10.0; 100],
            skipped: 0,
            by_hosts: false,
        };
        let lanes = clocks.map(|clock| Lane {
            clock: clock.to_owned(),
            ..Lane::default()
        });
        let work = Work::of(&lanes, &frame);
        let most = find(&lanes, &frame, &work)?;
        assert!(!most.by_work);
        Some((most.lane, most.ns))
    }

    #[test]
    fn a_host_that_begins_steps_after_all_others_has_a_bound() {
        let one = ["a"; 3];
        assert_eq!(found([0, 5, 1], one), Some((1, 400.0)));
        // Two of them are as late.
        assert_eq!(found([0, 5, 5], one), None);
        // It may be a step behind.
        assert_eq!(found([0, 0, 12], one), None);
        // Other clocks tell nothing.
        assert_eq!(found([0, 5, 1], ["a", "a", "b"]), None);
    }
}

//! For how long hosts work: their steps without the time that they were in the CUDA driver, where they wait
//! for their GPUs, or for room in the queue of launches.
//!
//! The recorder sums that time from call to call. Between launches of graphs it does not. But a host that
//! waits in launches of graphs is ahead of its GPU, so it waits nowhere else.

use super::frame::Frame;
use super::launches::Lane;
use super::MATTERS;

/// The time in the driver is known if it is in so many steps.
const MOST_STEPS: f64 = 0.9;

/// Of each lane.
pub struct Work(Vec<OfLane>);

struct OfLane {
    /// By step, ns: at most, if it is not known.
    steps: Vec<f64>,
    is_known: bool,
}

impl Work {
    /// Of these lanes.
    pub fn of(lanes: &[Lane], frame: &Frame) -> Work {
        let of = |(number, lane)| of_lane(lane, number, frame);
        Work(lanes.iter().enumerate().map(of).collect())
    }

    /// Whether it is known of a lane.
    pub fn is_known(&self, lane: usize) -> bool {
        self.0[lane].is_known
    }

    /// By how much longer one lane's host worked in a step than another's, ns; `None` if that is not known.
    pub fn longer(&self, one: usize, other: usize, step: usize) -> Option<f64> {
        let (one, other) = (&self.0[one], &self.0[other]);
        (one.is_known && other.is_known).then(|| one.steps[step] - other.steps[step])
    }

    /// The lane whose host works longest, and by how much longer at most than any other; `None` if that is
    /// not known of another.
    pub fn longest(&self) -> Option<(usize, f64)> {
        let all = self.0.iter().zip(0..);
        let sums = all.map(|(of, lane)| (of.steps.iter().sum::<f64>(), lane, of.is_known));
        let sums: Vec<(f64, usize, bool)> = sums.collect();
        let (most, longest, _) = *sums.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        let others = sums.iter().filter(|of| of.1 != longest && of.2);
        let next = others.map(|of| of.0).max_by(f64::total_cmp)?;
        Some((longest, most - next))
    }
}

fn of_lane(lane: &Lane, number: usize, frame: &Frame) -> OfLane {
    let pairs = frame.begins[number].windows(2);
    let mut steps: Vec<f64> = pairs.map(|of| (of[1] - of[0]) as f64).collect();
    let (mut in_driver, mut in_graphs) = (vec![false; steps.len()], 0.0);
    for launch in &lane.launches {
        let Some(step) = frame.step(number, launch.api) else {
            continue;
        };
        steps[step] -= f64::from(launch.driver) + launch.in_call();
        in_driver[step] |= launch.driver > 0.0;
        if launch.graph != 0 {
            in_graphs += launch.in_call();
        }
    }
    let known = in_driver.iter().filter(|is| **is).count() as f64;
    OfLane {
        is_known: known >= MOST_STEPS * steps.len() as f64 || in_graphs >= MATTERS * frame.total(),
        steps,
    }
}

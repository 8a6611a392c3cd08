//! For how long hosts work: their steps without the time that they waited in the CUDA driver for their GPUs,
//! or for room in the queue of launches.
//!
//! The recorder sums that time from call to call. Between launches of graphs it does not. A host that waits
//! in launches of graphs is ahead of its GPU, so it mostly waits nowhere else. But if its GPU has other
//! kernels, it may wait in their launches: it works so long at most.
//!
//! If nobody is late, a step still takes as long as its hosts work. Hosts that wait for each other in each
//! step take as long as the one that works longest in it. Hosts that run ahead take as long as the one that
//! works longest on average. Most are between: they run ahead as far as their launches waited on the GPU.

use super::frame::{median, Frame};
use super::launches::Lane;
use super::noise::MOST_APART;
use super::MATTERS;
use crate::streams::Share;
use std::ops::Range;

/// The time in the driver is known if it is in so many steps.
const MOST_STEPS: f64 = 0.9;

/// Of each lane.
pub struct Work(Vec<OfLane>);

#[derive(Clone)]
struct OfLane {
    /// By step, ns: at most, if it is not known.
    steps: Vec<f64>,
    /// The median of these.
    usual: f64,
    is_known: bool,
    /// From launches of graphs alone.
    is_bound: bool,
    /// How far it is ahead of its GPU, ns: how long launches wait in their stream for what lies before them,
    /// by the median and at most; `None` if no launch was timed.
    ahead: Option<[f64; 2]>,
}

impl Work {
    /// Of these lanes.
    pub fn of(lanes: &[Lane], frame: &Frame) -> Work {
        let of = |(number, lane)| of_lane(lane, number, frame);
        Work(lanes.iter().enumerate().map(of).collect())
    }

    /// By how much longer one lane's host worked in a step than another's, ns; `None` if that is not known.
    pub fn longer(&self, one: usize, other: usize, step: usize) -> Option<f64> {
        let (one, other) = (&self.0[one], &self.0[other]);
        (one.is_known && other.is_known).then(|| one.steps[step] - other.steps[step])
    }

    /// How much longer than usual a host worked in these steps, ns; `None` if that is not known.
    pub fn beyond_usual(&self, lane: usize, steps: Range<usize>) -> Option<f64> {
        let of = &self.0[lane];
        let usual = steps.len() as f64 * of.usual;
        let all = of.steps.get(steps)?.iter().sum::<f64>();
        of.is_known.then_some(all - usual)
    }

    /// Whether a host works for as long as is known at most.
    pub fn is_bound(&self, lane: usize) -> bool {
        self.0[lane].is_bound
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

    /// By which part of the wall steps could be shorter until they take as long as hosts work if these lanes
    /// are not late: as long as another one, but in steps a few apart. `None` if that is not known.
    pub fn shorter_without(&self, late: &[usize], frame: &Frame) -> Option<Share> {
        let all = self.0.iter().enumerate();
        let others: Vec<&OfLane> = all
            .filter(|(lane, _)| !late.contains(lane))
            .map(|(_, of)| of)
            .collect();
        if !others.iter().all(|of| of.is_known) {
            return None;
        }
        let sum = |of: &OfLane| of.steps.iter().sum::<f64>();
        let by_work = |a: &&&OfLane, b: &&&OfLane| sum(a).total_cmp(&sum(b));
        let limit = *others.iter().max_by(by_work)?;
        let steps = frame.wall.len();
        let of_late = |apart: usize| OfLane {
            steps: (0..steps)
                .map(|step| limit.steps[(step + apart) % steps])
                .collect(),
            ..limit.clone()
        };
        let needs = |which: usize| {
            let apart = |apart: usize| {
                let of_late = of_late(apart);
                let also = (!late.is_empty()).then_some(&of_late);
                let all: Vec<&OfLane> = others.iter().copied().chain(also).collect();
                take(&all, which)
            };
            (1..=MOST_APART as usize)
                .map(apart)
                .fold(f64::INFINITY, f64::min)
        };
        let part = |needs: f64| 1.0 - needs / frame.total();
        let most = part(sum(limit));
        let least = part(needs(0));
        let is_known = others.iter().all(|of| of.ahead.is_some());
        Some(Share {
            share: if is_known {
                part(needs(1))
            } else {
                (least + most) / 2.0
            },
            interval: Some((least, most)),
        })
    }
}

/// By the median and at most, without a twentieth that may be anything else; `None` of none.
fn ahead(mut queued: Vec<f64>) -> Option<[f64; 2]> {
    let at = |of: &mut [f64], n: usize| *of.select_nth_unstable_by(n, f64::total_cmp).1;
    let n = queued.len();
    (n > 0).then(|| {
        let most = at(&mut queued, n * 19 / 20);
        [at(&mut queued, n / 2), most]
    })
}

/// How long all steps of these hosts take, ns, if nothing but their work takes time. A step has ended when
/// all have done theirs, and each is ahead of that by what `which` of [`OfLane::ahead`] says.
fn take(lanes: &[&OfLane], which: usize) -> f64 {
    let mut at = vec![0.0f64; lanes.len()];
    let mut ended = 0.0;
    for step in 0..lanes[0].steps.len() {
        let mut ends = 0.0f64;
        for (at, of) in at.iter_mut().zip(lanes) {
            let ahead = of.ahead.map_or(0.0, |ahead| ahead[which]);
            *at = at.max(ended - ahead) + of.steps[step];
            ends = ends.max(*at);
        }
        ended = ends;
    }
    ended
}

fn of_lane(lane: &Lane, number: usize, frame: &Frame) -> OfLane {
    let pairs = frame.begins[number].windows(2);
    let mut steps: Vec<f64> = pairs.map(|of| (of[1] - of[0]) as f64).collect();
    let (mut in_driver, mut in_graphs) = (vec![false; steps.len()], 0.0);
    let mut step_of = frame.steps_in_order(number);
    let mut step_before = frame.steps_in_order(number);
    let mut queued = Vec::new();
    for launch in &lane.launches {
        // The program waited before the launch: before the one that begins a step, in the step before.
        if let Some(step) = step_before(launch.api - 1) {
            steps[step] -= f64::from(launch.driver_waited);
            in_driver[step] |= launch.driver_waited > 0.0;
        }
        let Some(step) = step_of(launch.api) else {
            continue;
        };
        if launch.start != 0 {
            queued.push((launch.start - launch.launched).max(0) as f64);
        }
        if launch.graph != 0 {
            steps[step] -= launch.in_call();
            in_graphs += launch.in_call();
        }
    }
    let known = in_driver.iter().filter(|is| **is).count() as f64;
    let by_calls = known >= MOST_STEPS * steps.len() as f64;
    OfLane {
        is_known: by_calls || in_graphs >= MATTERS * frame.total(),
        is_bound: !by_calls,
        ahead: ahead(queued),
        usual: median(steps.clone()),
        steps,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::launches::Launch;

    const MS: f64 = 1e6;
    const STEPS: usize = 60;

    /// By which part steps of 20 ms could be shorter without these lanes, if a lane waits for so many ms in
    /// even and in odd steps.
    fn shorter(all: &[[f64; 2]], late: &[usize]) -> Option<[f64; 3]> {
        let at = |step: usize| 20 * MS as i64 * step as i64;
        let begins: Vec<i64> = (0..=STEPS).map(at).collect();
        let lane = |waits: &[f64; 2]| Lane {
            launches: (0..STEPS)
                .map(|step| Launch {
                    api: at(step) + MS as i64,
                    driver_waited: (waits[step % 2] * MS) as f32,
                    ..Launch::default()
                })
                .collect(),
            ..Lane::default()
        };
        let lanes: Vec<Lane> = all.iter().map(lane).collect();
        let frame = Frame {
            begins: vec![begins; all.len()],
            wall: vec![20.0 * MS; STEPS],
            skipped: 0,
            by_hosts: false,
            equal_parts: 1,
        };
        let found = Work::of(&lanes, &frame).shorter_without(late, &frame)?;
        let (least, most) = found.interval.expect("bounds");
        Some([least, found.share, most].map(|part| (1000.0 * part).round() / 1000.0))
    }

    #[test]
    fn a_step_takes_as_long_as_the_host_that_works_longest() {
        assert_eq!(shorter(&[[0.1, 0.1], [6.0, 6.0]], &[0]), Some([0.3; 3]));
        let three = [[0.1, 0.1], [6.0, 6.0], [2.0, 2.0]];
        assert_eq!(shorter(&three, &[0]), Some([0.1; 3]));
        // In turns: those that run ahead work for 16 ms on average, and those that wait for 18 in each step.
        let turns = [[6.0, 2.0], [2.0, 6.0]];
        assert_eq!(shorter(&turns, &[]), Some([0.1, 0.15, 0.2]));
    }

    #[test]
    fn a_host_that_is_ahead_waits_for_no_other_within_that() {
        let at = |step: usize| 20 * MS as i64 * step as i64;
        // Two hosts work for 18 and 14 ms by turns, and not in the same steps.
        let lane = |odd: usize, ahead: i64| Lane {
            launches: (0..STEPS)
                .map(|step| Launch {
                    api: at(step) + MS as i64,
                    launched: at(step) + MS as i64,
                    start: at(step) + MS as i64 + ahead * MS as i64,
                    driver_waited: if step % 2 == odd { 6e6 } else { 2e6 },
                    ..Launch::default()
                })
                .collect(),
            ..Lane::default()
        };
        for (ahead, needs) in [(0, 18.0), (1, 17.0), (3, 16.0)] {
            let lanes = [lane(0, ahead), lane(1, ahead)];
            let frame = Frame {
                begins: vec![(0..=STEPS).map(at).collect(); 2],
                wall: vec![20.0 * MS; STEPS],
                skipped: 0,
                by_hosts: false,
                equal_parts: 1,
            };
            let found = Work::of(&lanes, &frame).shorter_without(&[], &frame);
            let share = found.expect("known").share;
            assert!(
                (share - (1.0 - needs / 20.0)).abs() < 0.01,
                "{ahead}: {share}"
            );
        }
    }

    #[test]
    fn a_host_works_for_so_long_at_most_by_its_launches_of_graphs() {
        let at = |step: usize| 20 * MS as i64 * step as i64;
        let launch = |step: usize, graph: u32| Launch {
            api: at(step) + MS as i64,
            launched: at(step) + 6 * MS as i64,
            driver_waited: if graph == 0 { 5e6 } else { 0.0 },
            graph,
            ..Launch::default()
        };
        let lane = |graph| Lane {
            launches: (0..STEPS).map(|step| launch(step, graph)).collect(),
            ..Lane::default()
        };
        let frame = Frame {
            begins: vec![(0..=STEPS).map(at).collect(); 2],
            wall: vec![20.0 * MS; STEPS],
            skipped: 0,
            by_hosts: false,
            equal_parts: 1,
        };
        let work = Work::of(&[lane(0), lane(12)], &frame);
        assert_eq!([work.is_bound(0), work.is_bound(1)], [false, true]);
        assert_eq!(work.longer(0, 1, 3), Some(0.0));
    }

    #[test]
    fn what_a_host_waits_before_a_launch_that_begins_a_step_is_of_the_step_before() {
        // Each step of 20 ms begins with a launch, but every third one takes 60 ms longer, for which the host
        // waits.
        let mut at = 0;
        let begins = (0..=STEPS as i64).map(|step| {
            at += 20 * MS as i64 * if step % 3 == 2 { 4 } else { 1 };
            at
        });
        let begins: Vec<i64> = begins.collect();
        let launch = |step: usize| Launch {
            api: begins[step],
            driver_waited: if step % 3 == 2 { 60e6 } else { 1e3 },
            ..Launch::default()
        };
        let lane = || Lane {
            launches: (0..=STEPS).map(launch).collect(),
            ..Lane::default()
        };
        let wall = begins.windows(2).map(|of| (of[1] - of[0]) as f64);
        let frame = Frame {
            wall: wall.collect(),
            begins: vec![begins.clone(); 2],
            skipped: 0,
            by_hosts: false,
            equal_parts: 1,
        };
        let work = Work::of(&[lane(), lane()], &frame);
        let apart = |ns: &f64| (ns - 20.0 * MS).abs();
        let most = work.0[0].steps.iter().map(apart).fold(0.0, f64::max);
        assert!(most < 1e4, "{:?}", work.0[0].steps);
    }

    #[test]
    fn without_times_in_the_driver_nothing_is_known() {
        assert_eq!(shorter(&[[0.1, 0.1], [0.0, 0.0]], &[0]), None);
        assert_eq!(shorter(&[[0.1, 0.1], [6.0, 6.0]], &[0, 1]), None);
    }
}

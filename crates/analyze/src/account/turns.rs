//! What ranks cost that are late in turns: in each step another one is last, so none of them owns the loss.
//!
//! Of each operation: how much later the last lane came than the mean of the others, by the exposed times,
//! less what is usual of each lane there. Lanes that do the same differ by noise, too, and one of many is
//! always the last. What the last one is later than by noise is the loss.
//!
//! The noise of three lanes or more is that of the others in the same operation: they are the lower order
//! statistics of a normal sample. Of two lanes, the differences at a place show it. If each lane is late in
//! half of the steps, the lower half of the differences are those of one of them. If both are late in few
//! steps, as two of many are, the differences in the middle are those without a late one.
//!
//! Not all lanes need be in an operation. Who waits in it comes late to the next one, where others wait for
//! it. So each counts by how many lanes wait in it.
//!
//! Rule: only operations that are known of all lanes that need each other: collectives, and exchanges of two
//! lanes. In a ring of more, one lane after the other waits for the late one.

use super::frame::{median, quantile, Frame};
use super::launches::Lane;
use super::noise::expected;
use super::places::{Cell, Places};
use std::collections::HashMap;

/// Fewer operations tell nothing.
const LEAST: usize = 20;

/// If the last lane changes by chance from step to step, it does so often. Half of that is the border to
/// lanes that stay last.
const LEAST_CHANGES: f64 = 0.5;

/// Of two lanes, fewer differences at a place don't show their noise.
const LEAST_OF_TWO: usize = 8;

/// From the 5 % to the 35 % quantile of a normal distribution, in standard deviations,
const TAIL: f64 = 1.26;

/// and from the 35 % to the 65 % quantile.
const CENTRE: f64 = 0.771;

/// The mean of |x| of a standard normal x.
const MEAN_OF_NORMAL: f64 = 0.798;

/// What lateness in turns costs.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    /// ns of the wall of the steps that count.
    pub loss: f64,
    /// Half of the 95 % interval of that.
    pub half: f64,
}

/// What it costs in these steps; `None` if too little is known.
pub fn find(lanes: &[Lane], places: &Places, frame: &Frame, steps: &[bool]) -> Option<Turns> {
    let mut ratios: HashMap<usize, f64> = HashMap::new();
    let (mut loss, mut variance, mut known) = (0.0, 0.0, 0);
    let mut changes = Changes::default();
    let mut at = AtPlace::default();
    let mut close = |at: &mut AtPlace| {
        let at = std::mem::take(at);
        let (members, operations) = (at.members, at.operations);
        let apart = at.of_steps();
        let ratio = ratios.entry(members);
        let excess = apart.beyond_noise(*ratio.or_insert_with(|| last_by_noise(members)));
        let n = excess.len() as f64;
        if excess.len() < 2 {
            return;
        }
        let operations = operations * (members - 1) as f64 / (places.lanes - 1) as f64;
        let mean = excess.iter().sum::<f64>() / n;
        let squares: f64 = excess.iter().map(|of| (of - mean).powi(2)).sum();
        loss += mean * operations;
        changes.add(
            &apart.last_of_late(&excess, mean),
            (mean * operations).max(0.0),
        );
        variance += operations.powi(2) * squares / (n - 1.0) / n;
        known += excess.len();
    };
    let mut place = 0;
    for operation in places.operations() {
        if operation[0].place != place {
            close(&mut at);
            place = operation[0].place;
        }
        if !steps[operation[0].step as usize] {
            continue;
        }
        at.operations += f64::from(operation[0].times);
        let exchanges = |cell: &Cell| cell.launch.sends || cell.launch.receives;
        let is_exchange = operation.iter().any(exchanges);
        let members = match is_exchange {
            true => 2,
            false if operation.len() == places.lanes => places.lanes,
            false => members(lanes, &operation[0]),
        };
        // Of a pipeline of two lanes, no typical step says that it is no more than the schedule.
        let is_mutual = || operation.iter().all(|cell| cell.launch.is_mutual());
        if is_exchange && places.lanes == 2 && !is_mutual() {
            continue;
        }
        let came: Vec<f64> = operation.iter().filter_map(Cell::still).collect();
        if members > 1 && came.len() == members && operation.len() == members {
            at.members = members;
            at.still.push(came);
        }
    }
    close(&mut at);
    let half = crate::interval::student(known as f64 - 1.0) * variance.sqrt();
    let least = known >= LEAST && frame.total_of(steps) > 0.0 && changes.are_usual();
    least.then_some(Turns { loss, half })
}

/// How many lanes need each other in a collective; 0 is not known.
fn members(lanes: &[Lane], cell: &Cell) -> usize {
    let lane = &lanes[cell.lane as usize];
    let kind = lane.kinds[cell.launch.kind as usize];
    let group = lane.groups.get(&kind.communicator);
    group.map_or(0, |group| group.ranks as usize)
}

/// What is known of a place.
#[derive(Default)]
struct AtPlace {
    operations: f64,
    /// How many lanes its operations have.
    members: usize,
    /// By operation: for how long each of these lanes stood still.
    still: Vec<Vec<f64>>,
}

/// How far apart lanes came to the operations of a place.
struct Apart {
    /// By operation: how much later the last lane came than the mean of the others; of two lanes, how much
    /// later the first one did.
    late: Vec<f64>,
    /// By operation: how far the others are from their mean, the mean of that; nothing of two lanes.
    others: Vec<f64>,
    /// By operation: the last lane.
    last: Vec<usize>,
}

impl AtPlace {
    /// What differs from step to step. What is usual is no turn: a lane is late as a habit, or two stages of
    /// a pipeline wait for each other by its schedule.
    fn of_steps(mut self) -> Apart {
        for lane in 0..self.members {
            let still = self.still.iter().map(|of| of[lane]);
            let usual = usual(still.collect(), self.members);
            self.still.iter_mut().for_each(|of| of[lane] -= usual);
        }
        let mut apart = Apart {
            late: Vec::new(),
            others: Vec::new(),
            last: Vec::new(),
        };
        self.still.iter().for_each(|still| apart.add(still));
        apart
    }
}

impl Apart {
    /// Takes in for how long each lane stood still in an operation: the last one for the shortest time.
    fn add(&mut self, still: &[f64]) {
        let mut order: Vec<usize> = (0..still.len()).collect();
        order.sort_by(|a, b| still[*a].total_cmp(&still[*b]));
        let (last, others) = (order[0], &order[1..]);
        self.last.push(last);
        if let [a, b] = still {
            self.late.push(b - a);
            return;
        }
        let n = others.len() as f64;
        let mean = others.iter().map(|lane| still[*lane]).sum::<f64>() / n;
        self.late.push(mean - still[last]);
        let apart = |lane: &usize| (still[*lane] - mean).abs();
        self.others.push(others.iter().map(apart).sum::<f64>() / n);
    }

    /// By operation: how much later the last lane came than by noise. `ratio` is [`last_by_noise`].
    fn beyond_noise(&self, ratio: f64) -> Vec<f64> {
        if self.others.is_empty() {
            return of_two(&self.late);
        }
        let both = self.late.iter().zip(&self.others);
        both.map(|(late, others)| late - ratio * others).collect()
    }

    /// The last lane of the operations in which it is later beyond noise than half of the average. In the
    /// others, any may be last.
    fn last_of_late(&self, excess: &[f64], mean: f64) -> Vec<usize> {
        let all = self.last.iter().zip(excess);
        let late = all.filter(|(_, excess)| **excess > mean.max(0.0) / 2.0);
        late.map(|(lane, _)| *lane).collect()
    }
}

/// For how long one of so many lanes usually stands still. Two that are late in turns are each in half of the
/// steps: between the two is the middle of the quartiles, and the median is one of them.
fn usual(mut still: Vec<f64>, members: usize) -> f64 {
    if members != 2 {
        return median(still);
    }
    still.sort_by(f64::total_cmp);
    let at = |part| quantile(&still, part);
    (at(0.25) + at(0.75)) / 2.0
}

/// How often another lane is last than in the operation before at the same place: where most is lost.
#[derive(Default)]
struct Changes {
    seen: f64,
    by_chance: f64,
}

impl Changes {
    fn add(&mut self, last: &[usize], lost: f64) {
        let n = last.len() as f64;
        if n < 2.0 {
            return;
        }
        let mut times: HashMap<usize, f64> = HashMap::new();
        for lane in last {
            *times.entry(*lane).or_default() += 1.0;
        }
        let changes = last.windows(2).filter(|of| of[0] != of[1]).count() as f64;
        self.seen += lost * changes / (n - 1.0);
        let same: f64 = times.values().map(|times| (times / n).powi(2)).sum();
        self.by_chance += lost * (1.0 - same);
    }

    /// Whether the last lane changes from step to step. If the same one is last for a part of the run, and
    /// then another, each is late by itself; and so is one that is last whenever any is late.
    fn are_usual(&self) -> bool {
        self.by_chance > 0.0 && self.seen >= LEAST_CHANGES * self.by_chance
    }
}

/// How much more two lanes differ than by noise.
fn of_two(late: &[f64]) -> Vec<f64> {
    if late.len() < LEAST_OF_TWO {
        return Vec::new();
    }
    let mut sorted = late.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part| quantile(&sorted, part);
    let tail = (at(0.35) - at(0.05)).min(at(0.95) - at(0.65)) / TAIL;
    let noise = MEAN_OF_NORMAL * tail.min((at(0.65) - at(0.35)) / CENTRE);
    late.iter().map(|of| of.abs() - noise).collect()
}

/// By noise alone, the last of so many lanes is later than the mean of the others by so many times the mean
/// distance of these from their mean.
fn last_by_noise(lanes: usize) -> f64 {
    if lanes < 3 {
        return 0.0;
    }
    let n = lanes as f64;
    let at = |i: usize| expected(i, lanes);
    let others: Vec<f64> = (1..lanes).map(at).collect();
    let mean = others.iter().sum::<f64>() / (n - 1.0);
    let apart = others.iter().map(|of| (of - mean).abs()).sum::<f64>() / (n - 1.0);
    (at(lanes) - mean) / apart
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: usize = 120;

    /// What lanes lose in turns at a place, a step, and whether the last one changes as by chance, if this is
    /// how late each comes to it.
    fn lost(members: usize, late: impl Fn(usize, usize) -> f64) -> (f64, bool) {
        let still = |step: usize| -> Vec<f64> {
            let late: Vec<f64> = (0..members).map(|lane| late(lane, step)).collect();
            let last = late.iter().copied().fold(0.0, f64::max);
            late.iter().map(|late| last - late).collect()
        };
        let at = AtPlace {
            operations: STEPS as f64,
            members,
            still: (0..STEPS).map(still).collect(),
        };
        let apart = at.of_steps();
        let excess = apart.beyond_noise(last_by_noise(members));
        let mean = excess.iter().sum::<f64>() / STEPS as f64;
        let mut changes = Changes::default();
        changes.add(&apart.last_of_late(&excess, mean), mean.max(0.0));
        (mean, changes.are_usual())
    }

    /// A lane of so many, another one in each step.
    fn turn(lanes: usize, step: usize) -> usize {
        let mixed = (step as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as usize % lanes
    }

    #[test]
    fn who_is_late_in_turns_makes_the_others_wait_for_all_of_it() {
        for members in [2, 3, 8] {
            let late = |lane: usize, step: usize| {
                if turn(members, step) == lane {
                    50.0
                } else {
                    0.0
                }
            };
            let (mean, changes) = lost(members, late);
            assert!((mean - 50.0).abs() < 1.0 && changes, "{members}: {mean}");
        }
        // Two of eight, which are late in a quarter of the steps.
        let (mean, changes) = lost(
            2,
            |lane, step| {
                if turn(8, step) == lane {
                    50.0
                } else {
                    0.0
                }
            },
        );
        assert!((mean - 12.5).abs() < 4.0 && changes, "{mean}");
    }

    #[test]
    fn who_is_always_late_is_not_late_in_turns() {
        for members in [2, 3, 8] {
            let (mean, _) = lost(members, |lane, _| if lane == 1 { 50.0 } else { 0.0 });
            assert_eq!(mean, 0.0, "{members}");
        }
    }

    #[test]
    fn one_that_is_late_at_times_costs_no_more_in_turns_than_by_itself() {
        for members in [2, 3, 8] {
            let late = |lane: usize, step: usize| {
                if lane == 1 && step.is_multiple_of(4) {
                    50.0
                } else {
                    0.0
                }
            };
            let (mean, changes) = lost(members, late);
            assert!((mean - 12.5).abs() < 0.1, "{members}: {mean}");
            assert!(!changes, "{members}");
        }
    }

    #[test]
    fn two_that_are_late_one_after_the_other_are_late_by_themselves() {
        for members in [2, 3, 8] {
            let late = |lane: usize, step: usize| {
                let noise = turn(100, 8 * step + lane) as f64 / 100.0;
                let is_late = lane == usize::from(step < STEPS / 3);
                noise + if is_late { 50.0 } else { 0.0 }
            };
            let (_, changes) = lost(members, late);
            assert!(!changes, "{members}");
        }
    }
}

//! What ranks cost that are late in turns: in each step another one is last, so none of them owns the loss.
//!
//! Of each operation: how much later the last lane came than the mean of the others, by the exposed times.
//! Lanes that do the same differ by noise, too, and one of many is always the last. What the last one is
//! later than by noise is the loss.
//!
//! The noise of three lanes or more is that of the others in the same operation: they are the lower order
//! statistics of a normal sample. Of two lanes, the lower tail of the differences at a place shows it: if
//! each lane is late in half of the steps, the lower half of the differences are those of one of them.
//!
//! Rule: only operations in which all lanes are, and that are known of all lanes: collectives, and exchanges
//! of two lanes. In a ring of more, one lane after the other waits for the late one.

use super::frame::Frame;
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

/// From the 5 % to the 35 % quantile of a normal distribution, in standard deviations.
const NORMAL: f64 = 1.26;

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
pub fn find(places: &Places, frame: &Frame, steps: &[bool]) -> Option<Turns> {
    let ratio = last_by_noise(places.lanes);
    let (mut loss, mut variance, mut known) = (0.0, 0.0, 0);
    let mut changes = Changes::default();
    let mut at = AtPlace::default();
    let mut close = |at: &mut AtPlace| {
        let apart = std::mem::take(at).of_steps();
        let excess = match places.lanes {
            2 => of_two(&apart.late),
            _ => apart
                .late
                .iter()
                .zip(&apart.others)
                .map(|(late, others)| late - ratio * others)
                .collect(),
        };
        let n = excess.len() as f64;
        if excess.len() < 2 {
            return;
        }
        let mean = excess.iter().sum::<f64>() / n;
        let squares: f64 = excess.iter().map(|of| (of - mean).powi(2)).sum();
        loss += mean * apart.operations;
        changes.add(&apart.last, (mean * apart.operations).max(0.0));
        variance += apart.operations.powi(2) * squares / (n - 1.0) / n;
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
        let mutual = places.lanes == 2 && operation.iter().all(|cell| cell.launch.is_mutual());
        let came: Vec<f64> = operation.iter().filter_map(Cell::still).collect();
        if came.len() == places.lanes && (!is_exchange || mutual) {
            at.is_exchange |= is_exchange;
            at.add(came);
        }
    }
    close(&mut at);
    let half = crate::interval::student(known as f64 - 1.0) * variance.sqrt();
    let least = known >= LEAST && frame.total_of(steps) > 0.0 && changes.are_usual();
    least.then_some(Turns { loss, half })
}

/// What is known of a place.
#[derive(Default)]
struct AtPlace {
    operations: f64,
    /// By operation: how much later the last lane came than the mean of the others; of two lanes, how much
    /// later the first one did.
    late: Vec<f64>,
    /// By operation: how far the others are from their mean, the mean of that.
    others: Vec<f64>,
    /// By operation: the last lane.
    last: Vec<usize>,
    /// Operations are sends and receives.
    is_exchange: bool,
}

impl AtPlace {
    /// Takes in for how long each lane stood still in an operation: the last one for the shortest time.
    fn add(&mut self, still: Vec<f64>) {
        if let [a, b] = still[..] {
            self.late.push(b - a);
            return;
        }
        let mut order: Vec<usize> = (0..still.len()).collect();
        order.sort_by(|a, b| still[*a].total_cmp(&still[*b]));
        let (last, others) = (order[0], &order[1..]);
        let n = others.len() as f64;
        let mean = others.iter().map(|lane| still[*lane]).sum::<f64>() / n;
        self.last.push(last);
        self.late.push(mean - still[last]);
        let apart = |lane: &usize| (still[*lane] - mean).abs();
        self.others.push(others.iter().map(apart).sum::<f64>() / n);
    }

    /// What differs from step to step. Two stages of a pipeline wait for each other in every step by its
    /// schedule, and nobody is late.
    fn of_steps(mut self) -> AtPlace {
        if self.is_exchange {
            let mean = self.late.iter().sum::<f64>() / self.late.len() as f64;
            self.late.iter_mut().for_each(|of| *of -= mean);
        }
        if self.last.is_empty() {
            self.last = self.late.iter().map(|of| usize::from(*of < 0.0)).collect();
        }
        self
    }
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
    /// then another, each is late by itself.
    fn are_usual(&self) -> bool {
        self.seen >= LEAST_CHANGES * self.by_chance
    }
}

/// How much more two lanes differ than by noise.
fn of_two(late: &[f64]) -> Vec<f64> {
    if late.len() < LEAST_OF_TWO {
        return Vec::new();
    }
    let mut sorted = late.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: f64| sorted[(part * (sorted.len() - 1) as f64).round() as usize];
    let (lower, upper) = (at(0.35) - at(0.05), at(0.95) - at(0.65));
    let noise = MEAN_OF_NORMAL * lower.min(upper) / NORMAL;
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

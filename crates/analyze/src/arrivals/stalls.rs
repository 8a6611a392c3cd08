//! Stalls: a rank that comes late once, or a few times, by far more than anybody does otherwise.
//!
//! [`stalls`] takes for how long the last rank of each operation was late by itself. The run is cut into
//! stretches of operations; what is usual is the third quartile of their largest lateness. Operations in
//! which it was five times as much are stalls, and those of one rank are one [`Stall`]. What they cost is the
//! run played again with that rank on time in these operations only.
//!
//! Rule: a rank that is late as a habit has no stall. The largest of sixteen exponential times has a mean of
//! 3.4 of their means, so noise must reach some 17 means: one operation in twenty million.

use super::operations::Operations;
use super::what_if::WhatIf;
use crate::subject::ProcessId;
use crate::subject::RankId;
use crate::time::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;

/// Fewer operations don't say what is usual.
const LEAST_OPERATIONS: usize = 20;
/// Operations of a stretch, if there are enough for so many stretches at least; they are longer if there are
/// more.
const STRETCH: usize = 16;
const LEAST_STRETCHES: usize = 5;
const MOST_STRETCHES: usize = 24;
/// So many times what is usual.
const BEYOND: f64 = 5.0;
/// What is usual is looked for among stretches that are not this many times the median.
const PLAINLY_BEYOND: f64 = 10.0;
/// The least lateness that is a stall: ends of operations are spread by a few µs.
const LEAST: Nanos = Nanos::from_us(50.0);
/// More operations than this part are a habit.
const MOST: f64 = 0.4;
/// Of so many ranks it is told what the run loses by their stalls: each takes playing the run again.
const MOST_RANKS: usize = 4;

/// The stalls of one GPU of a process.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Stall {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// CUDA device ordinal.
    pub device: Option<u32>,
    /// Operations that it held up.
    pub operations: u64,
    /// Stretches of operations that follow each other.
    pub times: u64,
    /// The first and the last of the longest stretch, from the rank's first kernel, µs.
    pub when_us: (f64, f64),
    /// Whether all of them come before any other operation of the communicators.
    pub at_start: bool,
    /// How long it held them up, µs of the wall.
    pub held_up_us: f64,
    /// The same of the longest stretch.
    pub longest_us: f64,
    /// What the run would save if the rank had been no later than the others' median in these operations, in
    /// µs of wall time. A finding has it.
    #[serde(skip)]
    pub(crate) loss_wall_us: f64,
    /// What is usual: the third quartile of the lateness of whoever comes last, µs.
    pub usual_us: f64,
    /// Of `held_up_us`: its launch on the host was late as well. Null if that is not known of any of these
    /// operations.
    pub launched_late_us: Option<f64>,
    /// Of `held_up_us`: it was launched in time, so its GPU was busy. Null as `launched_late_us`.
    pub gpu_busy_us: Option<f64>,
}

impl Stall {
    /// Which rank it is.
    pub fn id(&self) -> RankId {
        RankId::new(self.process.clone(), self.device)
    }
}

/// Who came last to an operation, by how much of itself, and why.
#[derive(Clone, Copy)]
pub(super) struct Last {
    pub(super) lane: u32,
    pub(super) own: Nanos,
    pub(super) launched_late: bool,
    pub(super) gpu_busy: bool,
}

/// The value at this part of the sorted `values`.
fn quantile(values: &mut [Nanos], part: f64) -> Nanos {
    values.sort_unstable();
    let at = (values.len() as f64 * part) as usize;
    let value = values.get(at.min(values.len().saturating_sub(1)));
    value.copied().unwrap_or_default()
}

/// What is usual, and what is beyond that: of the lateness of whoever came last, in order of time. `None`
/// if too little is known, or lateness is a habit.
fn usual(own: &[Nanos]) -> Option<(Nanos, Nanos)> {
    if own.len() < LEAST_OPERATIONS {
        return None;
    }
    // A stretch is longer than most steps: within one, only some operations can be late.
    let length = (own.len() / MOST_STRETCHES).max(STRETCH.min(own.len() / LEAST_STRETCHES));
    let stretches = own.chunks(length.max(1));
    let mut largest: Vec<Nanos> = stretches
        .filter_map(|stretch| stretch.iter().copied().max())
        .collect();
    let plainly = (quantile(&mut largest, 0.5) * PLAINLY_BEYOND).max(LEAST);
    largest.retain(|own| *own <= plainly);
    let usual = quantile(&mut largest, 0.75);
    let beyond = (usual * BEYOND).max(LEAST);
    let stalled = own.iter().filter(|own| **own > beyond).count();
    (stalled > 0 && stalled as f64 <= MOST * own.len() as f64).then_some((usual, beyond))
}

/// The stalls, largest loss first. `last` is by operation of `of`.
pub(super) fn stalls(of: &Operations, last: &[Last], what_if: &mut Option<WhatIf>) -> Vec<Stall> {
    let first: Vec<u64> = of
        .lanes
        .iter()
        .map(|lane| lane.parts.iter().map(|part| part.start).min().unwrap_or(0))
        .collect();
    // When an operation ended, from the first kernel of the rank that came last to it, ns.
    let ended = |operation: usize| {
        let lane = last[operation].lane;
        let part = of
            .of(&of.whole[operation])
            .find(|place| place.0 == lane)
            .map(|place| of.part(place));
        part.map_or(0, |part| {
            let end = part.start.saturating_add(part.ns);
            end.saturating_sub(first[lane as usize])
        })
    };
    let mut order: Vec<(u64, usize)> = (0..last.len()).map(|at| (ended(at), at)).collect();
    order.sort_unstable();
    let own: Vec<Nanos> = order.iter().map(|(_, at)| last[*at].own).collect();
    let Some((usual, beyond)) = usual(&own) else {
        return Vec::new();
    };
    let mut by_lane: Vec<Vec<usize>> = vec![Vec::new(); of.lanes.len()];
    for (place, (_, operation)) in order.iter().enumerate() {
        if last[*operation].own > beyond {
            by_lane[last[*operation].lane as usize].push(place);
        }
    }
    let own = |at: usize| last[order[at].1].own;
    let held = |places: &[usize]| places.iter().map(|at| own(*at)).sum::<Nanos>();
    let mut lanes: Vec<usize> = (0..by_lane.len())
        .filter(|lane| !by_lane[*lane].is_empty())
        .collect();
    lanes.sort_by_key(|lane| (Reverse(held(&by_lane[*lane])), *lane));
    lanes.truncate(MOST_RANKS);
    let mut found: Vec<Stall> = Vec::new();
    for lane in lanes {
        let places = &by_lane[lane];
        // One that is not late between two that are does not part them.
        let stretches: Vec<&[usize]> = places.chunk_by(|a, b| b - a <= 2).collect();
        let Some(longest) = stretches
            .iter()
            .max_by_key(|stretch| held(stretch))
            .filter(|stretch| !stretch.is_empty())
        else {
            continue;
        };
        let mut these = vec![false; last.len()];
        places.iter().for_each(|at| these[order[*at].1] = true);
        let what_if = what_if.get_or_insert_with(|| WhatIf::new(of));
        let sum = held(places);
        let of_them = || places.iter().map(|at| &last[order[*at].1]);
        let explained = of_them().any(|last| last.launched_late || last.gpu_busy);
        let with = |is: fn(&Last) -> bool| {
            let those = of_them().filter(|last| is(last)).map(|last| last.own.0);
            // The sum of no floats is -0.
            explained.then(|| Nanos(those.sum()).us())
        };
        let us = |at: usize| Nanos::from(order[at].0).us();
        let begins = |at: usize| us(at) - own(at).us();
        let of_lane = &of.lanes[lane];
        found.push(Stall {
            process: of_lane.process.clone(),

            device: of_lane.device,
            operations: places.len() as u64,
            times: stretches.len() as u64,
            when_us: (begins(longest[0]).max(0.0), us(longest[longest.len() - 1])),
            at_start: stretches.len() == 1 && longest[0] <= 1 && places.len() > 1,
            held_up_us: sum.us(),
            longest_us: held(longest).us(),
            loss_wall_us: what_if.loss_in(lane as u32, &these).min(sum).us(),
            usual_us: usual.us(),
            launched_late_us: with(|last| last.launched_late),
            gpu_busy_us: with(|last| last.gpu_busy),
        });
    }
    found.sort_by(|a, b| b.loss_wall_us.total_cmp(&a.loss_wall_us));
    found
}

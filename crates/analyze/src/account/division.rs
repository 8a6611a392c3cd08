//! The wall of the steps of each rank, divided without a rest: work, waits, transfer and unknown.
//!
//! A wait is what a lane stood still for an operation before its last rank had come. NCCL's own phases say
//! it, if they are recorded ([`crate::phases`]): they need no other rank. Else it is the lane's GPU time
//! above that of the rank with the shortest one. The rest of what it stood still is transfer.
//!
//! Rule: the lines sum to the wall. They are whole ns, and `unknown` takes what no evidence covers.

use super::frame::Frame;
use super::launches::Lane;
use super::places::{Cell, Places, Scaled};
use crate::subject::ProcessId;
use crate::subject::RankId;
use crate::time::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;

/// One rank's account. All lines are µs of the wall of the steps.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RankAccount {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// CUDA device ordinal.
    pub device: Option<u32>,
    /// It computed, or its host had launched nothing: without kernel windows, these can't be told apart.
    pub work_us: f64,
    /// It stood still for ranks that had not come.
    pub wait_us: f64,
    /// It stood still while bytes moved.
    pub transfer_us: f64,
    /// It was in operations, and if it stood still is not known.
    pub unknown_us: f64,
    /// The part of its launches whose exposed time is known, 0 to 1.
    pub known_share: f64,
}

impl RankAccount {
    /// Which rank it is of.
    pub fn id(&self) -> RankId {
        RankId::new(self.process.clone(), self.device)
    }

    /// How long it stood still in operations, µs.
    pub(crate) fn still_us(&self) -> f64 {
        self.wait_us + self.transfer_us
    }
}

/// The shortest GPU time of each operation, ns, where two lanes or more have one, by place and step.
fn shortest(places: &Places) -> HashMap<(u32, u32), f64> {
    let mut shortest = HashMap::new();
    for operation in places.operations() {
        let times = operation.iter().filter_map(|cell| cell.launch.length());
        let (n, least) = times.fold((0, f64::INFINITY), |(n, least), ns| (n + 1, ns.min(least)));
        if n > 1 {
            shortest.insert((operation[0].place, operation[0].step), least);
        }
    }
    shortest
}

/// By lane and launch: how long it waited for other lanes, ns, by NCCL's own phases or because it took longer
/// than on the last of them. NaN is not known, as of operations that were not timed on all lanes.
pub fn waited(lanes: &[Lane], places: &Places) -> Vec<Vec<f32>> {
    let unknown = |lane: &Lane| vec![f32::NAN; lane.launches.len()];
    let mut waited: Vec<Vec<f32>> = lanes.iter().map(unknown).collect();
    for operation in places.operations().filter(|of| of.len() > 1) {
        let times: Option<Vec<f64>> = operation.iter().map(|cell| cell.launch.length()).collect();
        let least = times.map(|times| times.into_iter().fold(f64::INFINITY, f64::min));
        for cell in operation {
            let beyond = || Some(cell.launch.length()? - least?);
            if let Some(ns) = cell.launch.synced().or_else(beyond) {
                waited[cell.lane as usize][cell.index as usize] = ns as f32;
            }
        }
    }
    waited
}

/// For how long each lane's GPU waited for others at most, µs of the wall. An operation that was there for
/// longer than on another lane waited for the rest at most, whether or not computing stood still for it.
pub fn most_waits(places: &Places, frame: &Frame) -> Vec<f64> {
    let all = vec![true; frame.wall.len()];
    let shortest = shortest(places);
    let most = |cell: &Cell| {
        let length = cell.launch.length();
        let least = shortest
            .get(&(cell.place, cell.step))
            .filter(|_| cell.launch.graph == 0);
        let beyond = length.zip(least).map(|(ns, least)| (ns - least).max(0.0));
        let still = cell.still().filter(|_| cell.launch.graph == 0);
        let either = [beyond, still].into_iter().flatten().reduce(f64::min);
        either.or(length)
    };
    let seen = places.scaled(&all, most);
    let of = |seen: &Scaled| {
        if places.is_dark(seen) {
            Nanos(frame.total()).us()
        } else {
            Nanos(seen.sum).us() * seen.operations / seen.covered.max(1.0)
        }
    };
    seen.iter().map(of).collect()
}

/// Divides.
pub fn divide(lanes: &[Lane], places: &Places, frame: &Frame) -> Vec<RankAccount> {
    let all = vec![true; frame.wall.len()];
    let total = frame.total().round() as i64;
    let shortest = shortest(places);
    let wait = |cell: &Cell| {
        let still = cell.still()?;
        let waited = cell.launch.synced().or_else(|| {
            let least = shortest.get(&(cell.place, cell.step))?;
            Some((cell.launch.length()? - least).max(0.0))
        });
        Some(waited?.min(still))
    };
    let hidden = |cell: &Cell| match cell.still() {
        Some(_) => Some(0.0),
        None => cell.launch.length(),
    };
    let still = places.scaled(&all, Cell::still);
    let waits = places.scaled(&all, wait);
    let unknown = places.scaled(&all, hidden);
    let in_graphs = places.scaled(&all, Cell::in_graph);
    let known = places.scaled(&all, |cell| match cell.in_graph() {
        Some(_) => None,
        None => cell.still().map(|_| 1.0),
    });
    let row = |(index, lane): (usize, &Lane)| {
        let mut left = total;
        let mut take = |ns: f64| {
            let ns = (ns.round() as i64).clamp(0, left);
            left -= ns;
            Nanos::from(ns).us()
        };
        let wait_us = take(waits[index].sum.min(still[index].sum));
        let transfer_us = take(still[index].sum - waits[index].sum);
        // At places with no exposed time at all, GPU times bound it.
        let untimed = if still[index].covered == still[index].operations {
            0.0
        } else {
            unknown[index].sum
        };
        let unknown_us = take(untimed + in_graphs[index].sum);
        RankAccount {
            process: lane.process.clone(),

            device: lane.device,
            work_us: Nanos::from(left).us(),
            wait_us,
            transfer_us,
            unknown_us,
            known_share: known[index].known as f64 / known[index].operations.max(1.0),
        }
    };
    lanes.iter().enumerate().map(row).collect()
}

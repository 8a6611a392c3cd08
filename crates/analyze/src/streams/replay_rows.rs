//! Replays of CUDA graphs in windows, by GPU and by what a graph has.

use super::lane::Lane;
use super::replays::{CallCounts, Sample};
use crate::interval::Batches;
use crate::subject::ProcessId;
use crate::time::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Replays of a rank that communicate by the same calls.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Replay {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// CUDA device ordinal.
    pub device: u32,
    /// Kernels that communicate in one replay, by function of NCCL, or by library.
    pub calls: BTreeMap<String, u64>,
    /// Whole replays in windows.
    pub replays: u64,
    /// From the first kernel of a replay to the end of its last, mean, µs.
    pub replay_us: f64,
    /// For how long kernels communicated in a replay, mean, µs.
    pub communication_us: f64,
    /// For how long kernels communicated in a replay and nothing computed, mean, µs.
    pub exposed_us: f64,
    /// 95 % interval of that; null for too few replays.
    pub exposed_interval_us: Option<(f64, f64)>,
}

/// The rows of all lanes, those first of which the replays are longest in all.
pub(super) fn rows(lanes: &[Lane]) -> Vec<Replay> {
    let mut rows: Vec<Replay> = Vec::new();
    for lane in lanes {
        let mut by_calls: BTreeMap<&CallCounts, Vec<Sample>> = BTreeMap::new();
        for (calls, sample) in &lane.replays {
            by_calls.entry(calls).or_default().push(*sample);
        }
        rows.extend(
            by_calls
                .into_iter()
                .map(|(calls, of)| row(lane, calls, &of)),
        );
    }
    let mut whole: BTreeMap<CallCounts, f64> = BTreeMap::new();
    for row in &rows {
        *whole.entry(row.calls.clone()).or_default() += row.replay_us * row.replays as f64;
    }
    // Stable, so ranks stay in their order.
    rows.sort_by(|a, b| {
        let order = whole[&b.calls].total_cmp(&whole[&a.calls]);
        order.then_with(|| a.calls.cmp(&b.calls))
    });
    rows
}

fn row(lane: &Lane, calls: &CallCounts, of: &[Sample]) -> Replay {
    let n = of.len() as f64;
    let mean = |pick: fn(&Sample) -> Nanos| (of.iter().map(pick).sum::<Nanos>() / n).us();
    let each: Vec<(f64, f64)> = of.iter().map(|s| (s.exposed.us(), 1.0)).collect();
    let batches = Batches::of_stretches(&each).and_then(|batches| batches.mean(0.0));
    Replay {
        process: lane.process.clone(),

        device: lane.device,
        calls: calls.clone(),
        replays: of.len() as u64,
        replay_us: mean(|s| s.whole),
        communication_us: mean(|s| s.communication),
        exposed_us: mean(|s| s.exposed),
        exposed_interval_us: batches.and_then(|mean| mean.interval()),
    }
}

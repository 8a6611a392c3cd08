//! What communication takes in one replay of a CUDA graph: for a decode graph, in one token.
//!
//! All that one launch of a graph runs has one number in a window. So a replay is whole if all of it ran in
//! the time that the window shows. [`of_device`] finds the replays of a device. [`rows`] adds up those with
//! communication of the same calls, because an engine has a graph for each batch size, and often one for each
//! layer.
//!
//! Rule: graphs without communication have no row.

use super::intervals::{Span, Union};
use super::kinds::{function, Does, Names};
use super::window::Seen;
use super::Lane;
use crate::interval::Batches;
use crate::subject::ProcessId;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use tables::windows::GpuActivity;

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
    /// For how long of that kernels communicated, mean, µs.
    pub communication_us: f64,
    /// And nothing computed, mean, µs.
    pub exposed_us: f64,
    /// 95 % interval of that; null for too few replays.
    pub exposed_interval_us: Option<(f64, f64)>,
}

/// Kernels that communicate, by function or library.
pub(super) type CallCounts = BTreeMap<String, u64>;

/// One replay, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    whole: i64,
    communication: i64,
    exposed: i64,
}

/// The whole replays of a device, of what ran on it, by start.
pub(super) fn of_device(
    ran: &[GpuActivity],
    seen: &Seen,
    names: &Names,
) -> Vec<(CallCounts, Sample)> {
    let mut replays: BTreeMap<u32, Vec<&GpuActivity>> = BTreeMap::new();
    for r in ran.iter().filter(|r| r.graph != 0) {
        replays.entry(r.correlation).or_default().push(r);
    }
    let sample = |of: &Vec<&GpuActivity>| {
        let begin = of.iter().map(|r| r.start).min()?;
        let end = of.iter().map(|r| r.end).max()?;
        if begin < seen.known.0 || seen.known.1 < end {
            return None;
        }
        let mut calls = CallCounts::new();
        let mut spans: Vec<Span> = Vec::new();
        for r in of {
            let what = match names.does(r.name) {
                Does::Computes => continue,
                Does::Nccl => function(names.name(r.name)),
                Does::OtherCommunication(library) => library,
            };
            *calls.entry(what.to_owned()).or_default() += 1;
            spans.push((r.start, r.end));
        }
        let spans = Union::of(spans);
        let exposed = spans.spans().iter();
        let sample = Sample {
            whole: end - begin,
            communication: spans.length(),
            exposed: exposed.map(|span| seen.without_computing(*span)).sum(),
        };
        (!calls.is_empty()).then_some((calls, sample))
    };
    replays.values().filter_map(sample).collect()
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
    let mean = |pick: fn(&Sample) -> i64| of.iter().map(pick).sum::<i64>() as f64 / n / 1e3;
    let each: Vec<(f64, f64)> = of.iter().map(|s| (s.exposed as f64 / 1e3, 1.0)).collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use capture::windows::ActivityKind;

    #[test]
    fn a_replay_is_summed_up_with_what_was_exposed_of_it() {
        let names = [
            "",
            "gemm",
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            "mscclpp_x",
        ];
        let names = Names::new(&names.map(String::from), &[]);
        let ran = |at: i64, name: u32, from: i64, to: i64| GpuActivity {
            device: 0,
            start: 100 * at + from,
            end: 100 * at + to,
            name,
            stream: if name == 1 { 7 } else { 9 },
            correlation: at as u32,
            graph: 3,
            node: 0,
            kind: ActivityKind::Kernel,
            size: 1,
        };
        // Five replays: 30 of computing, an AllReduce of which half is exposed, and a kernel of another
        // library.
        let mut all: Vec<GpuActivity> = (0..5)
            .flat_map(|n| [ran(n, 1, 0, 30), ran(n, 2, 20, 40), ran(n, 3, 40, 46)])
            .collect();
        all.sort_by_key(|r| r.start);
        let seen = super::super::window::seen(&all, &names).expect("known");
        let found = of_device(&all, &seen, &names);
        let calls = CallCounts::from([("AllReduce".to_owned(), 1), ("MSCCL++".to_owned(), 1)]);
        let sample = Sample {
            whole: 46,
            communication: 26,
            exposed: 16,
        };
        // Those at the edges are not whole.
        assert!(found.len() >= 3, "{found:?}");
        assert!(found.iter().all(|of| *of == (calls.clone(), sample)));
        // Without communication there is none.
        let computing: Vec<GpuActivity> = all.into_iter().filter(|r| r.name == 1).collect();
        assert_eq!(of_device(&computing, &seen, &names), []);
    }
}

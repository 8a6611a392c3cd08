//! What communication costs one forward pass: of a serving loop that was recorded, or by arithmetic before
//! there is one.
//!
//! [`measured`] takes replays of CUDA graphs from kernel windows, and steps, from a report: of a decode loop,
//! one replay or step is one token. [`Asked::estimate`] multiplies the calls of a model (layers × calls of a
//! layer) by the time of one call. That time was measured at this size, or a cost model predicts it. If calls
//! of this size ran in CUDA graphs, those are meant ([`in_graphs`]): a call by itself costs more.
//!
//! Rule: what a capture measured stands apart from what is computed. A share of the time to first token is
//! only given if somebody knows that time; none is guessed from calls.

use crate::models::{nearest, CostModel, Measurement};
use crate::operations::Operation;
use crate::statistics::median;
use crate::Report;
use schemars::JsonSchema;
use serde::Serialize;

/// One forward pass or replay, as it was measured: medians over ranks.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Pass {
    /// `replay` of a CUDA graph in a kernel window, or `step` of the pattern of calls.
    #[schemars(extend("enum" = ["replay", "step"]))]
    pub kind: &'static str,
    /// How many were seen, on the rank with the most; its unit is passes.
    pub seen: u64,
    /// NCCL calls in one.
    pub calls: u64,
    /// How long one takes: the time between tokens if each makes one token.
    pub time_us: f64,
    /// For how long NCCL's kernels ran.
    pub communication_us: f64,
    /// And nothing computed meanwhile; null without kernel windows.
    pub exposed_us: Option<f64>,
    /// `communication_us` as a part of `time_us`.
    pub communication_share: f64,
    /// `exposed_us` as a part of it.
    pub exposed_share: Option<f64>,
}

fn of_ranks(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    median(&values)
}

/// The passes of a capture: replays and steps, where it has them.
pub fn measured(report: &Report) -> Vec<Pass> {
    let mut passes = Vec::new();
    let replays = report.streams.iter().flat_map(|streams| &streams.replays);
    let replays: Vec<_> = replays.filter(|replay| replay.replays > 0).collect();
    let figure = |pick: fn(&&crate::streams::Replay) -> f64| of_ranks(replays.iter().map(pick));
    if let (Some(time_us), Some(communication_us), Some(exposed_us)) = (
        figure(|r| r.replay_us),
        figure(|r| r.communication_us),
        figure(|r| r.exposed_us),
    ) {
        passes.push(Pass {
            kind: "replay",
            seen: replays.iter().map(|r| r.replays).max().unwrap_or(0),
            calls: replays
                .iter()
                .map(|r| r.calls.values().sum())
                .max()
                .unwrap_or(0),
            time_us,
            communication_us,
            exposed_us: Some(exposed_us),
            communication_share: communication_us / time_us,
            exposed_share: Some(exposed_us / time_us),
        });
    }
    let steps = report.steps.as_ref();
    let of_steps = steps.and_then(|steps| {
        let time_us = steps.step_us?.p50?;
        let communication_us = steps.communication_us?.median;
        Some(Pass {
            kind: "step",
            seen: steps.steps?.max as u64,
            calls: steps.calls?.median as u64,
            time_us,
            communication_us,
            exposed_us: None,
            communication_share: communication_us / time_us,
            exposed_share: None,
        })
    });
    passes.extend(of_steps.filter(|pass| pass.time_us > 0.0));
    passes
}

/// Calls of one size in CUDA graphs, by their kernels in windows.
#[derive(Clone, Debug, PartialEq)]
pub struct InGraphs {
    /// Function, as captures name it.
    pub function: String,
    /// Bytes of a call by the convention of nccl-tests.
    pub bytes: u64,
    /// Ranks.
    pub nranks: u32,
    /// Executions that were timed.
    pub timed: u64,
    /// Mean time of one, µs: as many of them make the communication of a replay.
    pub time_us: f64,
    /// Its 95 % interval.
    pub interval_us: Option<(f64, f64)>,
}

/// What a report measured of calls in CUDA graphs.
pub fn in_graphs(operations: &[Operation]) -> Vec<InGraphs> {
    let of = operations
        .iter()
        .filter(|of| of.replays.is_some_and(|n| n > 0) && of.captured == Some(0));
    let one = |of: &Operation| {
        let sampled = of.sampled.as_ref();
        Some(InGraphs {
            function: of.function.clone()?,
            bytes: of.bytes?,
            nranks: of.nranks?,
            timed: of.timed,
            time_us: of.time_us?.mean,
            interval_us: sampled.map(|of| (of.mean_low_us, of.mean_high_us)),
        })
    };
    of.filter_map(one).collect()
}

/// What somebody asks about a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Function, as captures name it.
    pub function: String,
    /// Layers of the model.
    pub layers: u64,
    /// Calls of each layer.
    pub per_layer: u64,
    /// Bytes of a call by the convention of nccl-tests.
    pub bytes: u64,
    /// Ranks; as measured without it.
    pub nranks: Option<u32>,
    /// Time to first token, µs, if somebody knows it.
    pub ttft_us: Option<f64>,
}

/// The cost of one forward pass.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Estimate {
    /// Function, as captures name it.
    pub function: String,
    /// Bytes of a call by the convention of nccl-tests.
    pub bytes: u64,
    /// Ranks.
    pub nranks: u32,
    /// Calls of a forward pass.
    pub calls: u64,
    /// Time of one call.
    pub call_us: f64,
    /// Its 95 % interval; null for a time that was measured once.
    pub call_interval_us: Option<(f64, f64)>,
    /// `measured` at this size, or by a cost `model`.
    #[schemars(extend("enum" = ["measured", "model"]))]
    pub source: &'static str,
    /// What it rests on.
    pub basis: String,
    /// Time of all calls, one after the other: the communication of a forward pass if nothing runs beside it.
    pub communication_us: f64,
    /// Its interval.
    pub communication_interval_us: Option<(f64, f64)>,
    /// Time to first token, as it was given.
    pub ttft_us: Option<f64>,
    /// `communication_us` as a part of `ttft_us`; null if it is longer, so that other work must hide some of
    /// it.
    pub ttft_share: Option<f64>,
    /// Time of the same call in the baseline.
    pub baseline_call_us: Option<f64>,
    /// Ranks of the baseline.
    pub baseline_nranks: Option<u32>,
    /// `call_us` by `baseline_call_us`.
    pub baseline_ratio: Option<f64>,
}

/// The time of one call, its interval and basis.
struct CallTime {
    us: f64,
    interval: Option<(f64, f64)>,
    nranks: u32,
    source: &'static str,
    basis: String,
}

fn call(
    asked: &Asked,
    nranks: Option<u32>,
    measured: &[Measurement],
    in_graphs: &[InGraphs],
    models: &[CostModel],
) -> Option<CallTime> {
    let same = in_graphs.iter().filter(|of| {
        let ranks = nranks.is_none_or(|nranks| nranks == of.nranks);
        ranks && of.function == asked.function && of.bytes == asked.bytes
    });
    // Of several datatypes or communicators, what most is known of.
    if let Some(of) = same.max_by_key(|of| (of.nranks, of.timed)) {
        return Some(CallTime {
            us: of.time_us,
            interval: of.interval_us,
            nranks: of.nranks,
            source: "measured",
            basis: format!(
                "measured at this size in CUDA graphs over {} ranks",
                of.nranks
            ),
        });
    }
    let same = measured.iter().filter(|of| {
        let ranks = nranks.is_none_or(|nranks| nranks == of.of.nranks);
        ranks && of.of.function == asked.function && of.bytes == asked.bytes
    });
    // What was measured over most ranks is the job itself.
    let most = same.clone().map(|of| of.of.nranks).max();
    let mut times: Vec<f64> = same
        .filter(|of| Some(of.of.nranks) == most)
        .map(|of| of.time_us)
        .collect();
    times.sort_by(f64::total_cmp);
    if let Some((us, nranks)) = median(&times).zip(most) {
        return Some(CallTime {
            us,
            interval: None,
            nranks,
            source: "measured",
            basis: format!("measured at this size over {nranks} ranks"),
        });
    }
    let model = nearest(models, &asked.function, asked.bytes, nranks, None)?;
    Some(CallTime {
        us: model.time_us,
        interval: Some(model.interval_us),
        nranks: model.of.nranks,
        source: "model",
        basis: model.basis,
    })
}

impl Asked {
    /// The estimate; `None` if neither a measurement nor a model is of this function. Calls in CUDA graphs
    /// are those of the same capture.
    pub fn estimate(
        &self,
        measured: &[Measurement],
        in_graphs: &[InGraphs],
        models: &[CostModel],
        baseline: Option<(&[Measurement], &[CostModel])>,
    ) -> Option<Estimate> {
        let of = call(self, self.nranks, measured, in_graphs, models)?;
        let calls = self.layers.saturating_mul(self.per_layer);
        let all = calls as f64;
        let before =
            baseline.and_then(|(measured, models)| call(self, None, measured, &[], models));
        let communication_us = all * of.us;
        Some(Estimate {
            function: self.function.clone(),
            bytes: self.bytes,
            nranks: of.nranks,
            calls,
            call_us: of.us,
            call_interval_us: of.interval,
            source: of.source,
            basis: of.basis,
            communication_us,
            // The same line predicts every call, so their errors add up.
            communication_interval_us: of.interval.map(|(low, high)| (all * low, all * high)),
            ttft_us: self.ttft_us,
            ttft_share: self
                .ttft_us
                .map(|ttft| communication_us / ttft)
                .filter(|share| *share <= 1.0),
            baseline_call_us: before.as_ref().map(|b| b.us),
            baseline_nranks: before.as_ref().map(|b| b.nranks),
            baseline_ratio: before.map(|b| of.us / b.us),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{fit, Subject};

    fn measured(nranks: u32, rows: &[(u64, f64)]) -> Vec<Measurement> {
        let of = Subject {
            communicator: None,
            function: "AllReduce".to_owned(),
            algorithm: None,
            protocol: None,
            nranks,
            nnodes: None,
        };
        let row = |(bytes, time_us): &(u64, f64)| Measurement {
            of: of.clone(),
            bytes: *bytes,
            time_us: *time_us,
            nccl_us: None,
        };
        rows.iter().map(row).collect()
    }

    #[test]
    fn a_size_that_was_measured_needs_no_model() {
        let of = measured(
            8,
            &[(1 << 20, 100.0), (1 << 23, 232.02), (1 << 26, 1037.81)],
        );
        let one = measured(1, &[(1 << 23, 23.73)]);
        let models = fit(&of);
        let mut asked = Asked {
            function: "AllReduce".to_owned(),
            layers: 32,
            per_layer: 2,
            bytes: 1 << 23,
            nranks: None,
            ttft_us: Some(100_000.0),
        };
        let found = asked
            .estimate(&of, &[], &models, Some((&one, &[])))
            .expect("measured");
        assert_eq!((found.calls, found.source), (64, "measured"));
        assert!(
            (found.communication_us - 14_849.28).abs() < 0.01,
            "{found:?}"
        );
        assert!((found.ttft_share.expect("a time") - 0.1485).abs() < 1e-4);
        assert!((found.baseline_ratio.expect("a baseline") - 9.777).abs() < 0.01);
        asked.bytes = 1 << 24;
        let found = asked.estimate(&of, &[], &models, None).expect("a model");
        assert_eq!((found.source, found.baseline_ratio), ("model", None));
        assert!(found.call_us > 232.0 && found.call_us < 1038.0, "{found:?}");
        asked.function = "AlltoAll".to_owned();
        assert_eq!(asked.estimate(&of, &[], &models, None), None);
    }

    #[test]
    fn calls_in_graphs_are_those_of_a_replay() {
        let alone = measured(2, &[(1 << 14, 12.1)]);
        let in_graphs = [InGraphs {
            function: "AllReduce".to_owned(),
            bytes: 1 << 14,
            nranks: 2,
            timed: 11_040,
            time_us: 6.14,
            interval_us: Some((6.0, 6.27)),
        }];
        let mut asked = Asked {
            function: "AllReduce".to_owned(),
            layers: 12,
            per_layer: 2,
            bytes: 1 << 14,
            nranks: None,
            ttft_us: None,
        };
        let found = asked
            .estimate(&alone, &in_graphs, &[], None)
            .expect("measured");
        assert!(
            (found.communication_us - 24.0 * 6.14).abs() < 1e-9,
            "{found:?}"
        );
        assert!(found.basis.contains("in CUDA graphs"), "{found:?}");
        asked.nranks = Some(4);
        assert_eq!(asked.estimate(&alone, &in_graphs, &[], None), None);
    }
}

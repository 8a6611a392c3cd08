//! The first call of each rank on each communicator, kept apart.
//!
//! NCCL connects ranks, loads kernels and allocates buffers at first use, so a communicator's first call
//! takes as long as thousands later ones. A [`Gatherer`] keeps these calls out of the statistics and in a
//! table of their own.
//!
//! Rule: only a call that is known to be the first counts. Where calls before it are lost, none does.

use crate::executions::Execution;
use crate::statistics::{Sample, Statistics};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use tables::{Capture, Name};

/// The first calls on a communicator.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Warmup")]
pub struct WarmupRow {
    /// The communicator.
    pub communicator: Option<String>,
    /// Function, under its own name if it came in pieces.
    pub function: Option<String>,
    /// Ranks whose first call this was.
    pub calls: u64,
    /// GPU time.
    pub time_us: Option<Statistics>,
    /// Host time.
    pub host_us: Option<Statistics>,
}

/// First calls by communicator and function, under construction.
#[derive(Default)]
pub struct Gatherer {
    rows: BTreeMap<(Option<u32>, Name), (u64, Sample, Sample)>,
}

impl Gatherer {
    /// Adds an execution, which must be a first one, of `function`.
    pub fn add(&mut self, function: Name, execution: &Execution) {
        let key = (execution.shape.communicator, function);
        let (calls, gpu, host) = self.rows.entry(key).or_default();
        *calls += 1;
        if let Ok(ns) = execution.gpu {
            gpu.push(ns);
        }
        if let Some(ns) = execution.host() {
            host.push(ns);
        }
    }

    /// Takes in what another gathered.
    pub fn merge(&mut self, other: Gatherer) {
        for (key, (calls, gpu, host)) in other.rows {
            let into = self.rows.entry(key).or_default();
            into.0 += calls;
            into.1.merge(gpu);
            into.2.merge(host);
        }
    }

    /// The first calls, longest first.
    pub fn finish(self, capture: &Capture) -> Vec<WarmupRow> {
        let mut rows: Vec<WarmupRow> = self
            .rows
            .into_iter()
            .map(|((communicator, function), (calls, gpu, host))| WarmupRow {
                communicator: communicator
                    .and_then(|c| capture.communicators.get(c as usize))
                    .map(|c| c.id.clone()),
                function: capture.names.get(function).map(str::to_owned),
                calls,
                time_us: gpu.statistics(),
                host_us: host.statistics(),
            })
            .collect();
        let max = |s: &Option<Statistics>| s.and_then(|s| s.max).unwrap_or(0.0);
        rows.sort_by(|a, b| {
            max(&b.time_us)
                .total_cmp(&max(&a.time_us))
                .then(max(&b.host_us).total_cmp(&max(&a.host_us)))
        });
        rows
    }
}

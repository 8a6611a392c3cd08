//! Is that bandwidth good? Each operation's bus bandwidth as a share of ceilings that have a name.
//!
//! [`rows`] compares operations with the best of their own function in the capture. [`hold_against`] adds
//! ceilings from outside: a rate that somebody knows ([`Ceiling::Rate`]) or what a benchmark reached on the
//! same kind of machine ([`Ceiling::Bench`]). A share above 1 is possible. A rate may be that of one link of
//! several. In-switch reductions (NVLS) send less than the factor of nccl-tests says. The root of a Broadcast
//! may be done before the others have their data.
//!
//! Rule: a share always stands beside its ceiling and where that comes from. A ceiling that is not known is
//! not in the list; none is guessed from the name of a GPU.

use crate::operations::Operation;
use crate::spelling::size;
use serde::Serialize;
use std::collections::HashMap;

/// Where a ceiling comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CeilingSource {
    /// Somebody gave the rate.
    Given,
    /// What NCCL itself expects of its rings or trees: channels by the bandwidth of one.
    NcclGraph,
    /// A benchmark's table, of the same function, size and number of ranks.
    Bench,
    /// The best bus bandwidth of this function over as many ranks in this capture, at any size.
    BestHere,
}

impl CeilingSource {
    /// All of them, the one that says most first.
    pub const ALL: [CeilingSource; 4] = [
        CeilingSource::Given,
        CeilingSource::NcclGraph,
        CeilingSource::Bench,
        CeilingSource::BestHere,
    ];
}

/// A ceiling, and how much of it was reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShareOfCeiling {
    /// Where it comes from.
    pub source: CeilingSource,
    /// The same for people: the option, the file, or the operation.
    pub named: String,
    /// The ceiling, GB/s.
    pub ceiling_gb_per_s: f64,
    /// `busbw_gb_per_s` of the operation by the ceiling.
    pub share: f64,
}

/// An operation's efficiency.
#[derive(Clone, Debug, Serialize)]
pub struct EfficiencyRow {
    /// Communicator id; null when its definition is lost.
    pub communicator: Option<String>,
    /// Its ranks.
    pub nranks: Option<u32>,
    /// Function, as NCCL names it.
    pub function: String,
    /// Datatype, as NCCL names it.
    pub datatype: Option<String>,
    /// Bytes by the convention of nccl-tests.
    pub bytes: u64,
    /// Algorithm; null where NCCL does not say.
    pub algorithm: Option<String>,
    /// Protocol; null where NCCL does not say.
    pub protocol: Option<String>,
    /// Executions, one rank's part each.
    pub calls: u64,
    /// Bus bandwidth of the median operation's shortest rank; of sends and receives of the median call.
    pub busbw_gb_per_s: f64,
    /// The ceilings that are known, the one that says most first.
    pub ceilings: Vec<ShareOfCeiling>,
    /// Of the operation: what a tool that sees host calls only does not see of its GPU time.
    pub blind_share: Option<f64>,
}

impl EfficiencyRow {
    /// Whether it is of this operation.
    pub fn is_of(&self, of: &Operation) -> bool {
        Some(self.bytes) == of.bytes
            && Some(&self.function) == of.function.as_ref()
            && (&self.communicator, &self.datatype) == (&of.communicator, &of.datatype)
            && (&self.algorithm, &self.protocol) == (&of.algorithm, &of.protocol)
    }

    /// The first ceiling that is not of this capture.
    pub fn from_outside(&self) -> Option<&ShareOfCeiling> {
        let mut ceilings = self.ceilings.iter();
        ceilings.find(|ceiling| ceiling.source != CeilingSource::BestHere)
    }
}

/// What a benchmark reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Reached {
    /// Function, as captures name it.
    pub function: String,
    /// Ranks.
    pub nranks: u32,
    /// Bytes by the convention of nccl-tests.
    pub bytes: u64,
    /// Bus bandwidth, GB/s.
    pub busbw_gb_per_s: f64,
}

/// What NCCL expects of a graph that it searched.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphBandwidth {
    /// The algorithm that uses it, as captures name it.
    pub algorithm: &'static str,
    /// Ranks in it.
    pub nranks: u32,
    /// All channels together, GB/s.
    pub gb_per_s: f64,
}

/// A ceiling from outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Ceiling {
    /// A rate in GB/s, and how it was given.
    Rate(f64, String),
    /// What a benchmark reached, and its file.
    Bench(Vec<Reached>, String),
    /// What NCCL expects of its graphs, and its file.
    NcclGraphs(Vec<GraphBandwidth>, String),
}

impl Ceiling {
    /// The ceiling of an operation, if this knows one.
    fn of(&self, row: &EfficiencyRow) -> Option<(CeilingSource, f64, String)> {
        match self {
            Ceiling::Rate(rate, given) => Some((CeilingSource::Given, *rate, given.clone())),
            Ceiling::Bench(reached, file) => {
                let same = reached.iter().filter(|r| {
                    (r.function.as_str(), r.bytes, Some(r.nranks))
                        == (row.function.as_str(), row.bytes, row.nranks)
                });
                let best = same.map(|r| r.busbw_gb_per_s).reduce(f64::max)?;
                let named = format!("{file}: {} of {}", row.function, size(row.bytes));
                Some((CeilingSource::Bench, best, named))
            }
            Ceiling::NcclGraphs(graphs, file) => {
                let algorithm = row.algorithm.as_deref()?;
                let same = |graph: &&GraphBandwidth| {
                    (graph.algorithm, Some(graph.nranks)) == (algorithm, row.nranks)
                };
                let graph = graphs.iter().find(same)?;
                let named = format!("{file}: NCCL's {algorithm} graph");
                Some((CeilingSource::NcclGraph, graph.gb_per_s, named))
            }
        }
    }
}

/// The bandwidth that an operation is judged by: that of the shortest rank, because waiting for late ranks is
/// no fault of a link. Sends and receives have only the call's.
fn judged(operation: &Operation) -> Option<f64> {
    let of_call = operation.call_busbw_gb_per_s.filter(|_| operation.is_p2p());
    operation.busbw_gb_per_s.or(of_call)
}

/// The operations that have a bandwidth, in their order, each with the best of its function here.
pub fn rows(operations: &[Operation]) -> Vec<EfficiencyRow> {
    let row = |operation: &Operation| {
        Some(EfficiencyRow {
            communicator: operation.communicator.clone(),
            nranks: operation.nranks,
            function: operation.function.clone()?,
            datatype: operation.datatype.clone(),
            bytes: operation.bytes?,
            algorithm: operation.algorithm.clone(),
            protocol: operation.protocol.clone(),
            calls: operation.calls,
            busbw_gb_per_s: judged(operation)?,
            ceilings: Vec::new(),
            blind_share: operation.blind_share,
        })
    };
    let mut rows: Vec<EfficiencyRow> = operations.iter().filter_map(row).collect();
    let mut best: HashMap<(String, Option<u32>), (f64, u64)> = HashMap::new();
    for row in &rows {
        let best = best.entry((row.function.clone(), row.nranks)).or_default();
        if row.busbw_gb_per_s > best.0 {
            *best = (row.busbw_gb_per_s, row.bytes);
        }
    }
    for row in &mut rows {
        if let Some(&(rate, bytes)) = best.get(&(row.function.clone(), row.nranks)) {
            let named = format!("{} of {} in this capture", row.function, size(bytes));
            add(row, CeilingSource::BestHere, rate, named);
        }
    }
    rows
}

fn add(row: &mut EfficiencyRow, source: CeilingSource, rate: f64, named: String) {
    row.ceilings.push(ShareOfCeiling {
        source,
        named,
        ceiling_gb_per_s: rate,
        share: row.busbw_gb_per_s / rate,
    });
    row.ceilings.sort_by_key(|ceiling| ceiling.source);
}

/// Holds the operations against ceilings from outside.
pub fn hold_against(rows: &mut [EfficiencyRow], ceilings: &[Ceiling]) {
    for row in rows {
        for ceiling in ceilings {
            if let Some((source, rate, named)) = ceiling.of(row) {
                add(row, source, rate, named);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(function: &str, bytes: u64, busbw: f64) -> EfficiencyRow {
        EfficiencyRow {
            communicator: None,
            nranks: Some(4),
            function: function.to_owned(),
            datatype: None,
            bytes,
            algorithm: None,
            protocol: None,
            calls: 1,
            busbw_gb_per_s: busbw,
            ceilings: Vec::new(),
            blind_share: None,
        }
    }

    #[test]
    fn a_rate_holds_for_all_and_a_benchmark_for_what_it_measured() {
        let mut rows = [
            row("AllReduce", 1 << 20, 100.0),
            row("AllGather", 1 << 20, 50.0),
        ];
        let reached = |nranks, bytes, busbw_gb_per_s| Reached {
            function: "AllReduce".to_owned(),
            nranks,
            bytes,
            busbw_gb_per_s,
        };
        // In place and out of place: the better one counts. Other sizes and numbers of ranks say nothing.
        let table = vec![
            reached(4, 1 << 20, 150.0),
            reached(4, 1 << 20, 200.0),
            reached(8, 1 << 20, 400.0),
            reached(4, 1 << 21, 500.0),
        ];
        let ceilings = [
            Ceiling::Bench(table, "bench.json".to_owned()),
            Ceiling::Rate(400.0, "--ceiling 400GB/s".to_owned()),
        ];
        hold_against(&mut rows, &ceilings);
        let shares = |row: &EfficiencyRow| -> Vec<(CeilingSource, f64)> {
            row.ceilings.iter().map(|c| (c.source, c.share)).collect()
        };
        let (given, bench) = (CeilingSource::Given, CeilingSource::Bench);
        assert_eq!(shares(&rows[0]), [(given, 0.25), (bench, 0.5)]);
        assert_eq!(shares(&rows[1]), [(given, 0.125)]);
        assert_eq!(rows[0].ceilings[1].named, "bench.json: AllReduce of 1 MiB");
    }
}

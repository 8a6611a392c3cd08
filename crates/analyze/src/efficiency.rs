//! Is that bandwidth good? Each operation's bus bandwidth as a share of ceilings that have a name.
//!
//! [`rows`] compares operations with the best of their own function in the capture, and with NCCL's estimate
//! of each call. [`hold_against`] adds other ceilings. The capture may have what the GPUs' links carry and
//! what NCCL expects of its graphs ([`of_capture`]). The user may know a rate ([`Ceiling::Rate`]), or have a
//! benchmark of the same kind of machine ([`Ceiling::Bench`]). A share above 1 is possible. A rate may be
//! that of one link of several. In-switch reductions (NVLS) send less than the factor of nccl-tests says. The
//! root of a Broadcast may be done before the others have their data.
//!
//! Rule: a share always stands beside its ceiling and where that comes from. A ceiling that is not known is
//! not in the list; none is guessed from the name of a GPU.

use crate::operations::Operation;
use crate::topology::{gpu_of, Host};
use schemars::JsonSchema;
use serde::Serialize;
use setup::peak::{peak, Peak};
use setup::topology::GraphChoice;
use std::collections::HashMap;
use tables::Capture;

/// Where a ceiling comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CeilingSource {
    /// Somebody gave the rate.
    Given,
    /// What the links of each GPU to the others carry in one direction, by NVML or NCCL's topology file.
    Link,
    /// What NCCL itself expects of its rings or trees: channels by the bandwidth of one.
    NcclGraph,
    /// The time that NCCL itself estimates for this call by its algorithm and protocol.
    NcclEstimate,
    /// A benchmark's table, of the same function, size and number of ranks.
    Bench,
    /// The best bus bandwidth of this function over as many ranks in this capture, at any size.
    BestHere,
}

impl CeilingSource {
    /// All of them, the one that says most first.
    pub const ALL: [CeilingSource; 6] = [
        CeilingSource::Given,
        CeilingSource::Link,
        CeilingSource::NcclGraph,
        CeilingSource::NcclEstimate,
        CeilingSource::Bench,
        CeilingSource::BestHere,
    ];
}

/// What a ceiling is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// What the user typed.
    Given(String),
    /// What a function reached at a size in the file of a benchmark.
    Bench {
        /// The file.
        file: String,
        /// The function.
        function: String,
        /// Its bytes.
        bytes: u64,
    },
    /// What NCCL expects of its graph.
    Graph {
        /// The file that has it; `None` if that is of this capture.
        file: Option<String>,
        /// The algorithm that uses the graph.
        algorithm: &'static str,
    },
    /// What links carry.
    Links {
        /// The file that has them; `None` if that is of this capture.
        file: Option<String>,
        /// Which links they are: `18 NVLinks of 25 GB/s`.
        links: String,
    },
    /// What NCCL itself estimates.
    NcclEstimate,
    /// What the function reached here at its best size.
    BestHere {
        /// The function.
        function: String,
        /// The size.
        bytes: u64,
    },
}

/// A ceiling, and how much of it was reached.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareOfCeiling {
    /// Where the ceiling comes from.
    pub source: CeilingSource,
    /// What it is: the option, the file, or the operation.
    pub named: Named,
    /// The ceiling, GB/s.
    pub ceiling_gb_per_s: f64,
    /// `busbw_gb_per_s` of the operation by the ceiling.
    pub share: f64,
    /// The lowest of several measurements of the ceiling, GB/s; the ceiling itself if it is no measurement.
    pub lowest_gb_per_s: f64,
}

/// An operation's efficiency.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Efficiency")]
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
    #[serde(skip)]
    pub ceilings: Vec<ShareOfCeiling>,
    /// Of the operation: what a tool that sees host calls only does not see of its GPU time.
    #[serde(skip)]
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

    /// The first ceiling that is not the best of this capture.
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

impl GraphBandwidth {
    /// Of a graph within one node. Between nodes, a graph has a channel's part in one node only, and the
    /// bandwidth of the network is shared in ways that it does not say.
    pub fn of(graph: &GraphChoice) -> Option<GraphBandwidth> {
        let algorithm = match graph.name.as_str() {
            "ring" => "RING",
            "tree" => "TREE",
            "nvls" => "NVLS",
            _ => return None,
        };
        let first = graph.channels.first()?;
        let in_node = first.iter().all(|device| device.starts_with("GPU"));
        let gb_per_s = graph.gb_per_s? * graph.channels.len() as f64;
        (in_node && gb_per_s > 0.0).then_some(GraphBandwidth {
            algorithm,
            nranks: u32::try_from(first.len()).ok()?,
            gb_per_s,
        })
    }
}

/// A ceiling of one communicator.
#[derive(Clone, Debug, PartialEq)]
pub struct OfCommunicator {
    /// Its id.
    pub communicator: String,
    /// Where the ceiling comes from.
    pub source: CeilingSource,
    /// Only of this algorithm.
    pub algorithm: Option<&'static str>,
    /// GB/s.
    pub gb_per_s: f64,
    /// What it is.
    pub named: Named,
}

/// A ceiling for operations.
#[derive(Clone, Debug, PartialEq)]
pub enum Ceiling {
    /// A rate in GB/s, and how it was given.
    Rate(f64, String),
    /// What a benchmark reached, and its file.
    Bench(Vec<Reached>, String),
    /// What NCCL expects of its graphs, and its file.
    NcclGraphs(Vec<GraphBandwidth>, String),
    /// What the links between so many GPUs carry, and the file that says so.
    Links(u32, Peak, String),
    /// What the capture knows of one communicator.
    Here(OfCommunicator),
}

impl Ceiling {
    /// The ceiling of an operation, if this knows one: also its lowest measurement.
    fn of(&self, row: &EfficiencyRow) -> Option<(CeilingSource, [f64; 2], Named)> {
        let once = |source, rate, named| Some((source, [rate; 2], named));
        match self {
            Ceiling::Rate(rate, given) => {
                once(CeilingSource::Given, *rate, Named::Given(given.clone()))
            }
            Ceiling::Bench(reached, file) => {
                let same = reached.iter().filter(|r| {
                    (r.function.as_str(), r.bytes, Some(r.nranks))
                        == (row.function.as_str(), row.bytes, row.nranks)
                });
                let rates: Vec<f64> = same.map(|r| r.busbw_gb_per_s).collect();
                let best = rates.iter().copied().reduce(f64::max)?;
                let lowest = rates.iter().copied().fold(best, f64::min);
                let named = Named::Bench {
                    file: file.clone(),
                    function: row.function.clone(),
                    bytes: row.bytes,
                };
                Some((CeilingSource::Bench, [best, lowest], named))
            }
            Ceiling::NcclGraphs(graphs, file) => {
                let algorithm = row.algorithm.as_deref()?;
                let same = |graph: &&GraphBandwidth| {
                    (graph.algorithm, Some(graph.nranks)) == (algorithm, row.nranks)
                };
                let graph = graphs.iter().find(same)?;
                let named = Named::Graph {
                    file: Some(file.clone()),
                    algorithm: graph.algorithm,
                };
                once(CeilingSource::NcclGraph, graph.gb_per_s, named)
            }
            Ceiling::Links(nranks, peak, file) => {
                let named = Named::Links {
                    file: Some(file.clone()),
                    links: peak.named.clone(),
                };
                let found = once(CeilingSource::Link, peak.gb_per_s, named);
                found.filter(|_| row.nranks == Some(*nranks))
            }
            Ceiling::Here(of) => {
                let algorithm = of.algorithm.is_none() || of.algorithm == row.algorithm.as_deref();
                let same = row.communicator.as_ref() == Some(&of.communicator) && algorithm;
                let found = || once(of.source, of.gb_per_s, of.named.clone());
                same.then(found).flatten()
            }
        }
    }
}

/// How much shorter than the mean of the ranks the shortest may be, if data flows one way.
const APART: f64 = 1.25;

/// The bandwidth that an operation is judged by: that of the shortest rank, because waiting for late ranks is
/// no fault of a link. Sends and receives have only the call's.
///
/// In a Broadcast or a Reduce data flows one way. A rank that comes first sends into NCCL's buffers (4 MiB a
/// channel) before another one comes, and the shortest time is then less than the transfer. On 2 H100, a
/// Broadcast of 192 MiB came to 581 GB/s over links of 450. So if ranks differ much, nothing is judged.
fn judged(operation: &Operation) -> Option<f64> {
    let of_call = operation.call_busbw_gb_per_s;
    let one_way = matches!(operation.function.as_deref(), Some("Broadcast" | "Reduce"));
    let alike = |busbw: &f64| of_call.is_none_or(|of_call| *busbw <= APART * of_call);
    match operation.busbw_gb_per_s {
        None => of_call.filter(|_| operation.is_p2p()),
        busbw => busbw.filter(|busbw| !one_way || alike(busbw)),
    }
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
        .map(|row| with_estimate(row, operation))
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
            let named = Named::BestHere {
                function: row.function.clone(),
                bytes,
            };
            add(row, CeilingSource::BestHere, [rate; 2], named);
        }
    }
    rows
}

/// Adds what NCCL itself estimates for the call.
fn with_estimate(mut row: EfficiencyRow, operation: &Operation) -> EfficiencyRow {
    let took = operation.shortest_us.and_then(|us| us.p50);
    if let Some((us, took)) = operation.nccl_us.filter(|us| *us > 0.0).zip(took) {
        let rate = row.busbw_gb_per_s * took / us;
        let source = CeilingSource::NcclEstimate;
        add(&mut row, source, [rate; 2], Named::NcclEstimate);
    }
    row
}

fn add(row: &mut EfficiencyRow, source: CeilingSource, rates: [f64; 2], named: Named) {
    let [rate, lowest] = rates;
    // The last that was said of a file or of the capture, but every rate.
    if matches!(source, CeilingSource::Link | CeilingSource::NcclGraph) {
        row.ceilings.retain(|ceiling| ceiling.source != source);
    }
    row.ceilings.push(ShareOfCeiling {
        source,
        named,
        ceiling_gb_per_s: rate,
        share: row.busbw_gb_per_s / rate,
        lowest_gb_per_s: lowest,
    });
    row.ceilings.sort_by_key(|ceiling| ceiling.source);
}

/// The ceilings that the capture knows. They are the links between the GPUs of each communicator within one
/// node, and NCCL's graphs with as many ranks on that node.
pub fn of_capture(capture: &Capture, hosts: &[Host]) -> Vec<Ceiling> {
    let mut found = Vec::new();
    for communicator in &capture.communicators {
        let processes = communicator.members.iter();
        let mut names = processes.filter_map(|m| Some(&capture.processes.get(m.process)?.host));
        let whole = communicator
            .nranks
            .is_some_and(|n| n > 1 && n as usize == communicator.members.len());
        let first = names.next();
        let host = first.filter(|first| whole && names.all(|name| name == *first));
        let Some(host) = host.and_then(|name| hosts.iter().find(|host| host.host == *name)) else {
            continue;
        };
        let topology = &host.topology;
        let gpu = |member: &tables::communicators::Member| {
            let process = capture.processes.get(member.process)?;
            gpu_of(capture, process, member.uid, topology)
        };
        let gpus: Option<Vec<usize>> = communicator.members.iter().map(gpu).collect();
        // NCCL's file does not name GPUs as the job does, but has only those of the communicator.
        let all: Vec<usize> = (0..topology.devices.len())
            .filter(|at| topology.devices[*at].is_gpu())
            .collect();
        let gpus = gpus.or_else(|| (all.len() == communicator.members.len()).then_some(all));
        let ceiling = |source, algorithm, gb_per_s, named| {
            Ceiling::Here(OfCommunicator {
                communicator: communicator.id.clone(),
                source,
                algorithm,
                gb_per_s,
                named,
            })
        };
        if let Some(peak) = gpus.and_then(|gpus| peak(topology, &gpus)) {
            let named = Named::Links {
                file: None,
                links: peak.named,
            };
            found.push(ceiling(CeilingSource::Link, None, peak.gb_per_s, named));
        }
        let graphs = host.graphs.iter().filter_map(GraphBandwidth::of);
        for graph in graphs.filter(|graph| Some(graph.nranks) == communicator.nranks) {
            let named = Named::Graph {
                file: None,
                algorithm: graph.algorithm,
            };
            let algorithm = Some(graph.algorithm);
            found.push(ceiling(
                CeilingSource::NcclGraph,
                algorithm,
                graph.gb_per_s,
                named,
            ));
        }
    }
    found
}

/// Holds the operations against other ceilings. What was given replaces what the capture says.
pub fn hold_against(rows: &mut [EfficiencyRow], ceilings: &[Ceiling]) {
    for row in rows {
        for ceiling in ceilings {
            if let Some((source, rates, named)) = ceiling.of(row) {
                add(row, source, rates, named);
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
        let named = Named::Bench {
            file: "bench.json".to_owned(),
            function: "AllReduce".to_owned(),
            bytes: 1 << 20,
        };
        assert_eq!(rows[0].ceilings[1].named, named);
    }

    /// Two ranks on GPUs of a host with four, of which these are joined by NVLinks, and NCCL's ring.
    fn capture() -> (Capture, Vec<Host>) {
        use tables::communicators::Local;
        use tables::{Node, Process};
        let mut capture = Capture::default();
        let uuid = |n: usize| format!("{n:032x}");
        let facts = (0..4).flat_map(|n| {
            [
                (format!("gpu.{n}"), format!("GPU-{} H200", uuid(n))),
                (format!("device.{n}"), format!("GPU{n}")),
                (
                    format!("links.{n}"),
                    [
                        "X NV18 SYS SYS",
                        "NV18 X SYS SYS",
                        "SYS SYS X SYS",
                        "SYS SYS SYS X",
                    ][n]
                        .to_owned(),
                ),
                (format!("nvlinks.{n}"), "18 26562".to_owned()),
                (format!("pcie.{n}"), "4 8".to_owned()),
            ]
        });
        capture.nodes.push(Node {
            host: "n1".to_owned(),
            facts: facts.collect(),
            ..Node::default()
        });
        for rank in 0..4 {
            capture.processes.push(Process {
                host: "n1".to_owned(),
                communicators: vec![Local {
                    gpu: Some(uuid(rank)),
                    ..Local::default()
                }],
                ..Process::default()
            });
        }
        let members: [&[usize]; 3] = [&[0, 1], &[2, 3], &[1, 2]];
        for (index, members) in members.iter().enumerate() {
            let mut of = crate::fixtures::communicator(index, members);
            of.members.iter_mut().for_each(|member| member.uid = 0);
            capture.communicators.push(of);
        }
        let mut hosts = crate::topology::topologies(&capture);
        hosts[0].graphs.push(GraphChoice {
            name: "ring".to_owned(),
            gb_per_s: Some(20.0),
            links: None,
            channels: vec![vec!["GPU0".to_owned(), "GPU1".to_owned()]; 12],
        });
        (capture, hosts)
    }

    #[test]
    fn a_capture_knows_the_links_of_each_communicator_and_nccl_s_graph() {
        let (mut capture, hosts) = capture();
        let known = |capture: &Capture| -> Vec<(CeilingSource, String, f64)> {
            let ceilings = of_capture(capture, &hosts);
            let of = |ceiling: Ceiling| match ceiling {
                Ceiling::Here(of) => (of.source, of.communicator, of.gb_per_s),
                other => panic!("{other:?}"),
            };
            ceilings.into_iter().map(of).collect()
        };
        let ids: Vec<String> = capture.communicators.iter().map(|c| c.id.clone()).collect();
        let (link, graph) = (CeilingSource::Link, CeilingSource::NcclGraph);
        let (pcie, id) = (16.0 * 128.0 / 130.0, |at: usize| ids[at].clone());
        assert_eq!(
            known(&capture),
            [
                (link, id(0), 450.0),
                (graph, id(0), 240.0),
                (link, id(1), pcie),
                (graph, id(1), 240.0),
                (link, id(2), pcie),
                (graph, id(2), 240.0),
            ]
        );
        // Of ranks on two hosts, and of a rank that is not here, nothing is known.
        capture.processes[1].host = "n2".to_owned();
        capture.communicators[1].nranks = Some(3);
        assert!(known(&capture).is_empty());
    }
}

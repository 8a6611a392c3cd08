//! CUDA graphs with NCCL calls: what a launch executes, how often and how fast each was launched, and what
//! was not seen.
//!
//! A [`Gatherer`] takes the graphs of one process after another. Graphs of the same calls (by communicator,
//! function, datatype and bytes, in the same order) are one [`GraphRow`] on all ranks. A decode loop has one
//! such row, and a serving engine has one for each batch size. [`GraphsSeen`] is the account for
//! completeness.
//!
//! Rule: a launch executes each captured call of its graph once. NCCL shows some of these executions as calls
//! with rows of their own (with stamps, or over a network); they are not counted twice.

use crate::statistics::{spread, Spread};
use crate::time::{HostTime, Nanos};
use capture::live::flag;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tables::graphs::{Content, Unseen};
use tables::{Capture, Process, Shape};

/// Graphs of the same calls.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GraphRow {
    /// Calls of one launch on one rank, in the order of capture: consecutive calls that are alike are one
    /// entry.
    pub calls: Vec<CallsInGraph>,
    /// NCCL calls of one launch.
    pub calls_per_launch: u64,
    /// Bytes of the calls of one launch, by the convention of nccl-tests; null if some size is not known,
    /// which needs the number of ranks.
    pub bytes_per_launch: Option<u64>,
    /// Ranks that launched it.
    pub nranks: u64,
    /// Executable graphs, over ranks: more than ranks if a rank made it again.
    pub executables: u64,
    /// Launches over ranks.
    pub launches: u64,
    /// Launches of a rank.
    pub launches_of_a_rank: Option<Spread>,
    /// Launches a second, between the first and the last of a rank.
    pub launches_per_second: Option<Spread>,
    /// How long the launch call took on the host, mean of a rank, µs.
    pub launch_call_us: Option<Spread>,
    /// Different streams that a rank launched on, at most.
    pub streams: u64,
    /// Whether what ran is launches times calls; not so if the GPU decides how often a part runs.
    pub countable: bool,
}

/// Consecutive calls of a graph that are alike.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CallsInGraph {
    /// Communicator id; null when its definition is lost.
    pub communicator: Option<String>,
    /// Function, as NCCL names it.
    pub function: Option<String>,
    /// Datatype, as NCCL names it.
    pub datatype: Option<String>,
    /// Bytes by the convention of nccl-tests.
    pub bytes: Option<u64>,
    /// How many.
    pub calls: u64,
}

/// What of graphs was counted, and why anything was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphsSeen {
    /// Launches of graphs with NCCL calls.
    pub launches: u64,
    /// Calls that these executed.
    pub executions: u64,
    /// Why executions are missing, with the number that the cause counts.
    pub unseen: BTreeMap<&'static str, u64>,
}

/// The word for a cause in reports.
fn word(unseen: Unseen) -> (&'static str, u64) {
    match unseen {
        Unseen::NotWatched => ("graphs_not_watched", 1),
        Unseen::NeverLaunched(n) => ("graphs_never_launched", n),
        Unseen::MoreInWindows(n) => ("graphs_more_in_windows", n),
        Unseen::FoundLate => ("graphs_found_late", 1),
        Unseen::Unplaced(n) => ("graphs_unplaced", n),
        Unseen::Full(n) => ("graphs_full", n),
        Unseen::Uncountable(n) => ("graphs_uncountable", n),
        Unseen::Lost(n) => ("graphs_lost", n),
        Unseen::NoEvidence => ("graphs_no_evidence", 1),
    }
}

/// Other ranks executed more calls of the same communicators.
pub const MORE_ON_OTHERS: &str = "graphs_more_on_others";

/// The causes of executions that were not counted.
pub const UNSEEN: [&str; 10] = [
    "graphs_not_watched",
    "graphs_never_launched",
    "graphs_more_in_windows",
    MORE_ON_OTHERS,
    "graphs_found_late",
    "graphs_unplaced",
    "graphs_full",
    "graphs_uncountable",
    "graphs_lost",
    "graphs_no_evidence",
];

/// What is alike in the calls of a process: uid, function, datatype, count.
type Alike = (u32, tables::Name, tables::Name, u64);

fn alike(shape: &Shape) -> Alike {
    (shape.uid, shape.function, shape.datatype, shape.count)
}

/// Executions with rows of their own, while a process is walked.
#[derive(Default)]
pub struct Shown(HashMap<Alike, u64>);

impl Shown {
    /// NCCL showed the execution of a captured call.
    pub fn add(&mut self, shape: &Shape) {
        *self.0.entry(alike(shape)).or_default() += 1;
    }
}

/// Calls that ran in graphs and have no rows: index of a shape and how many. Those that NCCL showed are taken
/// off.
pub fn without_rows(process: &Process, mut shown: Shown) -> Vec<(u32, u64)> {
    let executions = process.graphs.executions();
    let without = executions.into_iter().map(|(index, calls)| {
        let shape = &process.shapes[index as usize];
        let shown = shown.0.entry(alike(shape)).or_default();
        let taken = calls.min(*shown);
        *shown -= taken;
        (index, calls - taken)
    });
    without.filter(|(_, calls)| *calls != 0).collect()
}

/// What of a process's graphs was counted.
pub fn seen(process: &Process) -> GraphsSeen {
    let graphs = &process.graphs;
    let sum = |sum: u64, n: u64| sum.saturating_add(n);
    let unseen = if nccl_shows_all(process) {
        BTreeMap::new()
    } else {
        graphs.unseen.iter().map(|unseen| word(*unseen)).collect()
    };
    GraphsSeen {
        launches: graphs.launched(),
        executions: graphs.executions().into_values().fold(0, sum),
        unseen,
    }
}

/// Whether NCCL announces each execution of each captured call.
pub(crate) fn nccl_shows_all(process: &Process) -> bool {
    let mut captured = process.shapes.iter().filter(|s| s.is(flag::CAPTURED));
    captured.all(|shape| nccl_shows(process, shape))
}

/// Whether NCCL announces each execution of a captured call: if it delivers stamps, or if its proxy works for
/// the call and network operations are recorded.
fn nccl_shows(process: &Process, shape: &Shape) -> bool {
    let mask = process.fact("mask").unwrap_or("0");
    let mask = u64::from_str_radix(mask.trim_start_matches("0x"), 16).unwrap_or(0);
    let local = process.communicator(shape.uid);
    let over_network = local.is_some_and(|c| c.nnodes > 1);
    mask & KERNEL_CH != 0 || over_network && mask & (PROXY_OP | PROXY_STEP) != 0
}

// Bits of the event mask that make NCCL announce replays.
const PROXY_OP: u64 = 0x8;
const PROXY_STEP: u64 = 0x10;
const KERNEL_CH: u64 = 0x40;

/// What distinguishes a row: communicator, function, datatype, bytes and calls, run by run.
type Key = Vec<(Option<u32>, tables::Name, tables::Name, Option<u64>, u32)>;

/// One process's part in a row.
#[derive(Default)]
struct ProcessPart {
    executables: u64,
    launches: u64,
    first: Option<i64>,
    last: Option<i64>,
    timed: u64,
    took: u64,
    streams: BTreeSet<u64>,
}

/// The table under construction.
#[derive(Default)]
pub struct Gatherer {
    rows: BTreeMap<(Key, bool), Vec<ProcessPart>>,
}

impl Gatherer {
    /// Adds the graphs of a process.
    pub fn add(&mut self, capture: &Capture, process: &Process) {
        let graphs = &process.graphs;
        let mut parts: BTreeMap<usize, ProcessPart> = BTreeMap::new();
        let mut of_graph: HashMap<u32, usize> = HashMap::new();
        for graph in &graphs.executables {
            let Some(content) = graph.content else {
                continue;
            };
            of_graph.insert(graph.number, content);
            let part = parts.entry(content).or_default();
            part.executables += 1;
            part.launches = part.launches.saturating_add(graph.launches);
            part.last = part.last.max(graph.newest);
        }
        for gone in &graphs.folded {
            if let Some(content) = gone.content {
                let part = parts.entry(content).or_default();
                part.executables = part.executables.saturating_add(gone.graphs);
                part.launches = part.launches.saturating_add(gone.launches);
            }
        }
        for launch in &graphs.launches {
            let Some(part) = of_graph.get(&launch.graph).and_then(|c| parts.get_mut(c)) else {
                continue;
            };
            part.first = part
                .first
                .map_or(Some(launch.at), |at| Some(at.min(launch.at)));
            part.last = part.last.max(Some(launch.at));
            part.timed += 1;
            part.took = part.took.saturating_add(launch.took);
            part.streams.insert(launch.stream);
        }
        for (content, part) in parts {
            let content = &graphs.contents[content];
            let key = (key(capture, process, content), content.countable);
            self.rows.entry(key).or_default().push(part);
        }
    }

    /// Takes in what was gathered from other processes.
    pub fn merge(&mut self, later: Gatherer) {
        for (key, parts) in later.rows {
            self.rows.entry(key).or_default().extend(parts);
        }
    }

    /// The rows, most calls executed first.
    pub fn finish(self, capture: &Capture) -> Vec<GraphRow> {
        let mut rows: Vec<GraphRow> = self
            .rows
            .into_iter()
            .map(|((key, countable), parts)| row(capture, &key, countable, &parts))
            .collect();
        // Stable, so rows that executed as much stay in the order of their keys.
        rows.sort_by_key(|row| {
            std::cmp::Reverse(row.launches.saturating_mul(row.calls_per_launch))
        });
        rows
    }
}

fn key(capture: &Capture, process: &Process, content: &Content) -> Key {
    let runs = content.runs.iter().filter_map(|(shape, calls)| {
        let index = *process.graphs.shapes.get(*shape as usize)?;
        let shape = &process.shapes[index as usize];
        let bytes = capture.bytes_as(shape, shape.function);
        Some((
            shape.communicator,
            shape.function,
            shape.datatype,
            bytes,
            *calls,
        ))
    });
    let mut key: Key = Vec::new();
    for run in runs {
        match key.last_mut() {
            // Shapes may differ in what is not shown, such as the root.
            Some(last) if (last.0, last.1, last.2, last.3) == (run.0, run.1, run.2, run.3) => {
                last.4 = last.4.saturating_add(run.4);
            }
            _ => key.push(run),
        }
    }
    key
}

fn row(capture: &Capture, key: &Key, countable: bool, parts: &[ProcessPart]) -> GraphRow {
    let name = |name: tables::Name| capture.names.get(name).map(str::to_owned);
    let calls = key
        .iter()
        .map(|(communicator, function, datatype, bytes, calls)| {
            let communicator = communicator.and_then(|c| capture.communicators.get(c as usize));
            CallsInGraph {
                communicator: communicator.map(|c| c.id.clone()),
                function: name(*function),
                datatype: name(*datatype),
                bytes: *bytes,
                calls: (*calls).into(),
            }
        });
    let calls: Vec<CallsInGraph> = calls.collect();
    let mut bytes = calls.iter().map(|c| c.bytes?.checked_mul(c.calls));
    let launched: Vec<&ProcessPart> = parts.iter().filter(|part| part.launches != 0).collect();
    let rate = |part: &ProcessPart| {
        let span = HostTime(part.last?) - HostTime(part.first?);
        // The first launch begins the span, and is not in it.
        let within = part.timed.checked_sub(1).filter(|n| *n != 0)?;
        (span > Nanos::ZERO).then(|| within as f64 / span.seconds())
    };
    let call = |part: &ProcessPart| {
        let mean = Nanos::from(part.took) / part.timed as f64;
        (part.timed != 0).then(|| mean.us())
    };
    let of = |figure: &dyn Fn(&ProcessPart) -> Option<f64>| {
        let values: Vec<_> = launched.iter().map(|part| figure(part)).collect();
        spread(&values)
    };
    GraphRow {
        calls_per_launch: calls.iter().map(|c| c.calls).sum(),
        bytes_per_launch: bytes.try_fold(0u64, |sum, n| sum.checked_add(n?)),
        calls,
        nranks: launched.len() as u64,
        executables: parts
            .iter()
            .map(|p| p.executables)
            .fold(0, u64::saturating_add),
        launches: parts
            .iter()
            .map(|p| p.launches)
            .fold(0, u64::saturating_add),
        launches_of_a_rank: of(&|p| Some(p.launches as f64)),
        launches_per_second: of(&rate),
        launch_call_us: of(&call),
        streams: parts
            .iter()
            .map(|p| p.streams.len() as u64)
            .max()
            .unwrap_or(0),
        countable,
    }
}

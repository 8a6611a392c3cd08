//! Kernels by name over all GPUs, and of each of them.

use super::by_name::OfName;
use super::kinds::{self, Does};
use super::lane::Lane;
use crate::subject::ProcessId;
use crate::time::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Kernels by name in the report.
const MOST: usize = 200;
/// The same by GPU, over all of them.
const MOST_OF_RANKS: usize = 2000;

/// NCCL's kernels of a function.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FunctionStreams {
    /// The function.
    pub function: String,
    /// Kernels in windows.
    pub kernels: u64,
    /// Their time, µs.
    pub sum_us: f64,
    /// Of that: nothing computed beside them.
    pub exposed_us: f64,
    /// Of that: other kernels computed beside them.
    pub hidden_us: f64,
}

/// Kernels of a name, or copies or fills.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct KernelRow {
    /// The kernel's name, demangled; copies and fills are together.
    pub name: String,
    /// `computing`, `communication`, `copy` or `fill`.
    #[schemars(extend("enum" = ["computing", "communication", "copy", "fill"]))]
    pub kind: &'static str,
    /// How many ran in windows.
    pub kernels: u64,
    /// Their time, µs.
    pub sum_us: f64,
    /// Their time by the time that windows show, 0 to 1 for a kernel that runs alone.
    pub share: f64,
    /// Of their time: communication ran beside them.
    pub beside_us: f64,
}

/// Kernels of a name, or copies or fills, of one GPU.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct KernelOfRank {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// CUDA device ordinal.
    pub device: u32,
    /// What ran; its share is of the windows of this GPU.
    #[serde(flatten)]
    pub kernel: KernelRow,
}

/// What a GPU ran: name, kind, and what of it.
fn named(lane: &Lane) -> impl Iterator<Item = (&str, &'static str, OfName)> {
    let names = lane.windows.first().map(|window| &*window.names);
    let kernels = (0..).zip(&lane.by_name.kernels);
    let kernels = names.into_iter().flat_map(move |names| {
        kernels.clone().map(|(id, of)| {
            let kind = match names.does(id) {
                Does::Computes => "computing",
                _ => "communication",
            };
            (names.name(id), kind, *of)
        })
    });
    let copies = [
        ("copies", "copy", lane.by_name.copies),
        ("fills", "fill", lane.by_name.fills),
    ];
    kernels.chain(copies).filter(|(.., of)| of.kernels > 0)
}

/// All names.
pub fn names(lanes: &[Lane]) -> BTreeSet<String> {
    let named = lanes.iter().flat_map(named);
    let kernels = named.filter(|(_, kind, _)| matches!(*kind, "computing" | "communication"));
    kernels.map(|(name, ..)| name.to_owned()).collect()
}

/// What a GPU computed: name, how many, and how long they took.
pub fn computing(lane: &Lane) -> impl Iterator<Item = (&str, u64, Nanos)> {
    named(lane)
        .filter(|(_, kind, _)| *kind != "communication")
        .map(|(name, _, of)| (name, of.kernels, of.time))
}

/// What ran of a name, in windows of this length.
fn row(name: &str, kind: &'static str, of: &OfName, length: Nanos) -> KernelRow {
    KernelRow {
        name: name.to_owned(),
        kind,
        kernels: of.kernels,
        sum_us: of.time.us(),
        share: of.time / length,
        beside_us: of.beside.us(),
    }
}

/// By name over all GPUs, largest time first.
pub fn rows(lanes: &[Lane]) -> Vec<KernelRow> {
    let mut all: BTreeMap<(&str, &'static str), OfName> = BTreeMap::new();
    for (name, kind, of) in lanes.iter().flat_map(named) {
        all.entry((name, kind)).or_default().add(&of);
    }
    let length = lanes.iter().map(Lane::seen).sum::<Nanos>();
    let length = length.max(Nanos(1.0));
    let mut rows: Vec<KernelRow> = all
        .into_iter()
        .map(|((name, kind), of)| row(name, kind, &of, length))
        .collect();
    rows.sort_by(|a, b| {
        b.sum_us
            .total_cmp(&a.sum_us)
            .then_with(|| a.name.cmp(&b.name))
    });
    rows.truncate(MOST);
    rows
}

/// The same by GPU: in the order of these rows, as many of them as there is room for.
pub fn of_ranks(lanes: &[Lane], rows: &[KernelRow]) -> Vec<KernelOfRank> {
    let most = MOST_OF_RANKS / lanes.len().max(1);
    let order = rows.iter().take(most).enumerate();
    let order: HashMap<(&str, &str), usize> = order
        .map(|(at, row)| ((row.name.as_str(), row.kind), at))
        .collect();
    let mut found = Vec::new();
    for lane in lanes {
        let length = lane.seen().max(Nanos(1.0));
        for (name, kind, of) in named(lane) {
            let Some(at) = order.get(&(name, kind)) else {
                continue;
            };
            found.push((
                *at,
                KernelOfRank {
                    process: lane.process.clone(),

                    device: lane.device,
                    kernel: row(name, kind, &of, length),
                },
            ));
        }
    }
    // GPUs stay in their order.
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, row)| row).collect()
}

/// NCCL's kernels by function, largest time first.
pub fn communication(lanes: &[Lane]) -> Vec<FunctionStreams> {
    let mut functions: BTreeMap<&str, OfName> = BTreeMap::new();
    for (name, _, of) in lanes.iter().flat_map(named) {
        if kinds::does(name, &[]) == Does::Nccl {
            functions.entry(kinds::function(name)).or_default().add(&of);
        }
    }
    let functions = functions.into_iter();
    let mut rows: Vec<FunctionStreams> = functions
        .map(|(function, of)| FunctionStreams {
            function: function.to_owned(),
            kernels: of.kernels,
            sum_us: of.time.us(),
            exposed_us: (of.time - of.hidden).us(),
            hidden_us: of.hidden.us(),
        })
        .collect();
    rows.sort_by(|a, b| {
        let by_time = b.sum_us.total_cmp(&a.sum_us);
        by_time.then_with(|| a.function.cmp(&b.function))
    });
    rows
}

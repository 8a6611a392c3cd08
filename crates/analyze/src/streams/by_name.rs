//! Kernels by name: how many ran, for how long, and how much of that beside communication.
//!
//! [`ByName`] sums up what ran on one GPU. [`rows`] puts GPUs together, and [`of_ranks`] has each of them by
//! itself.
//!
//! Rule: only what ran in whole cycles counts, so a share is one of the time of steps.

use super::kinds::{self, Does, Names};
use super::window::Seen;
use super::{FunctionStreams, KernelOfRank, KernelRow, Lane};
use capture::windows::ActivityKind;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tables::windows::GpuActivity;

/// Kernels by name in the report.
const MOST: usize = 200;
/// The same by GPU, over all of them.
const MOST_OF_RANKS: usize = 2000;

/// Kernels of a name in all windows, ns.
#[derive(Clone, Copy, Default)]
struct OfName {
    kernels: u64,
    ns: i64,
    /// Communication ran beside them.
    beside: i64,
    /// Other kernels computed beside them.
    hidden: i64,
}

impl OfName {
    fn add(&mut self, of: &OfName) {
        self.kernels += of.kernels;
        self.ns += of.ns;
        self.beside += of.beside;
        self.hidden += of.hidden;
    }
}

/// What ran on a GPU.
#[derive(Default)]
pub struct ByName {
    /// By the id of the kernel's name.
    kernels: Vec<OfName>,
    copies: OfName,
    fills: OfName,
}

impl ByName {
    /// Adds what ran in a window.
    pub fn add(&mut self, ran: &[GpuActivity], seen: &Seen, names: &Names) {
        self.kernels.resize(names.len(), OfName::default());
        let span = seen.span;
        for r in ran {
            let time = (r.start.max(span.0), r.end.min(span.1));
            if time.0 >= time.1 {
                continue;
            }
            let is_nccl = r.kind == ActivityKind::Kernel && names.does(r.name) == Does::Nccl;
            let (beside, hidden) = if is_nccl {
                (0, seen.computes.covers(time))
            } else {
                (seen.communicates().covers(time), 0)
            };
            let of = match r.kind {
                ActivityKind::Kernel => self.kernels.get_mut(r.name as usize),
                ActivityKind::Copy => Some(&mut self.copies),
                ActivityKind::Fill => Some(&mut self.fills),
            };
            let Some(of) = of else { continue };
            of.add(&OfName {
                kernels: 1,
                ns: time.1 - time.0,
                beside,
                hidden,
            });
        }
    }
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

/// What a GPU computed: name, how many, and how long they took, ns.
pub fn computing(lane: &Lane) -> impl Iterator<Item = (&str, u64, i64)> {
    named(lane)
        .filter(|(_, kind, _)| *kind != "communication")
        .map(|(name, _, of)| (name, of.kernels, of.ns))
}

fn us(ns: i64) -> f64 {
    ns as f64 / 1e3
}

/// By name over all GPUs, largest time first.
pub fn rows(lanes: &[Lane]) -> Vec<KernelRow> {
    let mut all: BTreeMap<(&str, &'static str), OfName> = BTreeMap::new();
    for (name, kind, of) in lanes.iter().flat_map(named) {
        all.entry((name, kind)).or_default().add(&of);
    }
    let length: i64 = lanes.iter().map(Lane::seen_ns).sum();
    let mut rows: Vec<KernelRow> = all
        .into_iter()
        .map(|((name, kind), of)| KernelRow {
            name: name.to_owned(),
            kind,
            kernels: of.kernels,
            sum_us: us(of.ns),
            share: of.ns as f64 / length.max(1) as f64,
            beside_us: us(of.beside),
        })
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
        let length = lane.seen_ns().max(1) as f64;
        for (name, kind, of) in named(lane) {
            let Some(at) = order.get(&(name, kind)) else {
                continue;
            };
            found.push((
                *at,
                KernelOfRank {
                    process: lane.process.clone(),

                    device: lane.device,
                    name: name.to_owned(),
                    kind,
                    kernels: of.kernels,
                    sum_us: us(of.ns),
                    share: of.ns as f64 / length,
                    beside_us: us(of.beside),
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
            sum_us: us(of.ns),
            exposed_us: us(of.ns - of.hidden),
            hidden_us: us(of.hidden),
        })
        .collect();
    rows.sort_by(|a, b| {
        let by_time = b.sum_us.total_cmp(&a.sum_us);
        by_time.then_with(|| a.function.cmp(&b.function))
    });
    rows
}

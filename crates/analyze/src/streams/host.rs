//! How much faster a GPU's host could have been.
//!
//! If the rank that the others wait for were in time, a step could still take no less than any host needs for
//! it. A host that is ahead of its GPU shows how much less that is: the driver makes it wait, in launches
//! because its queue is full, or because the program asked to wait. A host that never waits is what limits
//! its rank, whatever its GPU waits for.
//!
//! Rule: this is known only for windows in which all launches were seen.

use super::intervals::Union;
use super::kinds::{Does, Names};
use capture::windows::{Ask, Kind};
use std::collections::BTreeMap;
use tables::windows::Window;

/// A call of the driver that takes so many times as long as the quick ones of its kind has waited.
const WAITED: i64 = 4;
/// The same of a graph's launch, which takes about as long each time.
const WAITED_OF_GRAPH: i64 = 2;
/// Quick ones: of so many, one is quicker.
const QUICK: usize = 10;
/// No launch, copy, record or wait needs its host for longer, ns.
const LONGEST: i64 = 20_000;
/// A graph of thousands of nodes neither, ns.
const LONGEST_OF_GRAPH: i64 = 50_000;

/// A window is cut into so many pieces.
const PIECES: i64 = 4;

/// For how long the host waited for the GPU in each piece of a window, and how long the piece was, ns; none
/// where that is not known.
pub fn waited(window: &Window, names: &Names) -> Vec<(f64, f64)> {
    let kernels = window
        .ran
        .iter()
        .filter(|r| r.kind == Kind::Kernel && r.graph == 0 && names.does(r.name) != Does::Nccl);
    let launches = window.asked.iter().filter(|a| a.kind == Ask::Launch);
    let launches = launches.count();
    if kernels.count() > launches + launches / 16 + 16 || window.asked.is_empty() {
        return Vec::new();
    }
    let mut by_kind: BTreeMap<Ask, Vec<u64>> = BTreeMap::new();
    for asked in &window.asked {
        by_kind.entry(asked.kind).or_default().push(asked.took);
    }
    let quick = |kind: Ask, mut took: Vec<u64>| -> i64 {
        took.sort_unstable();
        let longest = match kind {
            Ask::Synchronise => 0,
            Ask::LaunchGraph => LONGEST_OF_GRAPH,
            _ => LONGEST,
        };
        (took[took.len() / QUICK] as i64).min(longest)
    };
    let quick: BTreeMap<Ask, i64> = by_kind
        .into_iter()
        .map(|(kind, took)| (kind, quick(kind, took)))
        .collect();
    let spans = window.asked.iter().filter_map(|asked| {
        let (took, quick) = (asked.took as i64, quick[&asked.kind]);
        let span = (
            (asked.at + quick).max(window.open),
            (asked.at + took).min(window.closing),
        );
        let usual = match asked.kind {
            Ask::LaunchGraph => WAITED_OF_GRAPH,
            _ => WAITED,
        };
        (took > usual * quick).then_some(span)
    });
    let waited = Union::of(spans.collect());
    let length = (window.closing - window.open) / PIECES;
    let piece = |n: i64| (window.open + n * length, window.open + (n + 1) * length);
    let of = |piece| (waited.within(piece).length() as f64, length as f64);
    (0..PIECES).map(|n| of(piece(n))).collect()
}

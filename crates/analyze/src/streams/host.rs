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
use capture::windows::{ActivityKind, Ask};
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

/// Whether so many kernels were launched in part by calls that were not seen. Some launch several, and the
/// edges of a window cut some off. The recorder goes by the same rule (`misses_launches` in its windows.rs).
fn misses_launches(kernels: usize, launches: usize) -> bool {
    kernels > launches + launches / 16 + 16
}

/// For how long the host waited for the GPU in each piece of a window, and how long the piece was, ns; none
/// where that is not known.
pub fn waited(window: &Window, names: &Names) -> Vec<(f64, f64)> {
    let kernels = window.ran.iter().filter(|r| {
        r.kind == ActivityKind::Kernel && r.graph == 0 && names.does(r.name) != Does::Nccl
    });
    let launches = window.asked.iter().filter(|a| a.kind == Ask::Launch);
    if misses_launches(kernels.count(), launches.count()) || window.asked.is_empty() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use tables::windows::{Asked, Ran};

    /// A window of 100 ms: a launch each ms, of which every `slow`th takes `took` µs, and the kernels.
    fn window(kind: Ask, slow: usize, took: u64, kernels: usize) -> Window {
        let launch = |n: usize| Asked {
            at: n as i64 * 1_000_000,
            took: if n.is_multiple_of(slow) {
                took * 1000
            } else {
                5000
            },
            kind,
            thread: 1,
            stream: 0,
            object: 0,
        };
        let kernel = Ran {
            device: 0,
            start: 0,
            end: 1,
            name: 1,
            stream: 7,
            correlation: 0,
            graph: 0,
            node: 0,
            kind: ActivityKind::Kernel,
            size: 1,
        };
        Window {
            open: 0,
            closing: 100_000_000,
            asked: (0..100).map(launch).collect(),
            ran: vec![kernel; kernels],
            ..Window::default()
        }
    }

    fn share(window: &Window) -> Option<f64> {
        let names = Names::new(&["", "gemm"].map(String::from), &[]);
        let pieces = waited(window, &names);
        let (of, all) = pieces
            .iter()
            .fold((0.0, 0.0), |(a, b), p| (a + p.0, b + p.1));
        (all > 0.0).then(|| (of / all * 1000.0).round() / 1000.0)
    }

    #[test]
    fn a_host_waits_where_the_driver_holds_it_up() {
        // 10 launches of 505 µs, of which 5 µs are the launch.
        assert_eq!(share(&window(Ask::Launch, 10, 505, 100)), Some(0.05));
        // A launch that takes twice as long as others has not waited.
        assert_eq!(share(&window(Ask::Launch, 10, 10, 100)), Some(0.0));
        // If all wait, the quickest says nothing: a launch does not need its host for 800 µs.
        assert_eq!(share(&window(Ask::Launch, 1, 820, 100)), Some(0.8));
        assert_eq!(share(&window(Ask::LaunchGraph, 1, 850, 0)), Some(0.8));
        // Who asks to wait waits all the time.
        assert_eq!(share(&window(Ask::Synchronise, 10, 500, 0)), Some(0.055));
    }

    #[test]
    fn with_launches_that_were_not_seen_it_is_not_known() {
        assert_eq!(share(&window(Ask::Launch, 10, 500, 200)), None);
        assert_eq!(share(&Window::default()), None);
    }
}

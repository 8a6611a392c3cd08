//! How much faster a GPU's host could have been.
//!
//! If the rank that the others wait for were in time, a step could still take no less than any host needs for
//! it. If a host is ahead of its GPU, its waits show how much shorter that is. The driver makes it wait in
//! launches because its queue is full, or because the program asked to wait. A host that never waits is what
//! limits its rank, whatever its GPU waits for.
//!
//! Rule: this is known only for windows in which all launches were seen.

use super::intervals::{length, Span, Union};
use super::kinds::{Does, Names};
use super::share::{ratio, share, Share};
use super::window::Seen;
use crate::time::Nanos;
use capture::windows::{ActivityKind, DriverCallKind};
use std::collections::{BTreeMap, BTreeSet};
use tables::windows::{DriverCall, Window};

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

/// How far a host comes with what it asks for: kernels that it launches one by one, and graphs.
pub type Progress = [f64; 2];

/// What a host did in a piece of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Piece {
    /// How long it is.
    pub length: Nanos,
    /// It did not wait for the GPU.
    pub own: Nanos,
    /// How far it came meanwhile.
    pub launched: Progress,
    /// NCCL kept it for so long before its launches.
    pub in_calls: Nanos,
}

/// For how long NCCL keeps a host, from a call to its launch. The host does not wait for the GPU there, so
/// this time says how fast the host was, also where no window shows it. It is known for the whole run.
#[derive(Default)]
pub struct InCalls {
    /// By window and piece.
    by_piece: Vec<[Nanos; PIECES as usize]>,
    /// Since the first window or quiet spell: the time, and from the first call to the last.
    all: Nanos,
    known: Option<Span>,
}

impl InCalls {
    /// For windows that are so long.
    pub fn new(windows: &[Span]) -> InCalls {
        InCalls {
            by_piece: vec![[Nanos::ZERO; PIECES as usize]; windows.len()],
            ..InCalls::default()
        }
    }

    /// Adds a call: when it was made and when it was launched, and in which of the windows.
    pub fn add(&mut self, call: Span, window: Option<usize>, windows: &[Span]) {
        let took = length(call);
        let since = windows.first().map_or(i64::MAX, |first| first.0);
        if call.0 < since || took <= Nanos::ZERO {
            return;
        }
        let (from, to) = self.known.unwrap_or(call);
        self.known = Some((from.min(call.0), to.max(call.1)));
        self.all += took;
        if let Some(window) = window {
            let (from, to) = windows[window];
            let piece = (call.1 - from) * PIECES / (to - from).max(1);
            self.by_piece[window][piece.clamp(0, PIECES - 1) as usize] += took;
        }
    }

    /// In each piece of a window.
    pub fn of_window(&self, window: usize) -> [Nanos; PIECES as usize] {
        self.by_piece[window]
    }

    /// For which part of the run, once the job had begun.
    pub fn share(&self) -> Option<f64> {
        Some(self.all / length(self.known?))
    }
}

/// How far a GPU came in a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GpuPace {
    /// What of the host's launches it ran.
    pub ran: Progress,
    /// In which time.
    pub length: Nanos,
}

fn is_own(ran: &tables::windows::GpuActivity, names: &Names) -> bool {
    ran.kind == ActivityKind::Kernel && ran.graph == 0 && names.does(ran.name) != Does::Nccl
}

/// How far a GPU came in each cycle of a window, or in all of it if no cycles were found; `ran` is what ran
/// on it. The host launches NCCL's kernels as it does others.
pub fn ran(ran: &[tables::windows::GpuActivity], seen: &Seen) -> Vec<GpuPace> {
    let ends = match seen.marks.len() {
        0 | 1 => vec![seen.span.0, seen.span.1],
        _ => seen.marks.clone(),
    };
    // A graph counts when it begins.
    let mut known = BTreeSet::new();
    let graphs = ran.iter().filter(|r| r.graph != 0);
    let graphs: Vec<i64> = graphs
        .filter(|r| known.insert(r.correlation))
        .map(|r| r.start)
        .collect();
    let of = |span: Span| {
        let before = |at: i64| graphs.partition_point(|start| *start < at);
        let first = ran.partition_point(|r| r.start < span.0);
        let inside = ran[first..].iter().take_while(|r| r.start < span.1);
        let kernels = inside.filter(|r| r.kind == ActivityKind::Kernel && r.graph == 0);
        let kernels = kernels.count();
        GpuPace {
            ran: [kernels as f64, (before(span.1) - before(span.0)) as f64],
            length: length(span),
        }
    };
    ends.windows(2).map(|pair| of((pair[0], pair[1]))).collect()
}

/// What the host did in each piece of a window; nothing where that is not known. `in_calls` is for how long
/// NCCL kept it there.
pub fn pieces(window: &Window, names: &Names, in_calls: [Nanos; PIECES as usize]) -> Vec<Piece> {
    let kernels = window.ran.iter().filter(|r| is_own(r, names));
    let launches = window
        .asked
        .iter()
        .filter(|a| a.kind == DriverCallKind::Launch);
    if misses_launches(kernels.count(), launches.count()) || window.asked.is_empty() {
        return Vec::new();
    }
    let waited = waited(window);
    // Until its first call it may have waited in one from before the window.
    let first = window.asked.iter().map(|asked| asked.at).min();
    let open = first.map_or(window.open, |first| {
        first.clamp(window.open, window.closing)
    });
    let part = (window.closing - open) / PIECES;
    let piece = |n: i64| {
        let span = (open + n * part, open + (n + 1) * part);
        let of = |kind: DriverCallKind| {
            let inside = |a: &&DriverCall| a.kind == kind && (span.0..span.1).contains(&a.at);
            window.asked.iter().filter(inside).count() as f64
        };
        Piece {
            length: length(span),
            own: length(span) - waited.covers(span),
            launched: [of(DriverCallKind::Launch), of(DriverCallKind::LaunchGraph)],
            in_calls: in_calls[n as usize],
        }
    };
    (0..PIECES).map(piece).collect()
}

/// When the driver made the host wait.
fn waited(window: &Window) -> Union {
    let mut by_kind: BTreeMap<DriverCallKind, Vec<u64>> = BTreeMap::new();
    for asked in &window.asked {
        by_kind.entry(asked.kind).or_default().push(asked.took);
    }
    let quick = |kind: DriverCallKind, mut took: Vec<u64>| -> i64 {
        took.sort_unstable();
        let longest = match kind {
            DriverCallKind::Synchronise => 0,
            DriverCallKind::LaunchGraph => LONGEST_OF_GRAPH,
            _ => LONGEST,
        };
        (took[took.len() / QUICK] as i64).min(longest)
    };
    let quick: BTreeMap<DriverCallKind, i64> = by_kind
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
            DriverCallKind::LaunchGraph => WAITED_OF_GRAPH,
            _ => WAITED,
        };
        (took > usual * quick).then_some(span)
    });
    Union::of(spans.collect())
}

/// By which part of the time a host could be faster. Three things say so:
///
/// - For how long it waited in windows.
/// - What it needs for the work of its GPU, by what the GPU takes for that. A queue takes up a hundred steps
///   and more, so a host waits seldom and then for long: how long differs much from window to window, and
///   this does not.
/// - What it needs by how long NCCL keeps it. Other work on the machine makes a host slow for a while, and
///   windows are few. It makes NCCL's part slow too, and that part is known for the whole run (`in_calls`).
///   The ratio of both is known better than either.
pub fn ahead(host: &[Piece], gpu: &[GpuPace], in_calls: Option<f64>) -> Option<Share> {
    let sum = |unit: usize| host.iter().map(|piece| piece.launched[unit]).sum::<f64>();
    // The unit that comes more often.
    let unit = usize::from(sum(1) > sum(0));
    let waited = share(
        host.iter()
            .map(|piece| (piece.length - piece.own, piece.length)),
    );
    let each = ratio(host.iter().map(|piece| (piece.own.0, piece.launched[unit])));
    let rate = ratio(gpu.iter().map(|of| (of.ran[unit], of.length.0)));
    let mut all = vec![waited];
    all.extend(by_need(each, rate));
    let in_every = host.iter().all(|piece| piece.in_calls > Nanos::ZERO);
    if let Some(in_calls) = in_calls.filter(|_| in_every) {
        let each = share(host.iter().map(|piece| (piece.own, piece.in_calls)));
        let known = Share {
            share: in_calls,
            interval: Some((in_calls, in_calls)),
        };
        all.extend(by_need(each, known));
    }
    (!host.is_empty()).then(|| together(&all))
}

/// Of several ways to know a share, the mean; the surer ones count more. All go by the same windows, so it is
/// only taken to be as sure as the surest.
fn together(all: &[Share]) -> Share {
    let half = |of: &Share| {
        of.interval
            .map(|(low, high)| ((high - low) / 2.0).max(1e-9))
    };
    let sure: Vec<(f64, f64)> = all
        .iter()
        .filter_map(|of| Some((of.share, half(of)?)))
        .collect();
    let Some(least) = sure.iter().map(|(_, half)| *half).min_by(f64::total_cmp) else {
        return all.first().copied().unwrap_or_default();
    };
    let weight = |half: f64| (least / half).powi(2);
    let (sum, weights) = sure
        .iter()
        .fold((0.0, 0.0), |(sum, weights), (share, half)| {
            (sum + weight(*half) * share, weights + weight(*half))
        });
    let share = sum / weights;
    Share {
        share,
        interval: Some((share - least, share + least)),
    }
}

/// How much faster a host could be that needs so long for each of something, of which so much passes.
fn by_need(each: Share, rate: Share) -> Option<Share> {
    let needs = each.share * rate.share;
    let error = |of: &Share| of.interval.map(|(low, _)| 1.0 - low / of.share);
    let error = error(&each).zip(error(&rate)).map(|(a, b)| a.hypot(b));
    (needs > 0.0).then(|| Share {
        share: (1.0 - needs).max(0.0),
        interval: error.map(|e| (1.0 - needs * (1.0 + e), 1.0 - needs * (1.0 - e))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tables::windows::GpuActivity;

    /// A window of 100 ms: a launch each ms, of which every `slow`th takes `took` µs, and the kernels.
    fn window(kind: DriverCallKind, slow: usize, took: u64, kernels: usize) -> Window {
        let launch = |n: usize| DriverCall {
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
        let kernel = GpuActivity {
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
        let pieces = pieces(window, &names, [Nanos(1.0); 4]);
        let waited: Nanos = pieces.iter().map(|piece| piece.length - piece.own).sum();
        let waited = waited / pieces.iter().map(|piece| piece.length).sum::<Nanos>();
        (!pieces.is_empty()).then(|| (waited * 1000.0).round() / 1000.0)
    }

    #[test]
    fn a_host_waits_where_the_driver_holds_it_up() {
        // 10 launches of 505 µs, of which 5 µs are the launch.
        assert_eq!(
            share(&window(DriverCallKind::Launch, 10, 505, 100)),
            Some(0.05)
        );
        // A launch that takes twice as long as others has not waited.
        assert_eq!(
            share(&window(DriverCallKind::Launch, 10, 10, 100)),
            Some(0.0)
        );
        // If all wait, the quickest says nothing: a launch does not need its host for 800 µs.
        assert_eq!(
            share(&window(DriverCallKind::Launch, 1, 820, 100)),
            Some(0.8)
        );
        assert_eq!(
            share(&window(DriverCallKind::LaunchGraph, 1, 850, 0)),
            Some(0.8)
        );
        // Who asks to wait waits all the time.
        assert_eq!(
            share(&window(DriverCallKind::Synchronise, 10, 500, 0)),
            Some(0.055)
        );
    }

    #[test]
    fn a_host_that_waits_seldom_and_long_is_known_by_what_it_needs() {
        // It needs 10 µs for each of 1000 launches of 15 ms, and waits for all that it is ahead in one piece
        // of eight.
        let piece = |n: u32| Piece {
            length: Nanos(15e6),
            own: Nanos(if n.is_multiple_of(8) { 1e6 } else { 13e6 }),
            launched: if n.is_multiple_of(8) {
                [100.0, 0.0]
            } else {
                [1300.0, 0.0]
            },
            in_calls: Nanos::ZERO,
        };
        let host: Vec<Piece> = (0..16).map(piece).collect();
        let gpu = vec![
            GpuPace {
                ran: [1000.0, 0.0],
                length: Nanos(15e6),
            };
            16
        ];
        let ahead = ahead(&host, &gpu, None).expect("launches were seen");
        assert!((ahead.share - 1.0 / 3.0).abs() < 0.01, "{ahead:?}");
        let (low, high) = ahead.interval.expect("enough");
        assert!(0.3 < low && high < 0.36, "{ahead:?}");
        // Without a GPU's time, how often it waited is left.
        let waited = super::ahead(&host, &[], None).expect("launches were seen");
        assert!((waited.share - 0.2333).abs() < 0.001, "{waited:?}");
    }

    #[test]
    fn a_host_that_was_slow_in_windows_is_known_by_its_calls() {
        // In a third of the pieces, other work slows the host and NCCL's part of it down to two thirds. The
        // run is as the others: it needs half of its time.
        let piece = |n: u32| Piece {
            length: Nanos(100e6),
            own: Nanos(if n.is_multiple_of(3) { 75e6 } else { 50e6 }),
            in_calls: Nanos(if n.is_multiple_of(3) { 1.5e6 } else { 1e6 }),
            launched: [1000.0, 0.0],
        };
        let host: Vec<Piece> = (0..16).map(piece).collect();
        let windows = ahead(&host, &[], None).expect("launches were seen");
        assert!((windows.share - 0.406).abs() < 0.001, "{windows:?}");
        let run = ahead(&host, &[], Some(0.01)).expect("launches were seen");
        assert!((run.share - 0.5).abs() < 0.001, "{run:?}");
        let width = |of: Share| of.interval.map_or(f64::INFINITY, |(low, high)| high - low);
        assert!(width(run) < width(windows) / 10.0, "{run:?} {windows:?}");
    }

    #[test]
    fn calls_count_from_the_first_window_on_and_by_piece() {
        let windows = [(100, 140), (300, 340)];
        let mut calls = InCalls::new(&windows);
        for (call, window) in [
            ((10, 90), None),
            ((100, 105), Some(0)),
            ((131, 133), Some(0)),
            ((200, 210), None),
            ((310, 313), Some(1)),
        ] {
            calls.add(call, window, &windows);
        }
        assert_eq!(calls.of_window(0), [5.0, 0.0, 0.0, 2.0].map(Nanos));
        assert_eq!(calls.of_window(1), [0.0, 3.0, 0.0, 0.0].map(Nanos));
        assert_eq!(calls.share(), Some(20.0 / 213.0));
        assert_eq!(InCalls::new(&[]).share(), None);
    }

    #[test]
    fn with_launches_that_were_not_seen_it_is_not_known() {
        assert_eq!(share(&window(DriverCallKind::Launch, 10, 500, 200)), None);
        assert_eq!(share(&Window::default()), None);
    }
}

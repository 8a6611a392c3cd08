//! One window of one GPU: which part of it computed, communicated, copied, or did nothing.
//!
//! **Which part of a window counts.** A window has what was launched in it. What was launched before may
//! still run at its beginning, and what is launched after it may run before its last kernel ends. So on each
//! stream only the time from its first record to its last is known, and on all of them the time that is
//! common ([`known`]). Of that, whole cycles are taken, from one occurrence of a kernel to the last one of
//! the same kernel. It is the kernel that comes back most slowly, at equal distances and with as many kernels
//! in between. That is once a step, where steps have such a kernel; at least two steps are needed to know it.

use super::intervals::{length, Span, Union};
use super::kinds::{Does, Names};
use crate::time::Nanos;
use capture::windows::ActivityKind;
use std::collections::{BTreeMap, HashMap};
use tables::windows::{GpuActivity, Window};

/// A stream with fewer records is not used all the time, and bounds nothing.
const REGULAR: usize = 4;

/// The number of kernels in steps may differ by this part: one of so many.
const UNLIKE: usize = 50;

/// A rank that a kernel sends to or receives from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Its number in the communicator.
    pub rank: u32,
    /// Receives from it; else sends to it.
    pub receives: bool,
}

/// One of NCCL's kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NcclKernel {
    /// From when.
    pub start: i64,
    /// To when.
    pub end: i64,
    /// Index of its name.
    pub name: u32,
    /// CUDA's id of its stream; 0 not known.
    pub stream: u32,
    /// Numbers in the order of launches.
    pub correlation: u32,
    /// CUDA's id of the executable graph; 0 none.
    pub graph: u32,
    /// Index of its communicator in the capture, where that is known.
    pub communicator: Option<u32>,
    /// Not in a graph: index of its call's shape in its process, and its ticket, where these are known.
    pub call: Option<(u32, u64)>,
    /// In a graph: index of the captured call's shape in its process, where that is known.
    pub captured_as: Option<u32>,
    /// This GPU's rank in the communicator, where that is known.
    pub rank: Option<u32>,
    /// Of a kernel that sends and receives: where its peers are in [`Seen::peers`], from and to.
    pub peers: (u32, u32),
    /// When its launch began; only known of what events timed.
    pub launched: Option<i64>,
}

/// What a window shows of one GPU. Times are ns.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Whole cycles, as far as there are some.
    pub span: Span,
    /// The time for which all that ran is in the window.
    pub known: Span,
    /// Where cycles begin and end in it; fewer than two if none was found.
    pub marks: Vec<i64>,
    /// Kernels computed, and nothing communicated.
    pub computing: Nanos,
    /// Kernels computed while others communicated.
    pub beside: Nanos,
    /// Kernels communicated, and nothing computed.
    pub exposed: Nanos,
    /// Only copies and fills ran.
    pub copies: Nanos,
    /// When kernels computed.
    pub computes: Union,
    /// When kernels communicated.
    pub(super) communicates: Union,
    /// NCCL's kernels, by start; also those outside of the span.
    pub nccl: Vec<NcclKernel>,
    /// Whom NCCL's kernels send to and receive from, kernel by kernel.
    pub peers: Vec<Peer>,
    /// Communication that NCCL does not know of, in the span: library, kernels, their time.
    pub others: BTreeMap<&'static str, (u64, Nanos)>,
}

impl Seen {
    /// Whom a kernel sends to and receives from.
    pub fn peers_of(&self, kernel: &NcclKernel) -> &[Peer] {
        let (from, to) = kernel.peers;
        &self.peers[from as usize..to as usize]
    }

    /// Length of the span.
    pub fn length(&self) -> Nanos {
        length(self.span)
    }

    /// When kernels communicated.
    pub fn communicates(&self) -> &Union {
        &self.communicates
    }

    /// For how long nothing computed in a span; of a span in which kernels communicated, that is exposed.
    pub fn without_computing(&self, span: Span) -> Nanos {
        length(span).max(Nanos::ZERO) - self.computes.covers(span)
    }

    /// From when on nothing computed until then; that time, if something did.
    pub fn idle_before(&self, end: i64) -> i64 {
        let spans = self.computes.spans();
        let before = spans.partition_point(|span| span.0 < end);
        let last = before.checked_sub(1).map(|at| spans[at].1);
        last.unwrap_or(self.known.0).min(end)
    }

    /// Nothing ran.
    pub fn idle(&self) -> Nanos {
        self.length() - self.computing - self.beside - self.exposed - self.copies
    }
}

/// The time for which all that ran is in the window.
fn known(ran: &[GpuActivity]) -> Option<Span> {
    let mut streams: HashMap<u32, (i64, i64, usize)> = HashMap::new();
    for r in ran {
        let stream = streams.entry(r.stream).or_insert((r.start, r.end, 0));
        *stream = (stream.0.min(r.start), stream.1.max(r.end), stream.2 + 1);
    }
    let whole = (
        streams.values().map(|s| s.0).min()?,
        streams.values().map(|s| s.1).max()?,
    );
    let regular = |s: &&(i64, i64, usize)| s.2 >= REGULAR && 2 * (s.1 - s.0) > whole.1 - whole.0;
    let from = streams.values().filter(regular).map(|s| s.0).max();
    let to = streams.values().filter(regular).map(|s| s.1).min();
    let common = (from.unwrap_or(whole.0), to.unwrap_or(whole.1));
    (common.0 < common.1).then_some(common)
}

/// Where cycles begin and end within `known`; empty if none was found.
fn marks(ran: &[GpuActivity], known: Span) -> Vec<i64> {
    // What it is and how big; in a graph, also where.
    let mut starts: HashMap<(u32, u64, u32, u64), Vec<i64>> = HashMap::new();
    let inside = |r: &&GpuActivity| {
        r.kind == ActivityKind::Kernel && known.0 <= r.start && r.start < known.1
    };
    for r in ran.iter().filter(inside) {
        let node = if r.graph == 0 { 0 } else { r.node };
        let key = (r.name, r.size, r.stream, node);
        starts.entry(key).or_default().push(r.start);
    }
    let long = |at: &[i64]| at[at.len() - 1] - at[0];
    let apart = |at: &[i64]| at.windows(2).map(|pair| pair[1] - pair[0]).min();
    // Parts of a step that look alike in time are not made of as many kernels.
    let begun: Vec<i64> = ran.iter().filter(inside).map(|r| r.start).collect();
    let alike = |at: &[i64]| {
        let before = |mark: i64| begun.partition_point(|start| *start < mark);
        let cycles = at.windows(2).map(|pair| before(pair[1]) - before(pair[0]));
        let (least, most) = (cycles.clone().min(), cycles.max());
        let slack = |least: usize| least / UNLIKE + 2;
        at.len() > 2
            && least
                .zip(most)
                .is_some_and(|(least, most)| most - least <= slack(least))
    };
    starts
        .into_values()
        .filter(|at| {
            let gaps = at.windows(2).map(|pair| pair[1] - pair[0]);
            let (least, most) = (gaps.clone().min(), gaps.max());
            // It comes all the time, not in one half only, and not several times a cycle at different
            // distances.
            least
                .zip(most)
                .is_some_and(|(least, most)| 2 * most <= 3 * least)
                && 2 * long(at) >= known.1 - known.0
                && alike(at)
        })
        // The first of equals, whatever order they come in.
        .max_by(|a, b| {
            (apart(a), long(a))
                .cmp(&(apart(b), long(b)))
                .then_with(|| b.cmp(a))
        })
        .unwrap_or_default()
}

/// What ran on `device` in `window`, by start.
pub fn ran_on(window: &Window, device: u32) -> &[GpuActivity] {
    let first = window.ran.partition_point(|r| r.device < device);
    let last = window.ran.partition_point(|r| r.device <= device);
    &window.ran[first..last]
}

/// What a window shows of a device on which this ran; `None` if nothing in it is known to be whole.
pub fn seen(ran: &[GpuActivity], names: &Names) -> Option<Seen> {
    let known = known(ran)?;
    let marks = marks(ran, known);
    let span = match marks[..] {
        [first, .., last] => (first, last),
        _ => known,
    };
    let mut seen = Seen {
        span,
        known,
        marks,
        ..Seen::default()
    };
    let (mut computes, mut communicates, mut copies) = (Vec::new(), Vec::new(), Vec::new());
    for r in ran {
        let time = (r.start, r.end);
        if r.kind != ActivityKind::Kernel {
            copies.push(time);
            continue;
        }
        match names.does(r.name) {
            Does::Computes => computes.push(time),
            Does::Nccl => {
                communicates.push(time);
                seen.nccl.push(NcclKernel {
                    start: r.start,
                    end: r.end,
                    name: r.name,
                    stream: r.stream,
                    correlation: r.correlation,
                    graph: r.graph,
                    communicator: None,
                    call: None,
                    captured_as: None,
                    rank: None,
                    peers: (0, 0),
                    launched: None,
                });
            }
            Does::OtherCommunication(library) => {
                communicates.push(time);
                let counted = length((r.start.max(span.0), r.end.min(span.1)));
                if counted > Nanos::ZERO {
                    let other = seen.others.entry(library).or_default();
                    *other = (other.0 + 1, other.1 + counted);
                }
            }
        }
    }
    (seen.computes, seen.communicates) = (Union::of(computes), Union::of(communicates));
    let computes = seen.computes.within(span);
    let communicates = seen.communicates.within(span);
    let both = computes.and(&communicates).length();
    let kernels = computes.or(&communicates);
    seen.beside = both;
    seen.computing = computes.length() - both;
    seen.exposed = communicates.length() - both;
    let copies = Union::of(copies).within(span);
    seen.copies = copies.length() - copies.and(&kernels).length();
    Some(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn names() -> Names {
        let names = [
            "",
            "gemm",
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            "vllm::cross_device_reduce_1stage<float, 2>",
        ]
        .map(String::from);
        Names::new(&names, &[])
    }

    fn ran(name: u32, stream: u32, from_ms: i64, to_ms: i64) -> GpuActivity {
        GpuActivity {
            device: 0,
            start: from_ms * MS,
            end: to_ms * MS,
            name,
            stream,
            correlation: from_ms as u32,
            graph: 0,
            node: 0,
            kind: if name == 0 {
                ActivityKind::Copy
            } else {
                ActivityKind::Kernel
            },
            size: 1,
        }
    }

    /// Six steps of 20 ms, each with these kernels.
    fn steps(of: &[(u32, u32, i64, i64)]) -> Window {
        let step = |i: i64| {
            of.iter()
                .map(move |k| ran(k.0, k.1, k.2 + 20 * i, k.3 + 20 * i))
        };
        let mut all: Vec<GpuActivity> = (0..6).flat_map(step).collect();
        all.sort_by_key(|r| r.start);
        Window {
            ran: all,
            ..Window::default()
        }
    }

    /// Cycles, and the ms of each part in one.
    fn parts(window: &Window) -> (u64, [i64; 5]) {
        let seen = seen(ran_on(window, 0), &names()).expect("known");
        let cycles = seen.marks.len().saturating_sub(1) as u64;
        let n = cycles.max(1) as f64;
        let parts = [
            seen.computing,
            seen.beside,
            seen.exposed,
            seen.copies,
            seen.idle(),
        ];
        assert_eq!(parts.iter().sum::<Nanos>(), seen.length());
        (cycles, parts.map(|time| (time / n).ms() as i64))
    }

    #[test]
    fn a_call_beside_a_longer_kernel_is_hidden() {
        assert_eq!(
            parts(&steps(&[(1, 7, 0, 10), (2, 9, 3, 7)])),
            (5, [6, 4, 0, 0, 10])
        );
    }

    #[test]
    fn a_call_after_a_kernel_is_exposed() {
        assert_eq!(
            parts(&steps(&[(1, 7, 0, 10), (2, 9, 10, 14)])),
            (4, [10, 0, 4, 0, 6])
        );
        // A copy beside nothing is no idle GPU; beside a kernel it counts once.
        let with_copies = steps(&[(1, 7, 0, 10), (2, 9, 10, 14), (0, 7, 14, 17), (0, 5, 2, 4)]);
        assert_eq!(parts(&with_copies).1, [10, 0, 4, 3, 3]);
    }

    #[test]
    fn what_other_libraries_communicate_is_communication() {
        let window = steps(&[(1, 7, 0, 10), (3, 7, 10, 13)]);
        assert_eq!(parts(&window), (5, [10, 0, 3, 0, 7]));
        let seen = seen(ran_on(&window, 0), &names()).expect("known");
        assert_eq!(
            seen.others,
            BTreeMap::from([(
                "vLLM's or SGLang's custom all-reduce",
                (5, Nanos::from_ms(15.0))
            )])
        );
        assert!(super::seen(ran_on(&window, 1), &names()).is_none());
    }

    #[test]
    fn the_edges_of_a_window_do_not_count() {
        // A stream whose records begin late: what it did before is not known.
        let mut window = steps(&[(1, 7, 0, 10), (2, 9, 10, 14)]);
        window.ran.retain(|r| r.stream == 7 || r.start >= 40 * MS);
        let seen = seen(ran_on(&window, 0), &names()).expect("known");
        assert!(seen.span.0 >= 50 * MS);
    }
}

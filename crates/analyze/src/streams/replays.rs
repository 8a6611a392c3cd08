//! What communication takes in one replay of a CUDA graph: for a decode graph, in one token.
//!
//! All that one launch of a graph runs has one number in a window. So a replay is whole if all of it ran in
//! the time that the window shows. [`of_device`] finds the replays of a device. [`rows`] adds up those with
//! communication of the same calls, because an engine has a graph for each batch size, and often one for each
//! layer.
//!
//! Rule: graphs without communication have no row.

use super::intervals::{length, Span, Union};
use super::kinds::{function, Does, Names};
use super::window::Seen;
use crate::time::Nanos;
use std::collections::BTreeMap;
use tables::windows::GpuActivity;

/// Kernels that communicate, by function or library.
pub(super) type CallCounts = BTreeMap<String, u64>;

/// One replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) whole: Nanos,
    pub(super) communication: Nanos,
    pub(super) exposed: Nanos,
}

/// The whole replays of a device, of what ran on it, by start.
pub(super) fn of_device(
    ran: &[GpuActivity],
    seen: &Seen,
    names: &Names,
) -> Vec<(CallCounts, Sample)> {
    let mut replays: BTreeMap<u32, Vec<&GpuActivity>> = BTreeMap::new();
    for r in ran.iter().filter(|r| r.graph != 0) {
        replays.entry(r.correlation).or_default().push(r);
    }
    let sample = |of: &Vec<&GpuActivity>| {
        let begin = of.iter().map(|r| r.start).min()?;
        let end = of.iter().map(|r| r.end).max()?;
        if begin < seen.known.0 || seen.known.1 < end {
            return None;
        }
        let mut calls = CallCounts::new();
        let mut spans: Vec<Span> = Vec::new();
        for r in of {
            let what = match names.does(r.name) {
                Does::Computes => continue,
                Does::Nccl => function(names.name(r.name)),
                Does::OtherCommunication(library) => library,
            };
            *calls.entry(what.to_owned()).or_default() += 1;
            spans.push((r.start, r.end));
        }
        let spans = Union::of(spans);
        let exposed = spans.spans().iter();
        let sample = Sample {
            whole: length((begin, end)),
            communication: spans.length(),
            exposed: exposed.map(|span| seen.without_computing(*span)).sum(),
        };
        (!calls.is_empty()).then_some((calls, sample))
    };
    replays.values().filter_map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use capture::windows::ActivityKind;

    #[test]
    fn a_replay_is_summed_up_with_what_was_exposed_of_it() {
        let names = [
            "",
            "gemm",
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            "mscclpp_x",
        ];
        let names = Names::new(&names.map(String::from), &[]);
        let ran = |at: i64, name: u32, from: i64, to: i64| GpuActivity {
            device: 0,
            start: 100 * at + from,
            end: 100 * at + to,
            name,
            stream: if name == 1 { 7 } else { 9 },
            correlation: at as u32,
            graph: 3,
            node: 0,
            kind: ActivityKind::Kernel,
            size: 1,
        };
        // Five replays: 30 of computing, an AllReduce of which half is exposed, and a kernel of another
        // library.
        let mut all: Vec<GpuActivity> = (0..5)
            .flat_map(|n| [ran(n, 1, 0, 30), ran(n, 2, 20, 40), ran(n, 3, 40, 46)])
            .collect();
        all.sort_by_key(|r| r.start);
        let seen = super::super::window::seen(&all, &names).expect("known");
        let found = of_device(&all, &seen, &names);
        let calls = CallCounts::from([("AllReduce".to_owned(), 1), ("MSCCL++".to_owned(), 1)]);
        let sample = Sample {
            whole: Nanos(46.0),
            communication: Nanos(26.0),
            exposed: Nanos(16.0),
        };
        // Those at the edges are not whole.
        assert!(found.len() >= 3, "{found:?}");
        assert!(found.iter().all(|of| *of == (calls.clone(), sample)));
        // Without communication there is none.
        let computing: Vec<GpuActivity> = all.into_iter().filter(|r| r.name == 1).collect();
        assert_eq!(of_device(&computing, &seen, &names), []);
    }
}

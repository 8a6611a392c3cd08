//! NCCL's kernels that CUDA events timed, where no window shows them.
//!
//! Some GPUs have no windows, because their process is bound by its host or has no CUPTI. Such a GPU still
//! has GPU times of its calls. So has every GPU at times at which only others have a window. From these it is
//! known when it came to an operation that a window of another GPU shows. What it computed beside is not
//! known.
//!
//! Rule: a kernel is in a window or here, never in both.

use super::intervals::{Span, Union};
use super::kinds::Names;
use super::window::{NcclKernel, Peer, Seen};
use super::LaneWindow;
use crate::executions::Execution;
use capture::live::flag;
use std::collections::HashMap;
use std::sync::Arc;
use tables::windows::Window;
use tables::{Capture, Process};

/// A call that events timed. Calls of one launch have one time.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// When its kernel ran, on the host's clock, ns.
    pub span: Span,
    /// Index of its shape.
    pub shape: u32,
    /// When its launch began; 0 not known.
    pub launched: i64,
    /// For how long a stream stood still for it, ns, if one was seen to wait.
    pub exposed: Option<u64>,
}

/// When windows of any process show what runs. Without a single window all calls are looked at, if some of
/// them send or receive: those are matched here only ([`super::estimated`]).
pub fn looked_at(capture: &Capture) -> Union {
    let mut windows = capture.processes.iter().flat_map(|p| &p.windows.list);
    if windows.all(|window| window.is_quiet() || !window.is_whole()) {
        let mut shapes = capture.processes.iter().flat_map(|p| &p.shapes);
        let passes = shapes.any(|shape| shape.is(flag::P2P) && !shape.is(flag::CAPTURED));
        return Union::of(Vec::from_iter(passes.then_some((0, i64::MAX))));
    }
    let windows = capture.processes.iter().flat_map(|p| &p.windows.list);
    let span = |window: &Window| {
        // By device, and there by start: the last record of a device is among the last that ran.
        let devices = window.ran.chunk_by(|a, b| a.device == b.device);
        let first = devices
            .clone()
            .filter_map(|ran| Some(ran.first()?.start))
            .min()?;
        let last = devices.filter_map(|ran| Some(ran.last()?.end)).max()?;
        Some((first, last))
    };
    Union::of(windows.filter(|w| w.is_whole()).filter_map(span).collect())
}

/// When an execution ran, if events timed it and it ran while somebody looked.
#[inline]
pub fn span(execution: &Execution, looked_at: &Union) -> Option<Span> {
    let span = execution.kernel.on_host()?;
    (looked_at.covers(span) > 0).then_some(span)
}

/// What events show of a device, in the form of a window in which nothing is whole. `windows` are the
/// device's own. If nothing shows what computed (`alone`), the device is thought to compute unless one of its
/// streams stands still for a call.
pub fn window(
    timed: &[Timed],
    process: &Process,
    names: &tables::Names,
    windows: &[LaneWindow],
    alone: bool,
) -> Option<LaneWindow> {
    // By communicator: from when to when windows show all its kernels.
    let mut shown: HashMap<Option<u32>, Vec<Span>> = HashMap::new();
    for window in windows {
        let mut of: HashMap<u32, Span> = HashMap::new();
        for kernel in &window.seen.nccl {
            let Some(communicator) = kernel.communicator else {
                continue;
            };
            let span = of.entry(communicator).or_insert((kernel.start, kernel.end));
            *span = (span.0.min(kernel.start), span.1.max(kernel.end));
        }
        for (communicator, span) in of {
            shown.entry(Some(communicator)).or_default().push(span);
        }
    }
    let shown: HashMap<Option<u32>, Union> = shown
        .into_iter()
        .map(|(communicator, spans)| (communicator, Union::of(spans)))
        .collect();
    let computes = windows.iter().flat_map(|w| w.seen.computes.spans());
    let mut seen = Seen {
        computes: Union::of(computes.copied().collect()),
        ..Seen::default()
    };
    let mut timed = timed.to_vec();
    timed.sort_by_key(|call| call.span);
    let mut functions = vec![String::new()];
    for calls in timed.chunk_by(|a, b| a.span == b.span) {
        let (span, shape) = (calls[0].span, calls[0].shape);
        let Some(shape) = process.shapes.get(shape as usize) else {
            continue;
        };
        let middle = span.0 + (span.1 - span.0) / 2;
        let is_shown = |shown: &Union| shown.covers((middle, middle + 1)) > 0;
        if span.0 >= span.1 || shown.get(&shape.communicator).is_some_and(is_shown) {
            continue;
        }
        let first = seen.peers.len() as u32;
        let shapes = calls
            .iter()
            .filter_map(|call| process.shapes.get(call.shape as usize));
        seen.peers.extend(shapes.filter_map(|shape| {
            let receives = names.get(shape.function) == Some("Recv");
            shape.peer.map(|rank| Peer { rank, receives })
        }));
        let name = format!(
            "ncclDevKernel_{}",
            names.get(shape.function).unwrap_or_default()
        );
        let known = functions.iter().position(|f| *f == name);
        seen.nccl.push(NcclKernel {
            start: span.0,
            end: span.1,
            name: known.unwrap_or_else(|| {
                functions.push(name);
                functions.len() - 1
            }) as u32,
            stream: 0,
            correlation: 0,
            graph: 0,
            communicator: shape.communicator,
            call: None,
            captured_as: None,
            rank: shape.rank,
            peers: (first, seen.peers.len() as u32),
            launched: Some(calls[0].launched).filter(|at| *at != 0),
        });
    }
    if alone {
        let kernels = seen.nccl.iter().map(|kernel| (kernel.start, kernel.end));
        seen.communicates = Union::of(kernels.collect());
        let (first, last) = (
            seen.nccl.first()?.start,
            seen.nccl.iter().map(|k| k.end).max()?,
        );
        (seen.known, seen.span) = ((first, last), (first, last));
        let still = stood_still(&timed).or(&host_behind(&timed));
        seen.computes = Union::of(vec![seen.known]).without(&still);
    }
    (!seen.nccl.is_empty()).then(|| LaneWindow {
        seen,
        names: Arc::new(Names::new(&functions, &[])),
        computed: Vec::new(),
        named: Vec::new(),
        ran: Vec::new(),
    })
}

/// When a device had no work for sure, or nothing is known of any: after all calls so far had ended, and
/// until its host launched the next one. A host that is ahead launches before.
fn host_behind(timed: &[Timed]) -> Union {
    let mut ended: Option<i64> = None;
    let spans = timed.iter().filter_map(|call| {
        let since = ended;
        ended = ended.max(Some(call.span.1));
        Some((since?, call.launched))
    });
    Union::of(spans.filter(|(from, to)| from < to).collect())
}

/// When streams of a device stood still for its calls. If none was seen to wait for any, calls run on the
/// stream that computes, and each stops it.
fn stood_still(timed: &[Timed]) -> Union {
    let waits = timed.iter().any(|call| call.exposed.is_some());
    let spans = timed.iter().filter_map(|call| {
        let (start, end) = call.span;
        match call.exposed {
            Some(ns) => Some((end.saturating_sub_unsigned(ns), end)),
            None => (!waits).then_some((start, end)),
        }
    });
    Union::of(spans.filter(|(from, to)| from < to).collect())
}

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
use super::lane::LaneWindow;
use super::window::{NcclKernel, Peer, Seen};
use crate::executions::Execution;
use crate::time::Nanos;
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
}

/// When windows of any process show what runs.
pub fn looked_at(capture: &Capture) -> Union {
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
    (looked_at.covers(span) > Nanos::ZERO).then_some(span)
}

/// What events show of a device, in the form of a window in which nothing is whole. `windows` are the
/// device's own.
pub fn window(
    timed: &[Timed],
    process: &Process,
    names: &tables::Names,
    windows: &[LaneWindow],
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
        let is_shown = |shown: &Union| shown.covers((middle, middle + 1)) > Nanos::ZERO;
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
    (!seen.nccl.is_empty()).then(|| LaneWindow {
        seen,
        names: Arc::new(Names::new(&functions, &[])),
        computed: Vec::new(),
    })
}

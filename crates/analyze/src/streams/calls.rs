//! Calls that a process launched in windows, and what CUDA events timed while windows of others were open.

use super::host;
use super::intervals::Union;
use super::join::Launched;
use super::timed::{self, Timed};
use crate::executions::{Execution, Place};
use std::collections::BTreeMap;
use tables::{Capture, Process};

/// Of so many calls of a GPU it is kept when they ran: 48 MiB.
const MOST_TIMED: usize = 1 << 20;

/// Calls of a process that were launched in windows.
#[derive(Default)]
pub struct WindowCalls {
    pub(super) spans: Vec<(i64, i64)>,
    /// How many were launched in each window and quiet spell, and in all.
    pub(super) by_span: Vec<u64>,
    pub(super) made: u64,
    /// By window: device, call.
    pub(super) calls: Vec<Vec<(u32, Launched)>>,
    /// When windows of any process show what runs.
    pub(super) looked_at: Union,
    /// By device: what CUDA events timed meanwhile.
    pub(super) timed: BTreeMap<u32, Vec<Timed>>,
    /// From the first call to the last, ns.
    pub(super) active: Option<(i64, i64)>,
    /// What NCCL took of the host's time.
    pub(super) host: host::InCalls,
}

impl WindowCalls {
    /// For a process of `capture`.
    pub fn new(capture: &Capture, process: &Process) -> WindowCalls {
        let spans: Vec<_> = process
            .windows
            .list
            .iter()
            .map(|w| (w.open, w.closing))
            .collect();
        WindowCalls {
            by_span: vec![0; spans.len()],
            made: 0,
            calls: vec![Vec::new(); spans.len()],
            host: host::InCalls::new(&spans),
            spans,
            looked_at: timed::looked_at(capture),
            timed: BTreeMap::new(),
            active: None,
        }
    }

    /// Adds an execution of a process, if it was launched in a window, or ran in another process's. `devices`
    /// are those of the process's communicators, by place.
    #[inline]
    pub fn add(&mut self, process: &Process, devices: &[u32], execution: &Execution) {
        if execution.captured || (self.looked_at.is_empty() && self.spans.is_empty()) {
            return;
        }
        let call = execution.call;
        let at = if call.launch_start_ns != 0 {
            call.launch_start_ns
        } else {
            call.api_ns
        };
        self.take_in(at);
        // A host that is ahead of its GPU makes its last call long before the job is done.
        if let Some((_, end)) = execution.kernel.on_host() {
            self.take_in(end);
        }
        let window = self.spans.partition_point(|span| span.1 < at);
        let window = (self.spans.get(window))
            .filter(|span| span.0 <= at)
            .map(|_| window);
        self.made += 1;
        if let Some(window) = window {
            self.by_span[window] += 1;
        }
        self.host
            .add((call.api_ns, call.launch_start_ns), window, &self.spans);
        let device = devices[execution.place];
        if let Some(span) = timed::span(execution, &self.looked_at) {
            let timed = self.timed.entry(device).or_default();
            if timed.len() < MOST_TIMED {
                each_call(process, call, |call| {
                    timed.push(Timed {
                        span,
                        shape: call.shape,
                        launched: call.launch_start_ns,
                    })
                });
            }
        }
        let Some(window) = window else {
            return;
        };
        let ended = execution.kernel.on_host().map_or(0, |(_, stop)| stop);
        each_call(process, call, |call| {
            let launched = Launched {
                at,
                shape: call.shape,
                ticket: call.ticket,
                ended,
            };
            self.calls[window].push((device, launched));
        });
    }

    pub(super) fn take_in(&mut self, at: i64) {
        if at != 0 {
            let (from, to) = self.active.unwrap_or((at, at));
            self.active = Some((from.min(at), to.max(at)));
        }
    }
}

/// Hands the call to `each`, or the sends and receives of one operation, which have one launch.
fn each_call(process: &Process, call: &tables::Call, mut each: impl FnMut(&tables::Call)) {
    match (call.composite as usize).checked_sub(1) {
        None => each(call),
        Some(composite) => {
            let calls = process.composites[composite].calls.iter();
            calls.for_each(|index| each(&process.calls[*index as usize]));
        }
    }
}

/// The devices that calls at these places are launched on.
pub fn devices(process: &Process, places: &[Place]) -> Vec<u32> {
    let device = |uid: u32| {
        let local = process.communicator(uid);
        local.and_then(|local| local.device).unwrap_or(u32::MAX)
    };
    places.iter().map(|place| device(place.shape.uid)).collect()
}

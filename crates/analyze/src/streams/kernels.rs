//! The table of kernels: everything that ran on GPUs in kernel windows, one by one.
//!
//! [`of_process`] gives the rows of a process, and [`COLUMNS`] names every column once: exporters and
//! docs/reference/tables.md follow it. NCCL's kernels are joined to their calls as the report joins them
//! ([`super::join`]).
//!
//! Rule: a window that is not whole has rows too, and none of them is joined: what is missing would shift the
//! others.

use super::calls::devices;
use super::calls::WindowCalls;
use super::intervals::Span;
use super::kinds::{does, Does};
use super::window::NcclKernel;
use super::{join, kinds};
use crate::executions::{Steps, Walk};
use capture::windows::ActivityKind;
use tables::columns::{known, moment, nonzero, text, Value};
use tables::windows::{GpuActivity, Off, Window};
use tables::{Capture, Process, Shape};

/// A kernel, copy or fill where it stands.
pub struct KernelRef<'a> {
    /// Its capture.
    pub capture: &'a Capture,
    /// Its process.
    pub process: &'a Process,
    /// Index of that.
    pub index: usize,
    /// Its window.
    pub window: &'a Window,
    /// What ran.
    pub ran: &'a GpuActivity,
    /// Its name; empty for copies and fills.
    pub name: &'a str,
    /// The call that it carried out, if it is one of NCCL's and that is known.
    call: Option<Joined>,
    /// The part of its window that counts in the report's shares, on its device.
    counted: Option<Span>,
}

/// A call, or the captured call of a graph.
#[derive(Clone, Copy)]
struct Joined {
    shape: u32,
    /// Nothing for a call in a graph.
    ticket: Option<u64>,
}

impl<'a> KernelRef<'a> {
    fn does(&self) -> Option<Does> {
        (self.ran.kind == ActivityKind::Kernel)
            .then(|| does(self.name, &self.capture.communication))
    }

    /// Whether it is a kernel that communicates.
    pub fn communicates(&self) -> bool {
        self.does()
            .is_some_and(|does| !matches!(does, Does::Computes))
    }

    /// From when to when its window counts on its device; `None` if it does not.
    pub fn counted(&self) -> Option<(i64, i64)> {
        self.counted
    }

    /// The ticket of the call that it carried out, if that is known; a call in a graph has none.
    pub fn ticket(&self) -> Option<u64> {
        self.call?.ticket
    }

    /// The communicator of its call and how many ranks that has, if both are known.
    pub fn communicator(&self) -> Option<(u32, u32)> {
        self.shape()
            .and_then(|shape| shape.communicator.zip(shape.nranks))
    }

    fn shape(&self) -> Option<&'a Shape> {
        self.process.shapes.get(self.call?.shape as usize)
    }
}

tables::columns! { KernelRef:
    "process" "int" "" |r| Value::Unsigned(r.index as u64);
    "launcher_rank" "int" "" |r| known(r.process.rank);
    "host" "text" "" |r| Value::Text(&r.process.host);
    "pid" "int" "" |r| Value::Unsigned(r.process.pid.into());
    "window_number" "int" "" |r| Value::Unsigned(r.window.number.into());
    "window_whole" "bool" "" |r| Value::Bool(r.window.is_whole());
    "counted_from_ns" "time" "ns since 1970" |r| moment(r.counted.map(|span| span.0));
    "counted_to_ns" "time" "ns since 1970" |r| moment(r.counted.map(|span| span.1));
    "device" "int" "" |r| Value::Unsigned(r.ran.device.into());
    "stream" "int" "" |r| Value::Unsigned(r.ran.stream.into());
    "kind" "text" "" |r| Value::Text(match r.ran.kind {
        ActivityKind::Kernel => "kernel",
        ActivityKind::Copy => "copy",
        ActivityKind::Fill => "fill",
    });
    "name" "text" "" |r| text(Some(r.name).filter(|name| !name.is_empty()));
    "does" "text" "" |r| text(r.does().map(|does| match does {
        Does::Computes => "computing",
        _ => "communication",
    }));
    "library" "text" "" |r| text(r.does().and_then(|does| match does {
        Does::Computes => None,
        Does::Nccl => Some("NCCL"),
        Does::OtherCommunication(library) => Some(library),
    }));
    "start_ns" "time" "ns since 1970" |r| Value::Signed(r.ran.start);
    "end_ns" "time" "ns since 1970" |r| Value::Signed(r.ran.end);
    "time_ns" "int" "ns" |r| known(u64::try_from(r.ran.end - r.ran.start).ok());
    "blocks" "int" "" |r| match r.ran.kind {
        ActivityKind::Kernel => Value::Unsigned(r.ran.size),
        _ => Value::Null,
    };
    "bytes" "int" "bytes" |r| match r.ran.kind {
        ActivityKind::Kernel => Value::Null,
        _ => Value::Unsigned(r.ran.size),
    };
    "correlation" "int" "" |r| Value::Unsigned(r.ran.correlation.into());
    "graph" "int" "" |r| nonzero(r.ran.graph);
    "node" "int" "" |r| match r.ran.graph {
        0 => Value::Null,
        _ => Value::Unsigned(r.ran.node),
    };
    "communicator" "text" "" |r| {
        let communicator = r.shape().and_then(|shape| shape.communicator);
        let communicator = communicator.and_then(|c| r.capture.communicators.get(c as usize));
        text(communicator.map(|c| c.id.as_str()))
    };
    "function" "text" "" |r| text(r.shape().and_then(|shape| r.capture.names.get(shape.function)));
    "call_bytes" "int" "bytes" |r| {
        known(r.shape().and_then(|shape| r.capture.bytes_as(shape, shape.function)))
    };
    "ticket" "int" "" |r| known(r.call.and_then(|call| call.ticket));
}

/// The rows of a process: by window, then device and start.
pub fn of_process<'a>(capture: &'a Capture, index: usize) -> Vec<KernelRef<'a>> {
    let process = &capture.processes[index];
    let windows = &process.windows;
    if windows.list.iter().all(|window| window.ran.is_empty()) {
        return Vec::new();
    }
    let walk = Walk::new(process);
    let on_devices = devices(process, walk.places());
    let mut calls = WindowCalls::new(capture, process);
    walk.for_each(&mut Steps::default(), |execution| {
        calls.add(process, &on_devices, execution);
    });
    let names = kinds::Names::new(&windows.names, &capture.communication);
    let mut rows = Vec::new();
    for (window, launched) in windows.list.iter().zip(&calls.calls) {
        for on in join::on_devices(window, launched, process, &capture.names, &names) {
            let counted = on.seen.as_ref().map(|seen| seen.span);
            let mut joined = on.seen.iter().flat_map(|seen| &seen.nccl).map(joined);
            rows.extend(on.ran.iter().map(|ran| {
                let nccl = ran.kind == ActivityKind::Kernel && names.does(ran.name) == Does::Nccl;
                KernelRef {
                    capture,
                    process,
                    index,
                    window,
                    ran,
                    name: windows
                        .names
                        .get(ran.name as usize)
                        .map_or("", String::as_str),
                    call: nccl.then(|| joined.next()).flatten().flatten(),
                    counted,
                }
            }));
        }
    }
    rows
}

/// The call of one of NCCL's kernels.
fn joined(kernel: &NcclKernel) -> Option<Joined> {
    match kernel.captured_as {
        Some(shape) => Some(Joined {
            shape,
            ticket: None,
        }),
        None => kernel.call.map(|(shape, ticket)| Joined {
            shape,
            ticket: Some(ticket),
        }),
    }
}

/// Why a capture has no kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoKernels {
    /// A process could not have kernel windows.
    Off(Off),
    /// Another profiler used CUPTI.
    Yielded,
    /// Windows were opened, and nothing ran in them.
    NothingRan,
    /// No window was opened.
    NoWindow,
}

/// Why a capture has no kernels; `None` if it has some.
pub fn why_none(capture: &Capture) -> Option<NoKernels> {
    let mut windows = capture.processes.iter().map(|process| &process.windows);
    let has = |windows: &tables::windows::Windows| windows.list.iter().any(|w| !w.ran.is_empty());
    if windows.clone().any(has) {
        return None;
    }
    let off = windows.clone().find_map(|windows| windows.off);
    let yielded: u64 = windows.clone().map(|windows| windows.yielded).sum();
    Some(match off {
        Some(off) => NoKernels::Off(off),
        None if yielded > 0 => NoKernels::Yielded,
        None if windows.any(|w| !w.list.is_empty()) => NoKernels::NothingRan,
        None => NoKernels::NoWindow,
    })
}

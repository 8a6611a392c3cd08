//! Kernels by name: how many ran, for how long, and how much of that beside communication.
//!
//! [`ByName`] sums up what ran on one GPU; [`super::kernel_rows`] puts GPUs together.
//!
//! Rule: only what ran in whole cycles counts, so a share is one of the time of steps.

use super::intervals::length;
use super::kinds::{Does, Names};
use super::window::Seen;
use crate::time::Nanos;
use capture::windows::ActivityKind;
use tables::windows::GpuActivity;

/// Kernels of a name in all windows.
#[derive(Clone, Copy, Default)]
pub(super) struct OfName {
    pub(super) kernels: u64,
    pub(super) time: Nanos,
    /// Communication ran beside them.
    pub(super) beside: Nanos,
    /// Other kernels computed beside them.
    pub(super) hidden: Nanos,
}

impl OfName {
    pub(super) fn add(&mut self, of: &OfName) {
        self.kernels += of.kernels;
        self.time += of.time;
        self.beside += of.beside;
        self.hidden += of.hidden;
    }
}

/// What ran on a GPU.
#[derive(Default)]
pub struct ByName {
    /// By the id of the kernel's name.
    pub(super) kernels: Vec<OfName>,
    pub(super) copies: OfName,
    pub(super) fills: OfName,
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
                (Nanos::ZERO, seen.computes.covers(time))
            } else {
                (seen.communicates().covers(time), Nanos::ZERO)
            };
            let of = match r.kind {
                ActivityKind::Kernel => self.kernels.get_mut(r.name as usize),
                ActivityKind::Copy => Some(&mut self.copies),
                ActivityKind::Fill => Some(&mut self.fills),
            };
            let Some(of) = of else { continue };
            of.add(&OfName {
                kernels: 1,
                time: length(time),
                beside,
                hidden,
            });
        }
    }
}

//! One GPU of a process, and what its windows show.

use super::by_name::ByName;
use super::interference::{alone, Alone, Computed};
use super::intervals::{self, Union};
use super::kinds::Names;
use super::window::Seen;
use super::{host, idle, replays};
use crate::subject::ProcessId;
use crate::time::Nanos;
use std::sync::Arc;
use tables::Process;

/// One GPU.
pub(crate) struct Lane {
    /// Its process.
    pub(super) process: ProcessId,
    pub(super) device: u32,
    /// From its process's first call to the last, ns.
    pub(super) active: Nanos,
    pub(crate) windows: Vec<LaneWindow>,
    /// What its process's host did, by pieces of windows.
    pub(super) host_pieces: Vec<host::Piece>,
    /// For which part of the run NCCL kept it.
    pub(super) in_calls: Option<f64>,
    /// What its host did while nothing ran.
    pub(super) idle: idle::Parts,
    /// How far the GPU came, by cycles of windows.
    pub(super) gpu_ran: Vec<host::GpuPace>,
    /// What ran in its windows.
    pub(super) by_name: ByName,
    /// NCCL's kernels that CUDA events timed, where no window shows them; nothing of what computed is in it.
    pub(super) timed: Option<LaneWindow>,
    /// Whole replays of graphs that communicate.
    pub(super) replays: Vec<(replays::CallCounts, replays::Sample)>,
}

/// What a window shows of a GPU.
pub(crate) struct LaneWindow {
    pub(crate) seen: Seen,
    pub(crate) names: Arc<Names>,
    pub(super) computed: Vec<Computed>,
}

impl Lane {
    /// The GPU of a test, with these windows.
    #[cfg(test)]
    pub(crate) fn with(windows: Vec<LaneWindow>) -> Lane {
        Lane {
            windows,
            ..Lane::new(&Process::default(), 0, Nanos::ZERO)
        }
    }

    /// How much of the time its windows show, ns.
    pub(super) fn seen(&self) -> Nanos {
        self.windows.iter().map(|window| window.seen.length()).sum()
    }

    pub(super) fn new(process: &Process, device: u32, active: Nanos) -> Lane {
        Lane {
            process: ProcessId::of(process),
            device,
            active,
            windows: Vec::new(),
            host_pieces: Vec::new(),
            in_calls: None,
            idle: idle::Parts::default(),
            gpu_ran: Vec::new(),
            by_name: ByName::default(),
            timed: None,
            replays: Vec::new(),
        }
    }

    /// Its windows, and behind them what events timed.
    pub(crate) fn all(&self) -> impl Iterator<Item = &LaneWindow> {
        self.windows.iter().chain(&self.timed)
    }

    /// One of [`Lane::all`].
    pub(crate) fn at(&self, window: usize) -> &Seen {
        let timed = || &self.timed.as_ref().expect("an index of all").seen;
        self.windows.get(window).map_or_else(timed, |w| &w.seen)
    }

    /// Whether one of [`Lane::all`] shows what computed.
    pub(crate) fn shows_computing(&self, window: usize) -> bool {
        window < self.windows.len()
    }

    /// What its kernels take without communication.
    pub(super) fn alone(&self) -> Alone {
        alone(self.windows.iter().map(LaneWindow::kernels))
    }
}

impl LaneWindow {
    /// A test's, of what was seen.
    #[cfg(test)]
    pub(crate) fn with(seen: Seen, names: Arc<Names>) -> LaneWindow {
        LaneWindow {
            seen,
            names,
            computed: Vec::new(),
        }
    }

    pub(super) fn kernels(&self) -> (&[Computed], &Union) {
        (&self.computed, self.seen.communicates())
    }
}

/// What a window shows of exposed communication on one GPU. Times are ns on its host's clock.
pub(crate) struct Exposure {
    /// Its process.
    pub(crate) process: ProcessId,
    pub(crate) device: u32,
    /// What counts of the window.
    pub(crate) span: intervals::Span,
    /// When kernels communicated in it, and nothing computed.
    pub(crate) exposed: Vec<intervals::Span>,
}

//! What a report says of streams: shares of the time, kernels, and who was waited for.

use super::bubbles::Bubble;
use super::idle;
use super::losses::Sample;
use super::replays::Replay;
use crate::arrivals::RankArrivals;
use crate::findings::LEAST_SHARE;
use crate::steps::{Steps, StepsRow};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// With fewer operations on all ranks, windows don't say who was waited for.
pub(super) const LEAST_MATCHED: u64 = 16;

/// What the GPUs did, from kernel windows.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Streams {
    /// Windows that count, summed over GPUs.
    pub windows: u64,
    /// Windows that were left to another profiler, summed over processes.
    pub yielded: u64,
    /// Why processes have no windows: cause and processes.
    pub without: BTreeMap<&'static str, u64>,
    /// By restart and rank.
    pub ranks: Vec<RankStreams>,
    /// NCCL's kernels by function, largest time first.
    pub communication: Vec<FunctionStreams>,
    /// Communication that NCCL does not know of, by library.
    pub other_communication: Vec<OtherCommunication>,
    /// Kernels by name, largest time first; copies and fills too.
    pub kernels: Vec<KernelRow>,
    /// The same by GPU, in that order and by rank: those with the largest time.
    pub kernels_by_rank: Vec<KernelOfRank>,
    /// All names of kernels.
    #[serde(skip)]
    pub names: BTreeSet<String>,
    /// The time in windows for which it is known who was waited for, on the GPU with the least of it, µs.
    pub common_us: f64,
    /// Operations in that time that were found on all their ranks.
    pub operations: u64,
    /// GPUs without windows of which CUDA events say when they came.
    pub timed: u64,
    /// Who was waited for, largest loss first. A finding has what that costs.
    #[serde(skip)]
    pub waited_for: Vec<WaitedFor>,
    /// Replays of CUDA graphs that communicate, by rank and calls, longest in all first.
    pub replays: Vec<Replay>,
    /// By rank: the bubbles of a job that passes data on by sends and receives, as pipelines do; else empty.
    pub bubbles: Vec<Bubble>,
}

impl Streams {
    /// A test's, with these losses.
    #[cfg(test)]
    pub(crate) fn of_waits(waited_for: Vec<WaitedFor>) -> Streams {
        Streams {
            windows: 8,
            yielded: 0,
            without: BTreeMap::new(),
            ranks: Vec::new(),
            communication: Vec::new(),
            other_communication: Vec::new(),
            kernels: Vec::new(),
            names: BTreeSet::new(),
            kernels_by_rank: Vec::new(),
            common_us: 1e6,
            operations: 100,
            timed: 0,
            bubbles: Vec::new(),
            replays: Vec::new(),
            waited_for,
        }
    }

    /// Whether the windows of several GPUs say who was waited for, and what that cost.
    pub fn tells_who(&self) -> bool {
        let enough = |rank: &RankStreams| rank.exposed_waiting.interval.is_some();
        self.ranks.len() as u64 + self.timed > 1
            && self.operations >= LEAST_MATCHED
            && self.ranks.iter().all(enough)
    }

    /// Whether they prove that a rank costs the job something that matters.
    pub(crate) fn proves_who(&self) -> bool {
        self.tells_who() && self.waited_for.iter().any(WaitedFor::is_proved)
    }

    /// Takes in how long the steps of processes are.
    pub(crate) fn with_steps(&mut self, steps: &Steps) {
        for rank in &mut self.ranks {
            let same = |row: &&StepsRow| (&row.host, row.pid) == (&rank.host, rank.pid);
            let step = steps
                .rows
                .iter()
                .find(same)
                .and_then(|row| row.step_us.as_ref());
            if let Some(causes) = &mut rank.idle_causes {
                causes.step_us = step.map(|step| step.mean);
            }
        }
    }
}

/// A share of the time, or a ratio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Share {
    /// The share, 0 to 1.
    pub share: f64,
    /// 95 % interval; null for fewer than three windows.
    pub interval: Option<(f64, f64)>,
}

/// One GPU of a process.
#[derive(Clone, Debug, Serialize)]
pub struct RankStreams {
    /// The launcher's rank.
    pub rank: Option<u32>,
    /// Host.
    pub host: String,
    /// Process.
    pub pid: u32,
    /// CUDA device ordinal.
    pub device: u32,
    /// Windows that count.
    pub windows: u64,
    /// How long they are together, µs.
    pub seen_us: f64,
    /// Kernels computed, and nothing communicated.
    pub computing: Share,
    /// Kernels computed beside communication.
    pub beside: Share,
    /// Kernels communicated, and nothing computed.
    pub exposed: Share,
    /// Only copies and fills ran.
    pub copies: Share,
    /// Nothing ran.
    pub idle: Share,
    /// What its host did meanwhile; null if the node sampler did not watch it.
    pub idle_causes: Option<idle::IdleCauses>,
    /// Of exposed: it waited for other ranks.
    pub exposed_waiting: Share,
    /// Its host waited for the GPU. Null where that is not known, because not all launches were seen.
    pub host_waited: Option<Share>,
    /// Which part of the time of its kernels is lost if kernels of NCCL wait beside them; `None` if none can
    /// be compared.
    #[serde(skip)]
    pub waiting_slows: Option<f64>,
    /// How much longer the same kernels ran beside communication than without, by which part of the time;
    /// null where none ran both ways.
    pub interference: Option<f64>,
    /// What that cost of the time.
    pub interference_share: Option<f64>,
}

/// Kernels of a library that communicates beside NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OtherCommunication {
    /// Which.
    pub library: &'static str,
    /// Its kernels in windows.
    pub kernels: u64,
    /// Their time, µs.
    pub sum_us: f64,
}

/// NCCL's kernels of a function.
#[derive(Clone, Debug, Serialize)]
pub struct FunctionStreams {
    /// The function.
    pub function: String,
    /// Kernels in windows.
    pub kernels: u64,
    /// Their time, µs.
    pub sum_us: f64,
    /// Of that: nothing computed beside them.
    pub exposed_us: f64,
    /// Of that: other kernels computed beside them.
    pub hidden_us: f64,
}

/// Kernels of a name, or copies or fills.
#[derive(Clone, Debug, Serialize)]
pub struct KernelRow {
    /// The name.
    pub name: String,
    /// `computing`, `communication`, `copy` or `fill`.
    pub kind: &'static str,
    /// How many.
    pub kernels: u64,
    /// Their time, µs.
    pub sum_us: f64,
    /// Their time by the time that windows show, 0 to 1 for a kernel that runs alone.
    pub share: f64,
    /// Of their time: communication ran beside them.
    pub beside_us: f64,
}

/// Kernels of a name, or copies or fills, of one GPU.
#[derive(Clone, Debug, Serialize)]
pub struct KernelOfRank {
    /// The launcher's rank.
    pub rank: Option<u32>,
    /// Host.
    pub host: String,
    /// Process.
    pub pid: u32,
    /// CUDA device ordinal.
    pub device: u32,
    /// As in [`KernelRow`].
    pub name: String,
    /// As in [`KernelRow`].
    pub kind: &'static str,
    /// How many.
    pub kernels: u64,
    /// Their time, µs.
    pub sum_us: f64,
    /// Their time by the time that windows of this GPU show.
    pub share: f64,
    /// Of their time: communication ran beside them.
    pub beside_us: f64,
}

/// A GPU that others waited for.
#[derive(Clone, Debug, Serialize)]
pub struct WaitedFor {
    /// The launcher's rank.
    pub rank: Option<u32>,
    /// Host.
    pub host: String,
    /// Process.
    pub pid: u32,
    /// CUDA device ordinal.
    pub device: u32,
    /// Operations in windows in which it was last.
    pub last: u64,
    /// Of so many that it was in.
    pub operations: u64,
    /// It has no windows: CUDA events say when it came.
    pub by_events: bool,
    /// What the job would take less had it been no later than the others are: exposed waiting for it, less
    /// what it waited for them, and what waiting kernels slowed. Of the time.
    pub loss: Share,
    /// The same of the time from its first call to its last, µs.
    pub loss_us: f64,
    /// 95 % interval of that; null for fewer than three windows.
    pub loss_interval_us: Option<(f64, f64)>,
    /// Its GPU stood idle for so much longer than the others' that this explains half of the loss: its host
    /// was late. Else its GPU was busy.
    pub host_late: bool,
    /// The GPU that lost least by waiting for it: host, process and device.
    #[serde(skip)]
    pub(crate) other: (String, u32, u32),
    /// How much faster that one's host could be, of the time.
    #[serde(skip)]
    pub(crate) host_most: Option<Share>,
    /// The loss in windows, whatever the other one's host.
    #[serde(skip)]
    pub(crate) in_windows: Share,
    /// What that rests on.
    #[serde(skip)]
    pub(crate) sample: Sample,
    /// Operations in windows that both are in.
    #[serde(skip)]
    pub(crate) of_both: u64,
    /// From its process's first call to the last, ns.
    #[serde(skip)]
    pub(crate) active_ns: f64,
    /// It was scaled to the run by CUDA events.
    #[serde(skip)]
    pub(crate) by_run: bool,
    /// Windows were played again for it: it does not rise and fall with waiting.
    #[serde(skip)]
    pub(crate) again: bool,
    /// Of its share in windows and of how that goes with waiting, the share is the surer.
    #[serde(skip)]
    pub(crate) steady: bool,
    /// How long a cycle of the other one's windows is, ns; 0 if they show none.
    #[serde(skip)]
    pub(crate) cycle_ns: f64,
}

impl WaitedFor {
    /// Whether this row is about the same GPU.
    pub(crate) fn is(&self, row: &RankArrivals) -> bool {
        (&self.host, self.pid, Some(self.device)) == (&row.host, row.pid, row.device)
    }

    /// Whether its loss is above zero, also at the lower end, and matters.
    pub(crate) fn is_proved(&self) -> bool {
        self.loss.share >= LEAST_SHARE && self.loss.interval.is_some_and(|(low, _)| low > 0.0)
    }
}

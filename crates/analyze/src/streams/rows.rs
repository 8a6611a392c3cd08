//! What a report says of streams: shares of the time, kernels, and who was waited for.

use super::bubbles::Bubble;
use super::busier::Busier;
use super::idle;
use super::kernel_rows::{FunctionStreams, KernelOfRank, KernelRow};
use super::replay_rows::Replay;
use super::share::{Share, LEAST_MATCHED};
use crate::steps::Steps;
use crate::subject::ProcessId;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What the GPUs did, from kernel windows.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
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
    /// Replays of CUDA graphs that communicate, by rank and calls, longest in all first.
    pub replays: Vec<Replay>,
    /// By rank: the bubbles of a job that passes data on by sends and receives, as pipelines do; else empty.
    pub bubbles: Vec<Bubble>,
}

impl Streams {
    /// Whether the windows of several GPUs say who was waited for.
    pub fn tells_who(&self) -> bool {
        let enough =
            |rank: &RankStreams| rank.exposed_waiting.is_some_and(|of| of.interval.is_some());
        self.ranks.len() as u64 + self.timed > 1
            && self.operations >= LEAST_MATCHED
            && self.ranks.iter().all(enough)
    }

    /// Takes in how long the steps of processes are.
    pub(crate) fn with_steps(&mut self, steps: &Steps) {
        for rank in &mut self.ranks {
            let row = steps.row_of(&rank.process.host, rank.process.pid);
            let step = row.and_then(|row| row.step_us.as_ref());
            if let Some(causes) = &mut rank.idle_causes {
                causes.step_us = step.map(|step| step.mean);
            }
        }
    }
}

/// One GPU of a process.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RankStreams {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// CUDA device ordinal.
    pub device: u32,
    /// Kernel windows that count.
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
    /// Nothing ran on the GPU.
    pub idle: Share,
    /// What its host did while nothing ran: shares of the time, together idle; null if neither the node
    /// sampler nor time in MPI says.
    pub idle_causes: Option<idle::IdleCauses>,
    /// Of the exposed time: it waited for other ranks; null if no operation was found on all its ranks.
    pub exposed_waiting: Option<Share>,
    /// Its host waited for the GPU. Null where that is not known, because not all launches were seen.
    pub host_waited: Option<Share>,
    /// Which part of the time of its kernels is lost if kernels of NCCL wait beside them; `None` if none can
    /// be compared.
    #[serde(skip)]
    pub waiting_slows: Option<f64>,
    /// How long its kernels take without communication, by what the same kernels take on all GPUs; null if
    /// none can be compared.
    #[serde(skip)]
    pub(crate) pace: Option<Share>,
    /// How its computing differs from that of the others; `None` if no other GPU has windows.
    #[serde(skip)]
    pub busier: Option<Busier>,
    /// How much longer the same kernels ran beside communication than without, by which part of the time;
    /// null where none ran both ways.
    pub interference: Option<f64>,
    /// What that cost of the time.
    pub interference_share: Option<f64>,
}

/// Kernels of a library that communicates beside NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OtherCommunication {
    /// Which.
    pub library: &'static str,
    /// Its kernels in windows.
    pub kernels: u64,
    /// Their time, µs.
    pub sum_us: f64,
}

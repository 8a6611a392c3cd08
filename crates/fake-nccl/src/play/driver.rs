//! One thread of the job, and the ranks that it drives.

use super::cuda::{Graph, HostCallbacks};
use super::job::Job;
use crate::choosing::Chooser;
use crate::gpu;
use crate::nccl::{Launcher, VirtualClock};
use crate::schedule::Schedule;
use crate::tuner::Context;
use std::collections::HashMap;

/// One thread of the job, and the ranks that it drives. Its functions are in files by subject.
pub(super) struct Driver<'j> {
    pub(super) job: &'j Job,
    pub(super) schedule: Schedule<'j>,
    pub(super) mine: Vec<usize>,
    pub(super) launcher: Launcher,
    /// By script communicator and rank: index in the launcher.
    pub(super) open: HashMap<(usize, usize), usize>,
    pub(super) graphs: HashMap<usize, Graph>,
    pub(super) host_callbacks: HostCallbacks,
    pub(super) chooser: Chooser,
    /// By script communicator and rank: what the tuner gave.
    pub(super) tuned: HashMap<(usize, usize), Context>,
    pub(super) fault_seed: u64,
    /// By rank: whether its host has waited for its GPU.
    pub(super) has_synced: Vec<bool>,
}

impl<'j> Driver<'j> {
    pub(super) fn new(job: &'j Job, mine: Vec<usize>) -> Self {
        if let (Some(gpu), Some(rank)) = (gpu::get(), mine.first()) {
            let first = (0..*rank).find(|other| job.script.host(*other) == job.script.host(*rank));
            gpu.set_device(rank - first.unwrap_or(*rank));
        }
        Driver {
            job,
            schedule: Schedule::new(&job.script),
            mine,
            launcher: Launcher {
                comms: Vec::new(),
                announced: job.announced.clone(),
            },
            open: HashMap::new(),
            graphs: HashMap::new(),
            host_callbacks: HostCallbacks::default(),
            chooser: Chooser::new(&job.script, |name| std::env::var(name).ok()),
            tuned: HashMap::new(),
            fault_seed: 0,
            has_synced: vec![false; job.script.ranks],
        }
    }

    pub(super) fn wait_host(&self, rank: usize) {
        self.timeline(rank).wait_host(self.schedule.host[rank]);
    }

    pub(super) fn timeline(&self, rank: usize) -> VirtualClock {
        // Nobody is late in virtual time.
        let lead_ns = if self.job.script.virtual_time {
            0
        } else {
            self.job.script.lead_ns
        };
        VirtualClock {
            origin: self.job.origin.clone(),
            lead_ns,
            offset_ns: self.job.script.gpu_offset_ns[rank],
            host_lag_ns: if self.has_synced[rank] { lead_ns } else { 0 },
        }
    }
}

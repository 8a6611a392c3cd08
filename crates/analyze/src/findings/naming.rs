//! What else is known of those that findings are about: GPUs by their UUID, communicators by their members.

use super::{CommunicatorId, Finding, RankId};
use crate::arrivals::{Link, RankArrivals, Stall};
use std::collections::BTreeSet;
use tables::Capture;

impl CommunicatorId {
    /// The one with this id.
    pub fn of(id: &str) -> CommunicatorId {
        CommunicatorId {
            id: id.to_owned(),
            ..CommunicatorId::default()
        }
    }
}

impl RankId {
    /// A rank as the tables have it.
    pub(crate) fn new(rank: Option<u32>, host: &str, pid: u32, device: Option<u32>) -> RankId {
        RankId {
            rank,
            host: host.to_owned(),
            pid,
            device,
            gpu: None,
        }
    }
}

impl RankArrivals {
    /// Which rank it is.
    pub fn id(&self) -> RankId {
        RankId::new(self.rank, &self.host, self.pid, self.device)
    }
}

impl Stall {
    /// Which rank it is.
    pub fn id(&self) -> RankId {
        RankId::new(self.rank, &self.host, self.pid, self.device)
    }
}

impl Link {
    /// Which rank it is.
    pub fn id(&self) -> RankId {
        RankId::new(self.rank, &self.host, self.pid, None)
    }
}

/// Adds what `capture` knows of the subjects of `findings`: GPUs, and names and members of communicators.
pub fn name(findings: &mut [Finding], capture: &Capture) {
    for finding in findings {
        for rank in &mut finding.subject.ranks {
            rank.gpu = gpu(rank, capture);
        }
        if let Some(communicator) = &mut finding.subject.communicator {
            members(communicator, capture);
        }
    }
}

/// The GPU of a rank: of its device, or the only one that its process has.
pub(crate) fn gpu(rank: &RankId, capture: &Capture) -> Option<String> {
    let process = capture.process_of(&rank.host, rank.pid)?;
    let locals = process.communicators.iter();
    let same = |device: Option<u32>| rank.device.is_none() || device == rank.device;
    let gpus = locals.filter(|local| same(local.device));
    let gpus: BTreeSet<&str> = gpus.filter_map(|local| local.gpu.as_deref()).collect();
    match gpus.len() {
        1 => gpus.first().map(|gpu| (*gpu).to_owned()),
        _ => None,
    }
}

fn members(of: &mut CommunicatorId, capture: &Capture) {
    let mut all = capture.communicators.iter();
    let Some(found) = all.find(|communicator| communicator.id == of.id) else {
        return;
    };
    of.name.clone_from(&found.name);
    let ranks = found.members.iter();
    let ranks = ranks.filter_map(|member| capture.processes.get(member.process)?.rank);
    of.ranks = ranks.collect();
    of.ranks.sort_unstable();
    of.ranks.dedup();
}

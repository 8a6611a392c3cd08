//! Whom a finding is about: ranks with their GPUs, hosts, communicators, calls and links.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use tables::{Capture, Process};

/// A process of the job: where to look for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct ProcessId {
    /// The launcher's rank; null if it is not known.
    pub rank: Option<u32>,
    /// Its host.
    pub host: String,
    /// Its process id; null if it is not known.
    #[serde(serialize_with = "tables::pid::serialize")]
    #[schemars(with = "Option<u32>")]
    pub pid: u32,
}

impl ProcessId {
    /// That of a recorded process.
    pub fn of(process: &Process) -> ProcessId {
        ProcessId {
            rank: process.rank,
            host: process.host.clone(),
            pid: process.pid,
        }
    }
}

/// One rank of the job, as far as it is known: where to look for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct RankId {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// CUDA device ordinal.
    pub device: Option<u32>,
    /// The GPU's UUID, 32 hex digits; null where the recording has none.
    pub gpu: Option<String>,
}

/// A communicator, for people and for programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct CommunicatorId {
    /// Its id in this capture. Another run has others.
    pub id: String,
    /// The program's name for it.
    pub name: Option<String>,
    /// The launcher's ranks of its members, ascending; empty if they are not known.
    pub ranks: Vec<u32>,
}

/// Calls of one kind on a communicator.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct CallId {
    /// Function, as NCCL names it.
    pub function: String,
    /// Bytes by the convention of nccl-tests.
    pub bytes: u64,
}

/// The other end of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct Peer {
    /// The launcher's rank.
    pub rank: Option<u32>,
    /// Host.
    pub host: String,
}

/// Which way of a network transfer a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// The network accepts what the rank sends.
    SendNetwork,
    /// What the rank received is flushed to its GPU.
    RecvFlush,
}

impl Way {
    /// As in JSON, and as NCCL's states of a proxy step are called here.
    pub const fn name(self) -> &'static str {
        match self {
            Way::SendNetwork => "send_network",
            Way::RecvFlush => "recv_flush",
        }
    }
}

/// Whom a finding is about. What it is not about is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The ranks that are to blame, the first of them first.
    pub ranks: Vec<RankId>,
    /// The hosts, if it is about hosts as such.
    pub hosts: Vec<String>,
    /// The communicator on which it shows.
    pub communicator: Option<CommunicatorId>,
    /// The calls on it.
    pub call: Option<CallId>,
    /// The other end of a link.
    pub peer: Option<Peer>,
    /// Which way of the link.
    pub way: Option<Way>,
    /// The stage of a pipeline, from 0.
    pub stage: Option<u32>,
    /// `ranks` are to blame together: all of this group, by its name or by the communicator that it shares.
    pub group: Option<String>,
}

impl Subject {
    /// Of one rank.
    pub fn of(rank: RankId) -> Subject {
        Subject {
            ranks: vec![rank],
            ..Subject::default()
        }
    }

    /// The first of the ranks that are to blame.
    pub fn rank(&self) -> Option<&RankId> {
        self.ranks.first()
    }
}

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
    /// The rank of a process that has this device.
    pub(crate) fn new(process: ProcessId, device: Option<u32>) -> RankId {
        RankId {
            process,
            device,
            gpu: None,
        }
    }
}

/// The GPU of a rank: of its device, or the only one that its process has.
pub(crate) fn gpu(rank: &RankId, capture: &Capture) -> Option<String> {
    let process = capture.process_of(&rank.process.host, rank.process.pid)?;
    let locals = process.communicators.iter();
    let same = |device: Option<u32>| rank.device.is_none() || device == rank.device;
    let gpus = locals.filter(|local| same(local.device));
    let gpus: BTreeSet<&str> = gpus.filter_map(|local| local.gpu.as_deref()).collect();
    match gpus.len() {
        1 => gpus.first().map(|gpu| (*gpu).to_owned()),
        _ => None,
    }
}

/// The 32 hex digits of a GPU's UUID, which NVML writes with `GPU-` and hyphens.
pub(crate) fn plain_uuid(uuid: &str) -> String {
    uuid.trim_start_matches("GPU-")
        .replace('-', "")
        .to_lowercase()
}

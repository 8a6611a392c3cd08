//! The job that a script describes: its size, its communicators, and its statements.

use super::choice::Choice;
use super::statement::Statement;
use crate::plugin::Version;

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// The release that the script asks for.
    pub nccl: Version,
    /// Ranks of the job.
    pub ranks: usize,
    /// Hosts; ranks are dealt out in blocks.
    pub hosts: usize,
    /// Ranks of one process.
    pub per_process: usize,
    /// The ranks of a process are driven by one thread, in one group per call.
    pub one_thread: bool,
    /// The network plugin has events of its own: one for each network step.
    pub net_plugin: bool,
    /// The hosts' clocks show the script's time, and nobody waits for the machine's.
    pub virtual_time: bool,
    /// How far the virtual GPU runs behind the host, so that a late process still launches before its stamps.
    pub lead_ns: u64,
    /// How long ranks that wait for ever are left alone. Then they are ended.
    pub linger_ns: u64,
    /// Host time of one call.
    pub host_cost_ns: u64,
    /// Offset of each rank's GPU clock.
    pub gpu_offset_ns: Vec<i64>,
    /// How long each rank loads kernels, as NCCL's debug output says it; no time passes. Empty: none does.
    pub load_kernels_ns: Vec<u64>,
    /// How far each host's clock is ahead. If it is empty, all ranks have this machine's clock and host name.
    pub host_clock_ns: Vec<i64>,
    /// The communicators, by the index that statements use.
    pub comms: Vec<Comm>,
    /// Names of graphs, by the index that statements use.
    pub graphs: Vec<String>,
    /// What happens.
    pub body: Vec<Statement>,
    /// What NCCL chooses from for collectives of which the script says no protocol; by itself, the first.
    pub choices: Vec<Choice>,
    /// Standard deviation of the times of collectives, as a part of them.
    pub noise: f64,
    /// Processes have a CUDA driver, whose streams do what the schedule says.
    pub cuda: bool,
    /// Destroy the communicators at the end.
    pub destroy: bool,
}

/// A name in the script. A split gives it several communicators, and a rank is in at most one of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Comm {
    /// Name in the script.
    pub name: String,
    /// commName, if any.
    pub label: Option<String>,
    /// The communicator that it was split or shrunk from, if it uses that one's threads (splitShare,
    /// shrinkShare).
    pub shares: Option<usize>,
    /// Communicators.
    pub instances: Vec<Instance>,
}

/// One communicator.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// The hash that its ranks share.
    pub hash: u64,
    /// Job ranks in order of communicator rank.
    pub members: Vec<usize>,
}

/// A job of one rank that does nothing.
impl Default for Script {
    fn default() -> Self {
        Script {
            nccl: Version(22809),
            ranks: 1,
            hosts: 1,
            per_process: 1,
            one_thread: false,
            net_plugin: false,
            cuda: false,
            virtual_time: false,
            lead_ns: 50_000_000,
            linger_ns: 0,
            host_cost_ns: 10_000,
            gpu_offset_ns: vec![0],
            load_kernels_ns: Vec::new(),
            host_clock_ns: Vec::new(),
            comms: Vec::new(),
            graphs: Vec::new(),
            choices: Vec::new(),
            noise: 0.0,
            body: Vec::new(),
            destroy: true,
        }
    }
}

impl Script {
    /// The host of a rank.
    pub fn host(&self, rank: usize) -> usize {
        rank * self.hosts / self.ranks
    }

    /// Ranks of the process that drives `first`.
    pub fn process_ranks(&self, first: usize) -> std::ops::Range<usize> {
        first..(first + self.per_process).min(self.ranks)
    }
}

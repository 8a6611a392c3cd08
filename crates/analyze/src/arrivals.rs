//! Wait or wire: who arrived late, what it cost the others, and what being on time would save.
//!
//! Nobody can leave an AllReduce, AllGather, ReduceScatter or AlltoAll before the last rank has arrived. A
//! [`Gatherer`] keeps the GPU time of every rank's part in each of these, 32 bytes each. [`Gatherer::finish`]
//! looks at the operations that have a time on every rank. No clock is compared. All ranks of such an
//! operation are taken to end together. So the rank with the shortest time arrived last, and another rank's
//! wait is its time less the shortest. The error of that is the spread of the ends.
//!
//! **Cost.** Between the k-th arrival and the next, k ranks wait for n − k that are not there, and those
//! share that wait equally. So costs sum exactly to waits. Both are in rank-seconds: two ranks that wait for
//! 1 s are 2. **Saving** is in seconds of wall time: the last arrival less the one before it. The operation
//! would have ended earlier by that much if its last rank had been on time.
//!
//! **Own and inherited.** A rank is late by itself only while it is in no NCCL kernel. Time that it spent in
//! one, waiting for others or moving bytes, is inherited: it was charged where it arose. Where it is late to
//! several operations at the same time, that time counts once for the saving. All this is on the clock of the
//! rank's own GPU. [`InheritedFrom`] says on which communicator it was, and for whom it waited there.
//!
//! **Proof.** Over hosts, `last_proved` counts the operations in which the hosts' clocks prove that the rank
//! arrived last. Then it began after every other rank for any offset within the clocks' bounds
//! ([`crate::clocks`]). Of the rest it rests on common ends.
//!
//! Rule: the sum of `cost_rank_us` over ranks is the sum of `wait_rank_us`, and `inherited_rank_us` is a part
//! of the cost.

use crate::operations::Operation;
use crate::subject::ProcessId;
use crate::subject::RankId;
use schemars::JsonSchema;
use serde::Serialize;

mod bounds;
mod chain;
mod figures;
mod gatherer;
mod hosts;
mod links;
mod operations;
pub(crate) mod over_time;
mod sampled;
mod stalls;
pub mod table;
mod what_if;

pub use bounds::bound;
pub use chain::{inherited, InheritedFrom};
pub use gatherer::{waits_for_last, Gatherer, Routes};
pub(crate) use hosts::hosts;
pub use links::{Link, OverNetwork};
pub use sampled::SampledArrivals;
pub use stalls::Stall;

/// Who waited and who was waited for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Arrivals {
    /// Operations with a GPU time on every rank, warm-ups left out.
    pub operations: u64,
    /// Operations whose ranks' sizes, datatypes or the like differ: in no figure.
    pub differing: u64,
    /// Time from the last arrival to the end, summed over operations, µs of the wall.
    pub transfer_wall_us: f64,
    /// Waits of all ranks, µs summed over ranks.
    pub wait_rank_us: f64,
    /// What each operation would have ended earlier with its last rank on time, µs of the wall.
    pub saving_wall_us: f64,
    /// Of all operations, also if launches were left out of the sample that is timed. All other figures are
    /// of the timed ones only.
    pub sampled: Option<SampledArrivals>,
    /// By largest own saving.
    pub ranks: Vec<RankArrivals>,
    /// Ranks that came late once or a few times by far more than is usual, largest loss first.
    pub stalls: Vec<Stall>,
    /// How much of transfers was the network; null where that was not recorded.
    pub over_network: Option<OverNetwork>,
    /// What ranks have on the network, by largest excess; empty where that was not recorded, or no two can be
    /// compared.
    pub links: Vec<Link>,
}

impl Arrivals {
    /// GPU time of these operations, µs summed over ranks.
    fn time_rank_us(&self) -> f64 {
        let ranks_in: f64 = self.ranks.iter().map(|r| r.operations as f64).sum();
        let each = ranks_in / (self.operations as f64).max(1.0);
        self.wait_rank_us + self.transfer_wall_us * each
    }

    /// A rank's own waiting in all operations, also in those that the sample left out, µs: all ranks' waits
    /// are so many times those of the sample.
    pub fn waited_us(&self, rank: &RankArrivals) -> f64 {
        let all = self.sampled.as_ref().map(|of| of.wait_rank_us);
        let times = all.filter(|_| self.wait_rank_us > 0.0);
        rank.wait_rank_us * times.map_or(1.0, |all| all / self.wait_rank_us)
    }

    /// The part of the GPU time of these operations that was waiting.
    pub fn wait_share(&self) -> Option<f64> {
        let time = self.time_rank_us();
        (time > 0.0).then(|| self.wait_rank_us / time)
    }

    /// Which part these operations are of the GPU time of all calls that were timed; `None` where that is not
    /// known. Sends and receives are never in it: nobody else has their place.
    pub fn part_of(&self, operations: &[Operation]) -> Option<f64> {
        let sums = operations
            .iter()
            .filter_map(|of| Some(of.time_us.as_ref()?.sum));
        let part = self.time_rank_us() / sums.sum::<f64>();
        part.is_finite().then_some(part.min(1.0))
    }
}

/// One GPU of a process.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RankArrivals {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// CUDA device ordinal.
    pub device: Option<u32>,
    /// Operations it was in.
    pub operations: u64,
    /// Operations in which it arrived last.
    pub last: u64,
    /// Its own waiting, µs.
    pub wait_rank_us: f64,
    /// Waiting of others that is charged to it, summed over them, µs.
    pub cost_rank_us: f64,
    /// The part of `cost_rank_us` that was charged before: delays that arose on its other communicators.
    pub inherited_rank_us: f64,
    /// Where that came from, largest first. Sums to it.
    pub inherited_from: Vec<InheritedFrom>,
    /// What operations would have ended earlier had it not been late by itself, µs of the wall; other work
    /// may hide a part.
    pub saving_wall_us: f64,
    /// That less the mean of what the other ranks of its operations would save.
    pub excess_wall_us: f64,
    /// 95 % interval of the saving; null for too few operations.
    pub saving_interval_us: Option<(f64, f64)>,
    /// How likely a rank that is late no more than the others is to have such a saving; null for too few
    /// operations.
    pub saving_p: Option<f64>,
    /// What the run would take less had it been as early as the others, but for chance, µs of the wall. It is
    /// the part of the saving that nothing else hides. An estimate; `None` for ranks that are not late more
    /// than chance gives and than ends are spread. A finding has it, if the account of the steps does not
    /// say what late ranks cost.
    #[serde(skip)]
    pub loss_wall_us: Option<f64>,
    /// 95 % interval of the loss; `None` for too few operations.
    #[serde(skip)]
    pub loss_interval_us: Option<(f64, f64)>,
    /// The loss is an estimate, and no more than this is possible, µs: what the rank that waited least waited
    /// in all.
    #[serde(skip)]
    pub loss_at_most_us: Option<f64>,
    /// Another rank that is late, too, and what the run loses by both together, µs of the wall; `None` if
    /// that is no more. Each of two late ranks hides what the other costs.
    #[serde(skip)]
    pub with_other: Option<(Option<u32>, f64)>,
    /// The part of the saving in which its launch on the host was late as well, µs of the wall. For a rank
    /// with a loss, the launch is that of the operation in which it became late. Null if that is not known of
    /// any operation in which it came last.
    pub launched_late_us: Option<f64>,
    /// The part of the saving in which it was launched in time, so its GPU was busy with other work, µs of
    /// the wall. Null if that is not known of any operation in which it came last.
    pub gpu_busy_us: Option<f64>,
    /// Of `last`: operations over several hosts.
    pub last_over_hosts: u64,
    /// Operations in which the hosts' clocks prove that it arrived last, wherever their offset lies within
    /// its bounds; null where none of them could be judged.
    pub last_proved: Option<u64>,
    /// Operations in which it seems to have arrived last, and the clocks prove that another came after it:
    /// ranks do not end together there. Null where none of them could be judged.
    pub last_refuted: Option<u64>,
    /// How much later than all others it arrived in those that are proved, at least, µs of the wall.
    pub late_proved_us: Option<f64>,
}

impl RankArrivals {
    /// Which rank it is.
    pub fn id(&self) -> RankId {
        RankId::new(self.process.clone(), self.device)
    }
}

/// Least mean saving of the operations in which a rank was last, µs: the spread of ends.
pub(crate) const LEAST_US: f64 = 5.0;

impl RankArrivals {
    /// Whether it was last by more than the ends of operations are spread.
    pub(crate) fn is_beyond_spread(&self) -> bool {
        self.saving_wall_us >= LEAST_US * self.last as f64
    }
}

/// Ranks taken for late raise a false alarm in so many jobs at most, all together.
pub(crate) const LEVEL: f64 = 0.001;
/// Upper limit on the ranks whose loss is computed, largest saving first: each costs four what-if replays.
const MOST_LATE: usize = 8;

#[cfg(test)]
mod tests;

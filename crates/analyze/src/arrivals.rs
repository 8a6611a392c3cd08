//! Wait or wire: who arrived late, what it cost the others, and what being on time would save.
//!
//! A [`Gatherer`] keeps the GPU time of every rank's part in every operation that nobody can leave before the last has
//! arrived (AllReduce, AllGather, ReduceScatter, AlltoAll), 32 bytes each, and [`Gatherer::finish`] looks at the operations
//! that have a time on every rank. No clock is compared: all ranks of such an operation are taken to end together, so the
//! rank with the shortest time arrived last, and another's wait is its time less the shortest. The error of that is the
//! spread of the ends.
//!
//! **Cost.** Between the k-th arrival and the next, k ranks wait for n − k that are not there, and those share that wait
//! equally. So costs sum exactly to waits. Both are in rank-seconds: two ranks that wait for 1 s are 2. **Saving** is in seconds
//! of the wall: last arrival less the one before it, which is what the operation would have ended earlier, had
//! its last rank been on time.
//!
//! **Own and inherited.** A rank is late by itself only while it is in no NCCL kernel: time that it spent in one, waiting
//! for others or moving bytes, is inherited, and was charged where it arose. Where it is late to several operations at
//! the same time, that time counts once for the saving. All this is on the clock of the rank's own GPU. [`InheritedFrom`] says on
//! which communicator it was, and for whom it waited there.
//!
//! **Proof.** Over hosts, `last_proved` counts the operations of which the hosts' clocks prove who arrived last: its begin is after every
//! other's wherever their offset lies within its bounds ([`crate::clocks`]). Of the rest it rests on common ends.
//!
//! Rule: the sum of `cost_rank_us` over ranks is the sum of `wait_rank_us`, and `inherited_rank_us` is a part of the cost.

use crate::clocks::{Clocks, Given};
use crate::executions::{Execution, OnNetwork, Walk};
use crate::interval::{beyond_chance, Batches, CONFIDENCE};
use crate::matching::{Key, Matcher};
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::collections::BTreeMap;
use tables::calls::Untimed;
use tables::{Capture, Process};

mod chain;
mod hosts;
mod links;
mod loss;
mod sampled;

pub use chain::{inherited, InheritedFrom};
use chain::{Busy, Chains};
pub(crate) use hosts::hosts;
pub use links::{Link, OverNetwork};
pub use sampled::SampledArrivals;
use sampled::Scale;

/// Functions whose ranks all wait for the last.
const ALL_TO_ALL: [&str; 4] = ["AllReduce", "AllGather", "ReduceScatter", "AlltoAll"];

/// What a figure rests on.
pub const BASIS: &str = "shortest GPU time of each operation; assumes common ends";

/// Who waited and who was waited for.
#[derive(Clone, Debug, Serialize)]
pub struct Arrivals {
    /// [`BASIS`].
    pub basis: &'static str,
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
    /// Of all operations, where launches were left out of the sample that is timed; all other figures are of those that were timed.
    pub sampled: Option<SampledArrivals>,
    /// By largest own saving.
    pub ranks: Vec<RankArrivals>,
    /// How much of transfers was the network; null where that was not recorded.
    pub over_network: Option<OverNetwork>,
    /// What ranks have on the network, by largest excess; empty where that was not recorded, or no two can be compared.
    pub links: Vec<Link>,
}

/// One GPU of a process.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RankArrivals {
    /// The launcher's rank.
    pub rank: Option<u32>,
    /// Host.
    pub host: String,
    /// Process.
    pub pid: u32,
    /// CUDA device ordinal.
    pub device: Option<u32>,
    /// Operations it was in.
    pub operations: u64,
    /// Those in which it arrived last.
    pub last: u64,
    /// Its own waiting, µs.
    pub wait_rank_us: f64,
    /// Waiting of others that is charged to it, µs summed over them.
    pub cost_rank_us: f64,
    /// The part of that which was charged before: delays that arose on its other communicators.
    pub inherited_rank_us: f64,
    /// Where that came from, largest first. Sums to it.
    pub inherited_from: Vec<InheritedFrom>,
    /// What operations would have ended earlier had it not been late by itself, µs of the wall.
    pub saving_wall_us: f64,
    /// That less the mean of what the other ranks of its operations would save.
    pub excess_wall_us: f64,
    /// 95 % interval of the saving; null for too few operations.
    pub saving_interval_us: Option<(f64, f64)>,
    /// How likely a rank that is late no more than the others is to have such a saving; null for too few operations.
    pub saving_p: Option<f64>,
    /// What the run would take less had it been as early as the median of the others, µs of the wall: what of the saving
    /// nothing else hides. Null for ranks that are not late more than chance gives and than ends are spread.
    pub loss_wall_us: Option<f64>,
    /// 95 % interval of the loss; null for too few operations.
    pub loss_interval_us: Option<(f64, f64)>,
    /// Of the saving: its launch on the host was late as well. µs of the wall.
    pub launched_late_us: f64,
    /// Of the saving: it was launched in time, so its GPU was busy with other work.
    pub gpu_busy_us: f64,
    /// Of `last`: operations over several hosts.
    pub last_over_hosts: u64,
    /// Those of them in which the hosts' clocks prove it, wherever their offset lies within its bounds; null where none of them
    /// could be judged.
    pub last_proved: Option<u64>,
    /// And those in which they prove that another came after it: ranks do not end together there.
    pub last_refuted: Option<u64>,
    /// How much later than all others it arrived in those that are proved, at least, µs of the wall.
    pub late_proved_us: Option<f64>,
}

/// One rank's part in an operation.
#[derive(Clone, Copy)]
struct Part {
    sequence: u32,
    number: u32,
    /// GPU time, ns; larger ones count as 4.3 s.
    ns: u32,
    row: u32,
    /// Start, on one clock for the GPU, ns.
    start: u64,
    /// Host time of the launch, 0 not known.
    launch_ns: i64,
    /// Of times that enclose the kernel, their error on the host's clock, ns; 0 where they need not, or are not on that clock.
    error: u32,
    /// Index of its communicator, [`u32::MAX`] not known.
    communicator: u32,
}

/// The sequence of kernels that are no operation of interest: the GPU is in NCCL then.
const OTHER: u32 = u32::MAX;

/// The parts of one GPU of a process, by ticket.
#[derive(Default)]
struct Lane {
    rank: Option<u32>,
    host: String,
    pid: u32,
    device: Option<u32>,
    parts: Vec<Part>,
    /// What parts had on the network, in their order.
    network: Vec<(u32, OnNetwork)>,
}

/// Least mean saving of the operations in which a rank was last, µs: the spread of ends.
pub(crate) const LEAST_US: f64 = 5.0;

/// Why a rank came last.
#[derive(Clone, Copy)]
enum Reason {
    LateLaunch,
    BusyGpu,
}

/// Who came last to an operation, by how much of itself, and why.
#[derive(Clone, Copy)]
struct Late {
    lane: u32,
    own_us: f64,
    reason: Option<Reason>,
}

impl RankArrivals {
    fn reason(&mut self, reason: Option<Reason>, us: f64) {
        match reason {
            Some(Reason::LateLaunch) => self.launched_late_us += us,
            Some(Reason::BusyGpu) => self.gpu_busy_us += us,
            None => {}
        }
    }

    /// Whether it was last by more than the ends of operations are spread.
    pub(crate) fn is_beyond_spread(&self) -> bool {
        self.saving_wall_us >= LEAST_US * self.last as f64
    }
}

/// Ranks taken for late raise a false alarm in so many jobs at most, all together.
pub(crate) const LEVEL: f64 = 0.001;
/// Of so many ranks, those with the largest saving, it is told what the run loses by them: each takes playing the run again.
const MOST_LATE: usize = 8;

/// Of more kernels than this nobody's waiting is told: at 76 bytes each they take 2.4 GiB.
const MOST_PARTS: u64 = 1 << 25;

/// The note on that.
pub const TOO_MANY: &str =
    "Who waited for whom is not told: there are more than 33 million timed kernels.";

/// What is gathered.
#[derive(Default)]
pub struct Gatherer {
    lanes: Vec<Lane>,
    /// Kernels seen. Beyond [`MOST_PARTS`] none is kept.
    seen: u64,
    /// By row, calls that were left out of the sample that is timed.
    unsampled: Vec<u64>,
}

/// Where the executions of a process go, by place.
pub struct Plan(Vec<Way>);

/// Where the executions of a place go.
struct Way {
    lane: u32,
    /// As in [`Part`].
    communicator: u32,
    /// Whether all ranks of these wait for the last.
    all: bool,
    /// Whether times of these enclose the kernel: CUDA events, and stamps of RING.
    encloses: bool,
}

impl Gatherer {
    /// Prepares for a process.
    pub fn plan(&mut self, capture: &Capture, process: &Process, walk: &Walk) -> Plan {
        let mut lanes: BTreeMap<Option<u32>, u32> = BTreeMap::new();
        let mut lane = |place: &crate::executions::Place| {
            let locals = &mut process.communicators.iter();
            let device = locals
                .find(|l| l.uid == place.shape.uid)
                .and_then(|l| l.device);
            let function = capture.names.get(place.function);
            let all = function.is_some_and(|function| ALL_TO_ALL.contains(&function));
            let lane = *lanes.entry(device).or_insert_with(|| {
                self.lanes.push(Lane {
                    rank: process.rank,
                    host: process.host.clone(),
                    pid: process.pid,
                    device,
                    parts: Vec::new(),
                    network: Vec::new(),
                });
                self.lanes.len() as u32 - 1
            });
            Way {
                lane,
                communicator: place.shape.communicator.unwrap_or(u32::MAX),
                all,
                encloses: place.shape.has_events()
                    || capture.names.get(place.shape.algorithm) == Some("RING"),
            }
        };
        Plan(walk.places().iter().map(&mut lane).collect())
    }

    /// Adds an execution, which is operation `at` and counted in `row` where it is to count. Those without a time are left
    /// out.
    #[inline]
    pub fn add(&mut self, plan: &Plan, execution: &Execution, at: Option<((u32, u64), u32)>) {
        let way = &plan.0[execution.place];
        let Some((start, stop)) = execution.kernel.filter(|_| !execution.captured) else {
            let row = at.filter(|_| way.all && execution.gpu == Err(Untimed::Unsampled));
            if let Some((_, row)) = row {
                self.leave_out(row, 1);
            }
            return;
        };
        let counts = |((sequence, number), row): ((u32, u64), u32)| {
            Some((sequence, u32::try_from(number).ok()?, row))
        };
        let at = at.filter(|_| way.all && execution.gpu.is_ok());
        let (sequence, number, row) = at.and_then(counts).unwrap_or((OTHER, 0, 0));
        self.seen += 1;
        if self.too_many() {
            return self.forget();
        }
        let lane = &mut self.lanes[way.lane as usize];
        if let Some(network) = execution.network.filter(|_| sequence != OTHER) {
            lane.network.push((lane.parts.len() as u32, network));
        }
        lane.parts.push(Part {
            sequence,
            number,
            ns: u32::try_from(stop.saturating_sub(start)).unwrap_or(u32::MAX),
            row,
            start,
            launch_ns: execution.call.launch_start_ns,
            error: execution.error.filter(|_| way.encloses).unwrap_or(0),
            communicator: way.communicator,
        });
    }

    /// Whether there are more kernels than are looked at.
    #[inline]
    pub fn too_many(&self) -> bool {
        self.seen > MOST_PARTS
    }

    fn leave_out(&mut self, row: u32, calls: u64) {
        let row = row as usize;
        if self.unsampled.len() <= row {
            self.unsampled.resize(row + 1, 0);
        }
        self.unsampled[row] += calls;
    }

    #[cold]
    fn forget(&mut self) {
        for lane in &mut self.lanes {
            (lane.parts, lane.network) = (Vec::new(), Vec::new());
        }
    }

    /// Takes in what was gathered from later processes, whose sequences and rows are ours by these.
    pub fn merge(&mut self, mut later: Gatherer, sequences: &[u32], rows: &[u32]) {
        let parts = later.lanes.iter_mut().flat_map(|lane| &mut lane.parts);
        for part in parts.filter(|part| part.sequence != OTHER) {
            part.sequence = sequences[part.sequence as usize];
            part.row = rows[part.row as usize];
        }
        for (row, calls) in later.unsampled.iter().enumerate().filter(|(_, n)| **n > 0) {
            self.leave_out(rows[row], *calls);
        }
        self.lanes.append(&mut later.lanes);
        self.seen += later.seen;
        if self.too_many() {
            self.forget();
        }
    }

    /// The figures, `None` where no operation has a time on every rank; and how the hosts' clocks stand to each other, `None` for one
    /// host.
    pub fn finish(
        mut self,
        capture: &Capture,
        matcher: &Matcher,
        given: Option<&Given>,
    ) -> (Option<Arrivals>, Option<Clocks>) {
        let unsampled = std::mem::take(&mut self.unsampled);
        let (operations, proof, clocks) = self.compare(capture, matcher, given);
        (operations.figures(capture, &proof, &unsampled), clocks)
    }

    /// Only how the hosts' clocks stand to each other.
    pub fn clocks(
        self,
        capture: &Capture,
        matcher: &Matcher,
        given: Option<&Given>,
    ) -> Option<Clocks> {
        self.compare(capture, matcher, given).2
    }

    fn compare(
        self,
        capture: &Capture,
        matcher: &Matcher,
        given: Option<&Given>,
    ) -> (Operations, hosts::Proof, Option<Clocks>) {
        let hosts = hosts::hosts(capture);
        let operations = Operations::new(self.lanes, capture, &matcher.keys());
        let host_of = operations.host_of(&hosts);
        let offsets = operations.offsets(&host_of, hosts.len());
        let clocks = Clocks::new(&hosts, &offsets, given);
        let proof = hosts::Proof::new(hosts, host_of, offsets, given);
        (operations, proof, clocks)
    }
}

/// A part by lane and index.
type Place = (u32, u32);

/// The operations that have a time on every rank.
struct Operations {
    lanes: Vec<Lane>,
    /// By sequence as in `parts`: index of its communicator.
    communicators: Vec<u32>,
    /// Sequence, number, part; operations one after the other, by what they are, then number.
    parts: Vec<(u32, u32, Place)>,
    /// Ranges of `parts`, with the operation's index among those of its sequence, and how many these are.
    whole: Vec<(usize, usize, u32, u32)>,
    differing: u64,
}

impl Operations {
    fn new(lanes: Vec<Lane>, capture: &Capture, keys: &[Key]) -> Operations {
        // Sequences are numbered as they came; what they are of is the same however a capture was split.
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        order.sort_unstable_by_key(|sequence| keys[*sequence as usize]);
        let mut position = vec![0u32; keys.len()];
        for (at, sequence) in order.iter().enumerate() {
            position[*sequence as usize] = at as u32;
        }
        let mut parts = Vec::with_capacity(lanes.iter().map(|l| l.parts.len()).sum());
        for (lane, of) in lanes.iter().enumerate() {
            let parts_of = of.parts.iter().enumerate();
            for (index, part) in parts_of.filter(|(_, part)| part.sequence != OTHER) {
                let place = (lane as u32, index as u32);
                parts.push((position[part.sequence as usize], part.number, place));
            }
        }
        parts.sort_unstable();
        let nranks = |sequence: u32| {
            let key = keys[order[sequence as usize] as usize];
            let communicator = capture.communicators.get(key.communicator as usize);
            communicator.map_or(0, |c| c.nranks.map_or(c.members.len(), |n| n as usize))
        };
        let (mut whole, mut differing) = (Vec::new(), 0);
        let mut begin = 0;
        for group in parts.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let end = begin + group.len();
            let row = |(.., (lane, index)): &(u32, u32, Place)| {
                lanes[*lane as usize].parts[*index as usize].row
            };
            if group.len() == nranks(group[0].0) && group.len() > 1 {
                // Each GPU once: a damaged file may say otherwise.
                if group.windows(2).any(|w| w[0].2 .0 == w[1].2 .0) {
                } else if group.iter().all(|part| row(part) == row(&group[0])) {
                    whole.push((begin, end, 0, 0));
                } else {
                    differing += 1;
                }
            }
            begin = end;
        }
        for of_sequence in whole.chunk_by_mut(|a, b| parts[a.0].0 == parts[b.0].0) {
            let length = of_sequence.len() as u32;
            for (index, operation) in of_sequence.iter_mut().enumerate() {
                (operation.2, operation.3) = (index as u32, length);
            }
        }
        let communicator = |sequence: &u32| keys[*sequence as usize].communicator;
        Operations {
            communicators: order.iter().map(communicator).collect(),
            lanes,
            parts,
            whole,
            differing,
        }
    }

    fn part(&self, (lane, index): Place) -> Part {
        self.lanes[lane as usize].parts[index as usize]
    }

    fn of(&self, operation: &(usize, usize, u32, u32)) -> impl Iterator<Item = Place> + '_ {
        self.parts[operation.0..operation.1]
            .iter()
            .map(|(.., place)| *place)
    }

    /// What a part had on the network.
    fn on_network(&self, (lane, index): Place) -> Option<OnNetwork> {
        let network = &self.lanes[lane as usize].network;
        let at = network.binary_search_by_key(&index, |(part, _)| *part);
        at.ok().map(|at| network[at].1)
    }

    /// Its transfer, ns.
    fn shortest(&self, operation: &(usize, usize, u32, u32)) -> u32 {
        let parts = self.of(operation);
        parts.map(|place| self.part(place).ns).min().unwrap_or(0)
    }

    /// By lane and part: for how long its rank was late by itself as the last of the operation, ns. `busy` is by lane.
    fn own(&self, busy: &[Busy]) -> Vec<Vec<u32>> {
        let mut own: Vec<Vec<u32>> = self.lanes.iter().map(|l| vec![0; l.parts.len()]).collect();
        for operation in &self.whole {
            let (mut last, mut before) = ((u32::MAX, (0, 0)), u32::MAX);
            for place in self.of(operation) {
                // Of equals the later place counts as last, as where costs are shared.
                let this = (self.part(place).ns, place);
                if this.0 <= last.0 {
                    before = last.0;
                    last = this;
                } else {
                    before = before.min(this.0);
                }
            }
            let (lane, index) = last.1;
            own[lane as usize][index as usize] = before - last.0;
        }
        for ((lane, own), busy) in self.lanes.iter().zip(&mut own).zip(busy) {
            let mut order: Vec<u32> = (0..lane.parts.len() as u32)
                .filter(|index| own[*index as usize] > 0)
                .collect();
            order.sort_unstable_by_key(|index| (lane.parts[*index as usize].start, *index));
            let mut charged = 0;
            for index in order {
                let (start, late) = (lane.parts[index as usize].start, &mut own[index as usize]);
                let from = start.saturating_sub((*late).into()).max(charged);
                *late = busy.free(from, start) as u32;
                charged = start;
            }
        }
        own
    }

    /// `unsampled` are calls by row.
    fn figures(
        self,
        capture: &Capture,
        proof: &hosts::Proof,
        unsampled: &[u64],
    ) -> Option<Arrivals> {
        let longest = self.whole.iter().map(|o| o.3 as usize).max()?;
        let busy: Vec<Busy> = self
            .lanes
            .iter()
            .map(|lane| Busy::of(&lane.parts))
            .collect();
        let own = self.own(&busy);
        let held = links::held(&self);
        let mut chains = Chains::new(&self, held.as_deref());
        let mut batches: Vec<[Option<Batches>; 2]> = (0..self.lanes.len())
            .map(|_| [Batches::new(longest), Batches::new(longest)])
            .collect();
        let mut ranks: Vec<RankArrivals> = self
            .lanes
            .iter()
            .map(|lane| RankArrivals {
                rank: lane.rank,
                host: lane.host.clone(),
                pid: lane.pid,
                device: lane.device,
                ..RankArrivals::default()
            })
            .collect();
        let (mut transfer, mut wait, mut saving) = (0.0, 0.0, 0.0);
        let mut arrivals: Vec<(u32, Place)> = Vec::new();
        let mut costs: Vec<f64> = Vec::new();
        let mut scale = Scale::default();
        let mut late: Vec<Late> = Vec::with_capacity(self.whole.len());
        for operation in &self.whole {
            arrivals.clear();
            arrivals.extend(self.of(operation).map(|place| (self.part(place).ns, place)));
            // By arrival: the longest time came first.
            arrivals.sort_unstable_by_key(|(ns, place)| (std::cmp::Reverse(*ns), *place));
            let (n, first) = (arrivals.len(), arrivals[0].0);
            let (shortest, (_, last)) = (arrivals[n - 1].0, arrivals[n - 1]);
            shares(&arrivals, &mut costs);
            let waits = arrivals
                .iter()
                .map(|(ns, _)| u64::from(ns - shortest))
                .sum();
            let later = (arrivals[n - 2].0 - shortest).into();
            scale.add(self.part(last).row, n, waits, later);
            for ((ns, (lane, index)), cost) in arrivals.iter().zip(&costs) {
                let row = &mut ranks[*lane as usize];
                row.operations += 1;
                row.wait_rank_us += f64::from(ns - shortest) / 1e3;
                row.cost_rank_us += cost / 1e3;
                if first > *ns {
                    let start = self.part((*lane, *index)).start;
                    let late = u64::from(first - ns);
                    let each = cost / late as f64;
                    let busy = &busy[*lane as usize];
                    let from = start.saturating_sub(late);
                    let inherited = chains.add(*lane, busy.within(from, start), each);
                    row.inherited_rank_us += inherited / 1e3;
                }
                wait += f64::from(ns - shortest) / 1e3;
            }
            let margin = f64::from(arrivals[n - 2].0 - shortest);
            let own = f64::from(own[last.0 as usize][last.1 as usize]);
            transfer += f64::from(shortest) / 1e3;
            saving += margin / 1e3;
            let row = &mut ranks[last.0 as usize];
            let over_hosts = proof.is_over_hosts(&arrivals);
            let lateness = over_hosts
                .then(|| self.lateness(&arrivals, proof))
                .flatten();
            if margin > 0.0 {
                row.last += 1;
                if over_hosts {
                    row.last_over_hosts += 1;
                    if let Some(late) = lateness {
                        let (least, most) = late.arrival;
                        *row.last_proved.get_or_insert(0) += u64::from(least > 0);
                        *row.last_refuted.get_or_insert(0) += u64::from(most < 0);
                        *row.late_proved_us.get_or_insert(0.0) += least.max(0) as f64 / 1e3;
                    }
                }
            }
            row.saving_wall_us += own / 1e3;
            let launch = match over_hosts {
                true => lateness.and_then(|late| late.launch),
                false => self.launch_lateness(&arrivals).map(|late| (late, late)),
            };
            let reason = match launch {
                Some((least, _)) if least as f64 >= 0.5 * own => Some(Reason::LateLaunch),
                Some((_, most)) if (most as f64) < 0.5 * own => Some(Reason::BusyGpu),
                // Over hosts the clocks may leave it open.
                _ => None,
            };
            row.reason(reason, own / 1e3);
            late.push(Late {
                lane: last.0,
                own_us: own / 1e3,
                reason,
            });
            for (_, (lane, _)) in &arrivals {
                let mine = if *lane == last.0 { own } else { 0.0 };
                let others = (own - mine) / (n - 1) as f64;
                ranks[*lane as usize].excess_wall_us += (mine - others) / 1e3;
                let [plain, excess] = &mut batches[*lane as usize];
                let (index, length) = (operation.2 as usize, operation.3 as usize);
                if let (Some(plain), Some(excess)) = (plain, excess) {
                    plain.add(index, length, mine / 1e3, 1.0);
                    excess.add(index, length, (mine - others) / 1e3, 1.0);
                }
            }
        }
        for (row, [plain, excess]) in ranks.iter_mut().zip(batches) {
            let mean = |batches: Option<Batches>| batches?.mean(0.0);
            let t = |freedom: f64| StudentsT::new(0.0, 1.0, freedom.max(1.0)).ok();
            if let Some(mean) = mean(plain) {
                let n = row.operations as f64;
                row.saving_interval_us = t(mean.freedom).map(|t| {
                    let error = mean.error * t.inverse_cdf(0.5 + CONFIDENCE / 2.0);
                    (n * (mean.mean - error), n * (mean.mean + error))
                });
            }
            if let Some(mean) = mean(excess) {
                row.saving_p = t(mean.freedom).map(|t| match mean.error > 0.0 {
                    true => t.sf(mean.mean / mean.error),
                    false => 0.0,
                });
            }
        }
        chains.finish(capture, &mut ranks);
        let mut replay = None;
        self.losses(&mut ranks, &late, &mut replay);
        let links = links::links(&self, capture, &mut replay);
        ranks.retain(|row| row.operations > 0);
        ranks.sort_by(|a, b| {
            let by_cost = b.cost_rank_us.total_cmp(&a.cost_rank_us);
            b.saving_wall_us
                .total_cmp(&a.saving_wall_us)
                .then(by_cost)
                .then((a.rank, a.pid, a.device).cmp(&(b.rank, b.pid, b.device)))
        });
        Some(Arrivals {
            basis: BASIS,
            operations: self.whole.len() as u64,
            differing: self.differing,
            transfer_wall_us: transfer,
            wait_rank_us: wait,
            saving_wall_us: saving,
            sampled: scale.estimate(unsampled),
            ranks,
            over_network: held.map(|held| links::over_network(&self, &held)),
            links,
        })
    }

    /// What the run loses by those that are late more than chance gives, for the most late of them. `ranks` are by lane.
    fn losses(&self, ranks: &mut [RankArrivals], by: &[Late], replay: &mut Option<loss::Replay>) {
        let mut late = beyond_chance(0..ranks.len(), |lane| ranks[*lane].saving_p, LEVEL);
        late.retain(|lane| ranks[*lane].is_beyond_spread());
        late.sort_by(|a, b| {
            let saving = |lane: &usize| ranks[*lane].saving_wall_us;
            saving(b).total_cmp(&saving(a)).then(a.cmp(b))
        });
        late.truncate(MOST_LATE);
        if late.is_empty() {
            return;
        }
        let replay = replay.get_or_insert_with(|| loss::Replay::new(self));
        for lane in late {
            let loss = replay.loss(lane as u32);
            ranks[lane].loss_wall_us = Some(loss.ns / 1e3);
            ranks[lane].loss_interval_us = loss.interval.map(|(a, b)| (a / 1e3, b / 1e3));
            ranks[lane].launched_late_us = 0.0;
            ranks[lane].gpu_busy_us = 0.0;
            for (operation, origin) in replay.origins(lane as u32) {
                let late = by[operation as usize];
                if late.lane as usize == lane {
                    let reason = by[origin as usize]
                        .reason
                        .filter(|_| by[origin as usize].lane == late.lane);
                    ranks[lane].reason(reason.or(late.reason), late.own_us);
                }
            }
        }
    }

    /// By how much the last to arrive was launched after all others, ns, where one host's clock tells.
    fn launch_lateness(&self, arrivals: &[(u32, Place)]) -> Option<i64> {
        let (_, last) = arrivals.last()?;
        let host = &self.lanes[last.0 as usize].host;
        let mut others = i64::MIN;
        for (_, place) in &arrivals[..arrivals.len() - 1] {
            let launch = self.part(*place).launch_ns;
            if launch == 0 || self.lanes[place.0 as usize].host != *host {
                return None;
            }
            others = others.max(launch);
        }
        let launch = self.part(*last).launch_ns;
        (launch != 0).then(|| launch.saturating_sub(others))
    }
}

/// The cost of each of these ranks, in order of arrival (falling time): waits between one arrival and the next, shared by
/// those that are not there yet. ns.
fn shares(arrivals: &[(u32, Place)], costs: &mut Vec<f64>) {
    costs.clear();
    costs.resize(arrivals.len(), 0.0);
    let mut charged = 0.0;
    for k in 1..arrivals.len() {
        let gap = f64::from(arrivals[k - 1].0 - arrivals[k].0);
        charged += gap * k as f64 / (arrivals.len() - k) as f64;
        costs[k] = charged;
    }
}

#[cfg(test)]
mod tests;

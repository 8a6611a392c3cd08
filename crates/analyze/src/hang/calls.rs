//! Every rank's calls in the order in which it made them, beside those of the other ranks.
//!
//! [`CaptureCalls`] has a [`CommunicatorCalls`] for each communicator of the capture. That has a
//! [`RankCalls`] for each of the communicator's ranks that the capture holds. The index of a rank there is
//! its *member*. A rank's collectives stand in one [`Lane`], and its replays of captured calls in another,
//! because NCCL shows replays only when the GPU reaches them. Sends and receives stand by peer.
//!
//! Rule: calls with the same ordinal on the same lane are one operation, because NCCL requires all ranks of a
//! communicator to make their calls in one order. The k-th send from a to b meets the k-th receive at b from
//! a. A rank with lost rows has no ordinals (`base` is `None`) until `alignment` finds them.

use super::on_gpu::{on_gpu, OnGpu};
use super::reached::{reached, Reached};
use crate::time::HostTime;
use capture::live::{flag, part, Cause};
use std::collections::{BTreeMap, HashMap};
use tables::{Call, Capture, Communicator, Life, Name, Process, Shape};

/// Largest communicator of which absent ranks are listed: a damaged file may claim any number of ranks.
const MOST_RANKS: u32 = 1 << 20;

/// All lanes.
pub(super) const LANES: [Lane; 2] = [Lane::Eager, Lane::Replay];

/// A sequence of calls that all ranks of a communicator make in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
    /// Collectives that the program calls itself.
    Eager = 0,
    /// Replays of collectives that were captured into a CUDA graph.
    Replay = 1,
}

/// The calls of one rank on one communicator. A call is an index into [`Process::calls`].
#[derive(Debug, Default)]
pub(super) struct RankCalls {
    /// Index of the process.
    pub process: usize,
    /// The communicator's number in the process.
    pub uid: u32,
    /// Rank in the communicator.
    pub rank: Option<u32>,
    /// Vertex of the wait-for graph: the process, or one GPU of a process with several.
    pub vertex: usize,
    /// When the rank destroyed the communicator.
    pub ended_at: Option<HostTime>,
    /// Collectives by lane.
    pub calls: [Vec<u32>; 2],
    /// Collectives that the program calls itself, and the first call of each operation in pieces that all
    /// ranks take part in.
    pub units: Vec<u32>,
    /// Ordinal of the first call of the eager lane; `None` if lost rows hide it.
    pub base: Option<u64>,
    /// Sends (`true`) and receives by peer.
    pub pairs: BTreeMap<(bool, u32), Vec<u32>>,
    /// Sends and receives that were entered, before NCCL has told their peer.
    pub inside: Vec<u32>,
    /// All calls since the communicator's creation are known.
    pub whole: bool,
    /// They are known, or were counted before they were forgotten.
    pub counted: bool,
    /// How many were forgotten, by lane.
    pub forgotten: [u64; 2],
    /// The same of sends and receives, by peer.
    pub forgotten_pairs: BTreeMap<(bool, u32), u64>,
    /// The rank may have made newer calls than are known.
    pub at_least: bool,
}

impl RankCalls {
    /// Number of operations that the rank entered on a lane, if that is known.
    pub fn entered(&self, lane: Lane) -> Option<u64> {
        let calls = self.calls[lane as usize].len() as u64;
        match lane {
            Lane::Eager => Some(self.base? + calls),
            Lane::Replay => self.counted.then(|| self.forgotten[1] + calls),
        }
    }

    /// Its newest send or receive that came this far.
    pub fn newest_piece(&self, calls: &CaptureCalls, at_least: Reached) -> Option<u32> {
        let all = self.pairs.values().flatten().chain(&self.inside);
        all.copied()
            .filter(|call| calls.reached(self.process, *call) >= at_least)
            .max()
    }

    /// Its sends to (`true`) or receives from a peer.
    pub fn pairs(&self, send: bool, peer: u32) -> Pairs<'_> {
        Pairs {
            forgotten: self
                .forgotten_pairs
                .get(&(send, peer))
                .map_or(0, |n| *n as usize),
            calls: self.pairs.get(&(send, peer)).map_or(&[], Vec::as_slice),
        }
    }

    /// How many collectives it entered before the rank's call `until`, if that is known.
    pub fn before(&self, until: u32) -> Option<u64> {
        let calls = self.calls[Lane::Eager as usize].partition_point(|call| *call < until);
        Some(self.base? + calls as u64)
    }

    /// The ordinal of one of its own collectives, if that is known.
    pub fn ordinal_of(&self, call: u32) -> Option<u64> {
        let index = self.calls[Lane::Eager as usize].binary_search(&call).ok()?;
        Some(self.base? + index as u64)
    }

    /// Its call with this ordinal.
    pub fn call(&self, lane: Lane, ordinal: u64) -> Option<u32> {
        let base = match lane {
            Lane::Eager => self.base?,
            Lane::Replay => self.forgotten[1],
        };
        let index = usize::try_from(ordinal.checked_sub(base)?).ok()?;
        self.calls[lane as usize].get(index).copied()
    }
}

/// Sends to a peer, or receives from it, by number: the k-th of all that were made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pairs<'c> {
    /// How many of them were forgotten.
    pub forgotten: usize,
    /// The others.
    pub calls: &'c [u32],
}

impl Pairs<'_> {
    /// How many were made.
    pub fn made(&self) -> usize {
        self.forgotten + self.calls.len()
    }

    /// The one with this number, if it is not forgotten.
    pub fn call(&self, number: usize) -> Option<u32> {
        self.calls.get(number.checked_sub(self.forgotten)?).copied()
    }

    /// How many were made before the rank's call `until`.
    pub fn before(&self, until: u32) -> usize {
        self.forgotten + self.calls.partition_point(|call| *call < until)
    }
}

/// Whether a send or receive is a send.
pub(super) fn is_send(capture: &Capture, shape: &Shape) -> bool {
    capture.names.get(shape.function) == Some("Send")
}

/// The calls on one communicator.
#[derive(Debug)]
pub(super) struct CommunicatorCalls {
    /// Its ranks that the capture holds, in the order of [`Communicator::members`].
    pub ranks: Vec<RankCalls>,
    /// Ranks of which the capture holds nothing, if they can be named.
    pub absent: Vec<u32>,
    /// How many ranks that are.
    pub nabsent: u32,
    /// Ordinals count from the communicator's first call.
    pub numbered: bool,
}

impl CommunicatorCalls {
    /// `missing` is how many of the job's processes the capture lacks: any of them may be a rank of a
    /// communicator if NCCL does not tell its size.
    fn new(communicator: &Communicator, ranks: Vec<RankCalls>, missing: u32) -> CommunicatorCalls {
        let mut absent = Vec::new();
        let mut nabsent = missing;
        if let Some(nranks) = communicator.nranks {
            nabsent = nranks.saturating_sub(ranks.len() as u32);
            let named = nranks <= MOST_RANKS && ranks.iter().all(|own| own.rank.is_some());
            if nabsent > 0 && named {
                let mut there = vec![false; nranks as usize];
                for rank in ranks.iter().filter_map(|own| own.rank) {
                    if let Some(there) = there.get_mut(rank as usize) {
                        *there = true;
                    }
                }
                let numbers = there.iter().enumerate().filter(|(_, there)| !**there);
                absent = numbers.map(|(rank, _)| rank as u32).collect();
            }
        }
        CommunicatorCalls {
            ranks,
            absent,
            nabsent,
            numbered: true,
        }
    }

    /// Whether some rank, or some call of a rank, is not known.
    pub fn is_partial(&self) -> bool {
        let hidden = |own: &RankCalls| {
            own.base.is_none() || own.at_least || own.calls[1].len() > 1 && !own.counted
        };
        self.nabsent > 0 || self.ranks.iter().any(hidden)
    }

    /// Whether all its ranks have destroyed it.
    pub fn is_over(&self) -> bool {
        self.ranks.iter().all(|own| own.ended_at.is_some())
    }

    /// Whether more than one rank takes part in it.
    pub fn is_shared(&self) -> bool {
        self.ranks.len() as u32 + self.nabsent > 1
    }
}

/// Communicator and member by process and the process's number of the communicator.
type Owners = HashMap<(usize, u32), (usize, usize)>;

/// A capture's calls.
pub(super) struct CaptureCalls<'a> {
    pub capture: &'a Capture,
    /// In the capture's order.
    pub communicators: Vec<CommunicatorCalls>,
    /// Vertices of the wait-for graph.
    pub vertices: usize,
    /// By process: whether NCCL delivers the GPU's stamps.
    pub stamped: Vec<bool>,
    /// By process: whether another tool says of each collective if the GPU has ended it: it has not ended
    /// those that are open, and all others.
    tells_ends: Vec<bool>,
    /// By process: when its GPU ended the newest timed call.
    pub ended_at: Vec<Option<HostTime>>,
    /// By process: how far its GPU had come with open calls, by ticket.
    on_gpu: Vec<HashMap<u64, OnGpu>>,
}

impl<'a> CaptureCalls<'a> {
    /// The calls of a capture; those of ranks with lost rows are not aligned yet.
    pub fn new(capture: &'a Capture) -> CaptureCalls<'a> {
        let mut owners: Owners = HashMap::new();
        let mut vertices: HashMap<(usize, Option<u32>), usize> = HashMap::new();
        let mut communicators = Vec::with_capacity(capture.communicators.len());
        let missing = missing(capture);
        for (index, communicator) in capture.communicators.iter().enumerate() {
            let mut ranks = Vec::with_capacity(communicator.members.len());
            for member in &communicator.members {
                let process = &capture.processes[member.process];
                let local = process.communicator(member.uid);
                let device = local.and_then(|l| l.device);
                let next = vertices.len();
                let vertex = *vertices.entry((member.process, device)).or_insert(next);
                owners.insert((member.process, member.uid), (index, ranks.len()));
                ranks.push(RankCalls {
                    process: member.process,
                    uid: member.uid,
                    rank: member.rank,
                    vertex,
                    ended_at: local.and_then(|l| l.ended_ns).map(HostTime),
                    ..RankCalls::default()
                });
            }
            communicators.push(CommunicatorCalls::new(communicator, ranks, missing));
        }
        let stamped = |process: &Process| {
            process.fact("timing") == Some("stamps")
                && process.calls.iter().any(|call| call.channels_started > 0)
        };
        let tells_ends = |process: &Process| process.fact("ends") == Some("gpu");
        let mut all = CaptureCalls {
            capture,
            communicators,
            vertices: vertices.len(),
            stamped: capture.processes.iter().map(stamped).collect(),
            tells_ends: capture.processes.iter().map(tells_ends).collect(),
            ended_at: capture.processes.iter().map(ended_at).collect(),
            on_gpu: capture.processes.iter().map(on_gpu).collect(),
        };
        for (index, process) in capture.processes.iter().enumerate() {
            all.deal(index, process, &owners);
        }
        all
    }

    /// Deals the calls of a process out to its ranks.
    fn deal(&mut self, index: usize, process: &Process, owners: &Owners) {
        let mut calls = process.calls.iter().enumerate();
        let whole = process.shapeless == 0 && calls.all(|(i, call)| call.ticket == i as u64);
        let lost = |counters: &tables::process::Counters| {
            let lost = |cause: &Cause| counters.lost.get(*cause as usize).is_some_and(|n| *n > 0);
            Cause::WITHOUT_ROW.iter().any(lost)
        };
        let folded = process.totals.iter().map(|total| total.folded);
        let known = folded.fold(process.forgotten, u64::saturating_add);
        let known = known.saturating_add(process.calls.len() as u64);
        // While it runs, its newest calls may be announced and not written yet.
        let is_over = process.ended || process.life == Life::Gone;
        let fewer = |counters: &tables::process::Counters| is_over && counters.announced > known;
        let counters = process.counters.as_ref();
        // What is missing of calls without a gap is their end.
        let is_cut = whole && process.bad_blocks > 0;
        let rowless = is_cut || counters.is_some_and(|counters| lost(counters) || fewer(counters));
        let owner = |uid: u32| owners.get(&(index, uid)).copied();
        let counted = whole || are_counted(process);
        for (communicator, member) in process.communicators.iter().filter_map(|l| owner(l.uid)) {
            let own = &mut self.communicators[communicator].ranks[member];
            (own.whole, own.counted, own.at_least) = (whole, counted, rowless);
        }
        let of_shape: Vec<_> = process
            .shapes
            .iter()
            .map(|shape| owner(shape.uid))
            .collect();
        if counted && !whole {
            self.forget(process, &of_shape);
        }
        let of_all = |function: Name| {
            let name = self.capture.names.get(function);
            name.is_some_and(|name| matches!(name, "AlltoAll" | "Gather" | "Scatter"))
        };
        for (number, call) in process.calls.iter().enumerate() {
            let shape = &process.shapes[call.shape as usize];
            let Some((communicator, member)) = of_shape[call.shape as usize] else {
                continue;
            };
            if shape.is(flag::CAPTURED) {
                continue;
            }
            let own = &mut self.communicators[communicator].ranks[member];
            let number = number as u32;
            let composite = (call.composite as usize).checked_sub(1);
            let composite = composite.and_then(|index| process.composites.get(index));
            if composite.is_some_and(|c| c.calls.first() == Some(&number) && of_all(c.function)) {
                own.units.push(number);
            }
            if shape.is(flag::REPLAY) {
                own.calls[Lane::Replay as usize].push(number);
            } else if !shape.is(flag::P2P) {
                own.calls[Lane::Eager as usize].push(number);
                own.units.push(number);
            } else if let Some(peer) = shape.peer {
                let send = is_send(self.capture, shape);
                own.pairs.entry((send, peer)).or_default().push(number);
            } else if reached(process, call) < Reached::Launched {
                own.inside.push(number);
            }
        }
    }

    /// Notes how many calls of a process were forgotten.
    fn forget(&mut self, process: &Process, of_shape: &[Option<(usize, usize)>]) {
        let mut kept = vec![0; process.shapes.len()];
        for call in &process.calls {
            kept[call.shape as usize] += 1;
        }
        for (index, shape) in process.shapes.iter().enumerate() {
            let forgotten = process.sums[index].calls.saturating_sub(kept[index]);
            let Some((communicator, member)) = of_shape[index] else {
                continue;
            };
            let own = &mut self.communicators[communicator].ranks[member];
            if shape.is(flag::CAPTURED) {
                continue;
            } else if shape.is(flag::REPLAY) {
                own.forgotten[Lane::Replay as usize] += forgotten;
            } else if !shape.is(flag::P2P) {
                own.forgotten[Lane::Eager as usize] += forgotten;
            } else if let Some(peer) = shape.peer {
                let send = is_send(self.capture, shape);
                *own.forgotten_pairs.entry((send, peer)).or_default() += forgotten;
            }
        }
    }

    /// The process of a communicator's rank.
    pub fn process(&self, communicator: usize, member: usize) -> &'a Process {
        &self.capture.processes[self.communicators[communicator].ranks[member].process]
    }

    /// A call of a rank, and its shape.
    pub fn made(&self, communicator: usize, (member, call): (usize, u32)) -> (&'a Call, &'a Shape) {
        let process = self.process(communicator, member);
        let call = &process.calls[call as usize];
        (call, &process.shapes[call.shape as usize])
    }

    /// Function of the operation that a call is a part of.
    pub fn function(&self, communicator: usize, (member, call): (usize, u32)) -> Name {
        let process = self.process(communicator, member);
        let call = &process.calls[call as usize];
        let composite = (call.composite as usize).wrapping_sub(1);
        match process.composites.get(composite) {
            Some(composite) => composite.function,
            None => process.shapes[call.shape as usize].function,
        }
    }

    /// How far a call of a process came.
    pub fn reached(&self, process: usize, call: u32) -> Reached {
        let of = &self.capture.processes[process];
        let call = &of.calls[call as usize];
        match (reached(of, call), self.on_gpu(process, call)) {
            (Reached::Launched, Some(OnGpu::Begun)) => Reached::Started,
            (Reached::Launched, Some(OnGpu::Ended)) => Reached::Finished,
            (Reached::Launched, None) if self.tells_ends[process] && call.sealed => {
                Reached::Finished
            }
            (by_row, _) => by_row,
        }
    }

    fn on_gpu(&self, process: usize, call: &Call) -> Option<OnGpu> {
        self.on_gpu[process].get(&call.ticket).copied()
    }

    /// Whether the GPU of a process is seen not to have begun a call that was launched.
    pub fn is_before(&self, process: usize, call: u32) -> bool {
        let found = &self.capture.processes[process].calls[call as usize];
        self.reached(process, call) == Reached::Launched
            && (self.stamped[process] || self.on_gpu(process, found) == Some(OnGpu::NotReached))
    }

    /// Whether a call is seen not to have ended.
    pub fn unfinished(&self, process: usize, call: &Call) -> bool {
        match self.on_gpu(process, call) {
            Some(OnGpu::NotReached | OnGpu::Begun) => return true,
            Some(OnGpu::Ended) => return false,
            None => {}
        }
        let of = &self.capture.processes[process];
        let shape = &of.shapes[call.shape as usize];
        if call.sealed || shape.parts & part::ENQUEUED == 0 {
            return false;
        }
        // A send or receive of a batch is never said to have ended.
        if self.tells_ends[process] && !shape.is(flag::P2P) {
            return true;
        }
        let no_kernel = part::COPY_ENGINE | part::SYMMETRIC;
        let stamps = self.stamped[process] && shape.parts & no_kernel == 0;
        let network = (call.extra as usize)
            .checked_sub(1)
            .and_then(|extra| of.extras.get(extra))
            .is_some_and(|extra| extra.ops_started > extra.ops_stopped);
        network || stamps && reached(of, call) != Reached::Finished
    }
}

/// Whether all calls of a process since its start are there or were counted before they were forgotten.
fn are_counted(process: &Process) -> bool {
    let Some(last) = process.calls.last() else {
        return false;
    };
    let counted: u64 = process.sums.iter().map(|sum| sum.calls).sum();
    let mut follow = process.calls.windows(2);
    process.shapeless == 0
        && process.sums.len() == process.shapes.len()
        && counted == last.ticket + 1
        && follow.all(|two| two[1].ticket == two[0].ticket + 1)
}

/// When a process's GPU ended the newest timed call.
fn ended_at(process: &Process) -> Option<HostTime> {
    let ended = process.calls.iter().filter_map(|call| call.gpu.on_host());
    ended.map(|(_, stop)| HostTime(stop)).max()
}

/// How many processes the launcher started of which the capture holds nothing.
fn missing(capture: &Capture) -> u32 {
    let restart = capture
        .processes
        .iter()
        .map(|process| process.restart)
        .max();
    let last = capture
        .processes
        .iter()
        .filter(|process| Some(process.restart) == restart);
    let sizes = last
        .clone()
        .filter_map(|process| process.fact("world_size")?.parse().ok());
    let size: u32 = sizes.max().unwrap_or(0);
    size.saturating_sub(last.count() as u32)
}

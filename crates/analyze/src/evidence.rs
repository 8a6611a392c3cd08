//! What the operations of the ranks that are here prove of the calls of those that are not.
//!
//! Every rank of a communicator takes part in each of its collectives. So if a rank has an AllReduce that
//! ended, all ranks of the communicator have made that call and all collectives before it. That holds even
//! for ranks of which nothing is here. A [`Member`] is a rank of a communicator that is here. A [`Gatherer`]
//! counts how many collectives each member made there, and how many of these all ranks have made for certain.
//! [`Gatherer::finish`] compares the members of a communicator, and finds how many calls of each rank are
//! missing at least.
//!
//! What proves a collective to be everybody's:
//!
//! - it has a GPU time, and it is an AllReduce, AllGather or ReduceScatter, which no rank can leave before
//!   all have come;
//! - a later one of its communicator is proved;
//! - its rank destroyed the communicator, which waits for the GPU, and none of its calls was seen not to end.
//!
//! A receive with a GPU time, or of a rank that destroyed the communicator, proves the send, and a send of
//! such a rank the receive.
//!
//! Rule: figures are lower bounds. Without a proof an operation counts as `begun` only: the others may wait
//! for ever for a rank that died. Calls that were captured into CUDA graphs and their replays count nowhere,
//! because they need not show on all ranks.

use crate::matching::is_collective;
use capture::live::flag;
use pairs::{Pairs, Side};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use tables::{Capture, Communicator, Process, Shape, Untimed};

mod pairs;

/// Functions that no rank can leave before all have come. An AlltoAll is announced as sends and receives.
const SYNCHRONISE: [&str; 3] = ["AllReduce", "AllGather", "ReduceScatter"];

/// No communicator has more ranks than this; a larger number is damaged.
const MOST_RANKS: u32 = 1 << 20;

/// Calls with one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pair {
    made: u64,
    /// Up to the last one with a GPU time.
    timed: u64,
}

/// A rank of a communicator that is here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Member {
    /// Collectives that are here: rows, and calls in totals.
    kept: u64,
    /// Collectives that it made, those included of which NCCL's numbers alone are known.
    made: u64,
    /// Of these, up to the last one that is proved by a GPU time.
    timed: u64,
    /// Some call was seen not to end.
    open: bool,
    /// Sends (true) and receives by peer.
    pairs: BTreeMap<(bool, u32), Pair>,
    /// Sends and receives in totals, which do not say with whom.
    peerless: u64,
    /// Calls of functions that have lost their names.
    unnamed: u64,
}

/// What is gathered.
#[derive(Default)]
pub struct Gatherer {
    /// By process and its number of the communicator.
    members: HashMap<(u32, u32), Member>,
    processes: u32,
}

/// Calls of a function on a communicator of a process.
#[derive(Clone, Copy, Default)]
struct Counter {
    rows: u64,
    totals: u64,
    /// The highest of NCCL's numbers, which count from 1 here.
    highest: u64,
}

impl Counter {
    fn made(&self) -> u64 {
        self.highest.max(self.rows.saturating_add(self.totals))
    }
}

/// What the calls of a shape count as.
#[derive(Clone, Copy)]
enum Counted {
    Nothing,
    Collective {
        local: u32,
        counter: u32,
        synchronises: bool,
    },
    Pair {
        local: u32,
        pair: u32,
    },
    Peerless {
        local: u32,
    },
    Unnamed {
        local: u32,
    },
}

/// One process under way.
pub struct ProcessEvidence {
    process: u32,
    /// By shape.
    kinds: Vec<Counted>,
    /// The process's numbers of its communicators, by local.
    uids: Vec<u32>,
    members: Vec<Member>,
    counters: Vec<Counter>,
    /// Calls with a GPU time of functions that synchronise, by local: the order of those in totals is not
    /// known.
    timed: Vec<u64>,
    /// By the index in [`Kind::Pair`].
    pairs: Vec<(u32, bool, u32, Pair)>,
    /// NCCL's numbers can't be larger. 0 if the numbers are not NCCL's.
    announced: u64,
}

impl Gatherer {
    /// Prepares for a process.
    pub fn plan(&mut self, capture: &Capture, process: &Process) -> ProcessEvidence {
        let mut plan = ProcessEvidence {
            process: self.processes,
            kinds: Vec::with_capacity(process.shapes.len()),
            uids: Vec::new(),
            members: Vec::new(),
            counters: Vec::new(),
            timed: Vec::new(),
            pairs: Vec::new(),
            announced: match process.other_tool() {
                None => process.counters.as_ref().map_or(u64::MAX, |c| c.announced),
                // Numbers of other tools may count several functions together.
                Some(_) => 0,
            },
        };
        self.processes += 1;
        let mut locals: HashMap<u32, u32> = HashMap::new();
        let mut counters = HashMap::new();
        let mut pairs: HashMap<(u32, bool, u32), u32> = HashMap::new();
        for shape in &process.shapes {
            let name = capture.names.get(shape.function).unwrap_or("");
            let next = plan.uids.len() as u32;
            let local = *locals.entry(shape.uid).or_insert(next);
            if local == next {
                plan.uids.push(shape.uid);
                plan.members.push(Member::default());
                plan.timed.push(0);
            }
            let kind = if shape.is(flag::CAPTURED) || shape.is(flag::REPLAY) {
                Counted::Nothing
            } else if let Some(peer) = shape.peer.filter(|_| shape.is(flag::P2P)) {
                let next = plan.pairs.len() as u32;
                let key = (local, name == "Send", peer);
                let pair = *pairs.entry(key).or_insert(next);
                if pair == next {
                    plan.pairs.push((local, key.1, peer, Pair::default()));
                }
                Counted::Pair { local, pair }
            } else if shape.is(flag::P2P) {
                Counted::Peerless { local }
            } else if is_collective(name) {
                let next = plan.counters.len() as u32;
                let counter = *counters.entry((local, shape.series())).or_insert(next);
                if counter == next {
                    plan.counters.push(Counter::default());
                }
                Counted::Collective {
                    local,
                    counter,
                    synchronises: SYNCHRONISE.contains(&name),
                }
            } else if name.is_empty() {
                Counted::Unnamed { local }
            } else {
                Counted::Nothing
            };
            plan.kinds.push(kind);
        }
        plan
    }

    /// Adds the calls of a process, or of a part of it, by ticket.
    pub fn add(&mut self, plan: &mut ProcessEvidence, process: &Process) {
        for call in &process.calls {
            let shape = &process.shapes[call.shape as usize];
            match plan.kinds[call.shape as usize] {
                Counted::Nothing => {}
                Counted::Peerless { local } => plan.members[local as usize].peerless += 1,
                Counted::Unnamed { local } => plan.members[local as usize].unnamed += 1,
                Counted::Pair { local, pair } => {
                    let pair = &mut plan.pairs[pair as usize].3;
                    pair.made += 1;
                    match has_ended(call, shape) {
                        Some(true) => pair.timed = pair.made,
                        Some(false) => plan.members[local as usize].open = true,
                        None => {}
                    }
                }
                Counted::Collective {
                    local,
                    counter,
                    synchronises,
                } => {
                    let member = &mut plan.members[local as usize];
                    let counter = &mut plan.counters[counter as usize];
                    let before = counter.made();
                    counter.rows += 1;
                    // A row of the live part has no checksum, and its number may be anything.
                    if call.sealed {
                        counter.highest = counter.highest.max(call.seq.min(plan.announced));
                    }
                    member.kept += 1;
                    member.made = member.made.saturating_add(counter.made() - before);
                    match has_ended(call, shape) {
                        Some(true) if synchronises => {
                            plan.timed[local as usize] += 1;
                            member.timed = member.made;
                        }
                        Some(false) => member.open = true,
                        _ => {}
                    }
                }
            }
        }
    }

    /// Ends a process.
    pub fn end(&mut self, mut plan: ProcessEvidence, process: &Process) {
        for total in &process.totals {
            let calls = total.folded.saturating_add(total.rowless);
            match plan.kinds[total.shape as usize] {
                Counted::Nothing => {}
                Counted::Unnamed { local } => {
                    let unnamed = &mut plan.members[local as usize].unnamed;
                    *unnamed = unnamed.saturating_add(calls);
                }
                // The peer of a shape in totals stands for none.
                Counted::Peerless { local } | Counted::Pair { local, .. } => {
                    let peerless = &mut plan.members[local as usize].peerless;
                    *peerless = peerless.saturating_add(calls);
                }
                Counted::Collective {
                    local,
                    counter,
                    synchronises,
                } => {
                    let member = &mut plan.members[local as usize];
                    let counter = &mut plan.counters[counter as usize];
                    let before = counter.made();
                    counter.totals = counter.totals.saturating_add(calls);
                    member.kept = member.kept.saturating_add(calls);
                    member.made = member.made.saturating_add(counter.made() - before);
                    if synchronises {
                        let timed = &mut plan.timed[local as usize];
                        *timed = timed.saturating_add(total.timed.min(calls));
                    }
                }
            }
        }
        for (member, timed) in plan.members.iter_mut().zip(plan.timed) {
            member.timed = member.timed.max(timed).min(member.made);
        }
        for (local, sends, peer, pair) in plan.pairs {
            let pairs = &mut plan.members[local as usize].pairs;
            pairs.insert((sends, peer), pair);
        }
        for (uid, member) in plan.uids.into_iter().zip(plan.members) {
            self.members.insert((plan.process, uid), member);
        }
    }

    /// Takes in what was gathered from the processes that follow.
    pub fn merge(&mut self, later: Gatherer) {
        let before = self.processes;
        self.processes += later.processes;
        let moved = later.members.into_iter();
        self.members
            .extend(moved.map(|((process, uid), member)| ((process + before, uid), member)));
    }

    /// What is missing.
    pub fn finish(self, capture: &Capture) -> Found {
        let mut found = Found {
            partial: vec![0; capture.processes.len()],
            absent: Vec::new(),
            undefined: vec![0; capture.processes.len()],
        };
        let communicators = capture.communicators.iter();
        let defined: HashSet<(u32, u32)> = communicators
            .flat_map(|c| c.members.iter().map(|m| (m.process as u32, m.uid)))
            .collect();
        for ((process, uid), member) in &self.members {
            // Calls in totals may have lost their communicator, which is then 0.
            if defined.contains(&(*process, *uid)) {
                continue;
            }
            if let Some(calls) = found.undefined.get_mut(*process as usize) {
                let pairs = member.pairs.values().map(|pair| pair.made);
                let own = pairs.fold(member.kept, u64::saturating_add);
                let rest = member.peerless.saturating_add(member.unnamed);
                *calls = calls.saturating_add(own).saturating_add(rest);
            }
        }
        for (index, communicator) in capture.communicators.iter().enumerate() {
            self.look_at(capture, index, communicator, &mut found);
        }
        found
    }

    fn look_at(&self, capture: &Capture, index: usize, of: &Communicator, found: &mut Found) {
        let none = Member::default();
        let members: Vec<(usize, Option<u32>, &Member, bool)> = of
            .members
            .iter()
            .map(|m| {
                let key = (m.process as u32, m.uid);
                let member = self.members.get(&key).unwrap_or(&none);
                let local = capture.processes[m.process].communicator(m.uid);
                let ended = local.is_some_and(|local| local.ended_ns.is_some());
                (m.process, m.rank, member, ended && !member.open)
            })
            .collect();
        let begun = members.iter().map(|(_, _, m, _)| m.made).max().unwrap_or(0);
        let proved = |(_, _, m, ended): &(usize, Option<u32>, &Member, bool)| match ended {
            true => m.made,
            false => m.timed,
        };
        let proved = members.iter().map(proved).max().unwrap_or(0);
        let pairs = Pairs::of(&members);
        for (process, rank, member, _) in &members {
            // What it counted itself says more, and another tool never meant to have all calls.
            let of = &capture.processes[*process];
            if of.is_whole() || of.other_tool().is_some() {
                continue;
            }
            let alone = rank.map_or(0, |rank| pairs.within(rank..=rank).missing);
            let missing = &mut found.partial[*process];
            *missing = missing
                .saturating_add(proved.saturating_sub(member.kept.saturating_add(member.unnamed)))
                .saturating_add(alone.saturating_sub(member.peerless));
        }
        let ranks: Option<BTreeSet<u32>> = members.iter().map(|(_, rank, ..)| *rank).collect();
        // Below ABI v4 NCCL does not say how many ranks there are; those that are spoken of are there.
        let spoken = ranks.as_ref().and_then(|ranks| {
            let last = ranks.iter().max().max(pairs.0.keys().max());
            last.map(|last| last.saturating_add(1))
        });
        // From outside, one's own rank may be known, and not which communicators are one.
        let of_process = |(process, ..): &(usize, _, _, _)| &capture.processes[*process];
        let spoken = spoken.filter(|_| !members.iter().map(of_process).any(Process::is_attached));
        let Some(nranks) = of.nranks.or(spoken).filter(|n| *n <= MOST_RANKS) else {
            return;
        };
        let absent = |ranks: Ranks, n: u64, side: Side| Absent {
            communicator: index,
            ranks,
            n,
            calls: proved.saturating_mul(n).saturating_add(side.proved),
            begun: begun.saturating_mul(n).saturating_add(side.begun),
        };
        let Some(ranks) = ranks else {
            let n = u64::from(nranks).saturating_sub(members.len() as u64);
            if n > 0 {
                found
                    .absent
                    .push(absent(Ranks::Unknown, n, Side::default()));
            }
            return;
        };
        for (first, last) in gaps(&ranks, nranks) {
            let n = u64::from(last - first) + 1;
            let side = pairs.within(first..=last);
            let ranks = Ranks::Known(first, last);
            found.absent.push(absent(ranks, n, side));
        }
    }
}

/// Whether a call has ended on the GPU, if that was seen.
fn has_ended(call: &tables::Call, shape: &Shape) -> Option<bool> {
    match call.gpu_ns(shape) {
        Ok(_) | Err(Untimed::Fused) => Some(true),
        // An aborted communicator ends without waiting for its calls.
        Err(Untimed::Unfinished | Untimed::SealedEarly) => Some(false),
        Err(_) => None,
    }
}

/// Ranks below `n` that are not in `there`, as first and last of each gap.
pub(crate) fn gaps(there: &BTreeSet<u32>, n: u32) -> Vec<(u32, u32)> {
    let mut gaps = Vec::new();
    let mut next = 0;
    for rank in there.iter().copied().filter(|rank| *rank < n).chain([n]) {
        if rank > next {
            gaps.push((next, rank - 1));
        }
        next = rank.saturating_add(1);
    }
    gaps
}

/// Ranks of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// From the first to the last, which is included.
    Known(u32, u32),
    /// NCCL did not say which.
    Unknown,
}

/// Consecutive ranks of a communicator of which nothing is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absent {
    /// Index of the communicator in the capture.
    pub communicator: usize,
    /// Its ranks.
    pub ranks: Ranks,
    /// How many they are.
    pub n: u64,
    /// How many calls they made at least.
    pub calls: u64,
    /// How many calls they made if they made all that others began.
    pub begun: u64,
}

/// What [`Gatherer::finish`] finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// By process that is here and may have more calls than it counted: how many are missing at least.
    pub partial: Vec<u64>,
    /// Ranks that are not here.
    pub absent: Vec<Absent>,
    /// By process: calls on communicators whose definition is lost. They may be those of an absent rank.
    pub undefined: Vec<u64>,
}

#[cfg(test)]
mod tests;

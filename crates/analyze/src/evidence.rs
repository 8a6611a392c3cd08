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
use crate::notes::is_attached;
use capture::live::flag;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use tables::{Capture, Communicator, Process, Shape, Untimed};

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
    /// NCCL's numbers can't be larger.
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
            announced: process.counters.as_ref().map_or(u64::MAX, |c| c.announced),
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
                let counter = *counters.entry((local, shape.function)).or_insert(next);
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
                let mut locals = capture.processes[m.process].communicators.iter();
                let ended = locals.any(|l| l.uid == m.uid && l.ended_ns.is_some());
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
            // What it counted itself says more.
            if capture.processes[*process].is_whole() {
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
        let spoken = spoken.filter(|_| !members.iter().map(of_process).any(is_attached));
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

/// What the sends and receives of the ranks of a communicator say of a rank.
#[derive(Clone, Copy, Default)]
struct Side {
    /// Its calls that others have the other half of.
    begun: u64,
    /// Those of them that are proved.
    proved: u64,
    /// Those of the proved ones that are not here.
    missing: u64,
}

/// By rank that others sent to or received from.
#[derive(Default)]
struct Pairs(BTreeMap<u32, Side>);

#[derive(Clone, Copy, Default)]
struct Half {
    made: u64,
    /// For how many of them the other side has its half for certain.
    proves: u64,
}

impl Pairs {
    fn of(members: &[(usize, Option<u32>, &Member, bool)]) -> Pairs {
        // By sender and receiver: what the sender made, and the receiver.
        let mut of: HashMap<(u32, u32), [Half; 2]> = HashMap::new();
        for (_, rank, member, ended) in members {
            let Some(own) = *rank else { continue };
            for ((sends, peer), pair) in member.pairs.iter().filter(|((_, peer), _)| *peer != own) {
                let (key, half) = match sends {
                    true => ((own, *peer), 0),
                    false => ((*peer, own), 1),
                };
                // A send may end in buffers, before there is a receive.
                let timed = if *sends { 0 } else { pair.timed };
                let proves = if *ended { pair.made } else { timed };
                let made = pair.made;
                of.entry(key).or_default()[half] = Half { made, proves };
            }
        }
        let mut sides: BTreeMap<u32, Side> = BTreeMap::new();
        for ((from, to), [send, receive]) in of {
            for (rank, own, other) in [(from, send, receive), (to, receive, send)] {
                let side = sides.entry(rank).or_default();
                side.begun = side.begun.saturating_add(other.made);
                side.proved = side.proved.saturating_add(other.proves);
                let missing = other.proves.saturating_sub(own.made);
                side.missing = side.missing.saturating_add(missing);
            }
        }
        Pairs(sides)
    }

    /// What is said of these ranks together.
    fn within(&self, ranks: std::ops::RangeInclusive<u32>) -> Side {
        let sides = self.0.range(ranks).map(|(_, side)| side);
        sides.fold(Side::default(), |sum, side| Side {
            begun: sum.begun.saturating_add(side.begun),
            proved: sum.proved.saturating_add(side.proved),
            missing: sum.missing.saturating_add(side.missing),
        })
    }
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
mod tests {
    use super::*;
    use crate::fixtures::communicator;
    use capture::live::part;
    use tables::communicators::Local;
    use tables::process::Counters;
    use tables::{Call, LiveSource, Name, Total};

    /// A job of ranks of one communicator, each a process.
    struct Job {
        capture: Capture,
        names: [Name; 4],
    }

    const REDUCE: usize = 0;
    const BROADCAST: usize = 1;
    const SEND: usize = 2;
    const RECEIVE: usize = 3;

    impl Job {
        /// Of `nranks` ranks, these are here; `ended` says whether they destroyed their communicator.
        fn new(nranks: u32, here: &[u32], ended: bool) -> Job {
            let mut capture = Capture::default();
            let names = ["AllReduce", "Broadcast", "Send", "Recv"];
            let names = names.map(|name| capture.names.intern(name));
            let mut all = communicator(0, &(0..here.len()).collect::<Vec<_>>());
            all.nranks = Some(nranks);
            for (member, rank) in all.members.iter_mut().zip(here) {
                member.rank = Some(*rank);
            }
            capture.communicators.push(all);
            for rank in here {
                capture.processes.push(Process {
                    rank: Some(*rank),
                    live: LiveSource::Adopted,
                    communicators: vec![Local {
                        nranks,
                        rank: Some(*rank),
                        ended_ns: ended.then_some(1),
                        ..Local::default()
                    }],
                    counters: Some(Counters {
                        announced: 1 << 20,
                        ..Counters::default()
                    }),
                    ..Process::default()
                });
            }
            Job { capture, names }
        }

        /// Process `p` makes `n` calls.
        fn calls(&mut self, p: usize, n: u64, function: usize, timed: bool) -> &mut Job {
            self.calls_with(p, n, function, timed, None, 0)
        }

        fn calls_with(
            &mut self,
            p: usize,
            n: u64,
            function: usize,
            timed: bool,
            peer: Option<u32>,
            flags: u8,
        ) -> &mut Job {
            let process = &mut self.capture.processes[p];
            process.shapes.push(Shape {
                communicator: Some(0),
                function: self.names[function],
                flags: flags | if function >= SEND { flag::P2P } else { 0 },
                parts: part::EVENTS,
                peer,
                ..Shape::default()
            });
            let shape = process.shapes.len() as u32 - 1;
            for _ in 0..n {
                process.calls.push(Call {
                    ticket: process.calls.len() as u64,
                    shape,
                    gpu_start: if timed { 10 } else { 0 },
                    gpu_stop: if timed { 20 } else { 0 },
                    sealed: true,
                    ..Call::default()
                });
            }
            self
        }

        fn found(&self) -> Found {
            let gathered = |processes: &[Process]| {
                let mut gatherer = Gatherer::default();
                for process in processes {
                    let mut plan = gatherer.plan(&self.capture, process);
                    gatherer.add(&mut plan, process);
                    gatherer.end(plan, process);
                }
                gatherer
            };
            let processes = &self.capture.processes;
            let whole = gathered(processes).finish(&self.capture);
            for split in 0..=processes.len() {
                let mut first = gathered(&processes[..split]);
                first.merge(gathered(&processes[split..]));
                assert_eq!(first.finish(&self.capture), whole, "{split}");
            }
            whole
        }

        /// Of each gap: first and last rank, calls that are proved, and those that others began.
        fn absent(&self) -> Vec<(u32, u32, u64, u64)> {
            let of = |a: &Absent| match a.ranks {
                Ranks::Known(first, last) => (first, last, a.calls, a.begun),
                Ranks::Unknown => (u32::MAX, a.n as u32, a.calls, a.begun),
            };
            self.found().absent.iter().map(of).collect()
        }
    }

    #[test]
    fn nothing_is_missing_of_a_whole_communicator() {
        let mut job = Job::new(2, &[0, 1], true);
        job.calls(0, 9, REDUCE, true).calls(1, 4, REDUCE, true);
        // Rank 1 counted its calls itself: it made 4.
        assert_eq!(
            job.found(),
            Found {
                partial: vec![0, 0],
                absent: vec![],
                undefined: vec![0, 0]
            }
        );
    }

    #[test]
    fn of_communicators_that_attach_did_not_see_made_no_rank_is_missing() {
        let mut job = Job::new(2, &[1], false);
        job.calls(0, 7, REDUCE, true);
        job.capture.communicators[0].nranks = None;
        assert_eq!(job.absent(), [(0, 0, 7, 7)]);
        let facts = &mut job.capture.processes[0].facts;
        facts.insert("mode".into(), "attach".into());
        assert_eq!(job.absent(), []);
    }

    #[test]
    fn a_rank_that_is_not_here_made_what_ended_elsewhere() {
        // The last 2 had not ended when rank 0 was killed, and of a Broadcast the root need not wait.
        let mut job = Job::new(4, &[0, 1], false);
        job.calls(0, 7, REDUCE, true).calls(0, 2, REDUCE, false);
        job.calls(1, 7, REDUCE, true).calls(1, 1, BROADCAST, true);
        assert_eq!(job.absent(), [(2, 3, 14, 18)]);
    }

    #[test]
    fn an_operation_proves_those_before_it() {
        let mut job = Job::new(3, &[0, 2], false);
        job.calls(0, 5, BROADCAST, false).calls(0, 1, REDUCE, true);
        job.calls(1, 6, BROADCAST, false);
        assert_eq!(job.absent(), [(1, 1, 6, 6)]);
    }

    #[test]
    fn without_gpu_times_a_destroyed_communicator_is_the_proof() {
        for (ended, proved) in [(true, 8), (false, 0)] {
            let mut job = Job::new(2, &[1], ended);
            job.calls(0, 8, REDUCE, false);
            assert_eq!(job.absent(), [(0, 0, proved, 8)]);
        }
    }

    #[test]
    fn a_communicator_that_was_aborted_in_a_call_proves_nothing() {
        let mut job = Job::new(2, &[1], true);
        job.calls(0, 3, REDUCE, true).calls(0, 1, REDUCE, false);
        let call = job.capture.processes[0].calls.last_mut().expect("a call");
        // Begun on the GPU, and never ended.
        call.sealed = false;
        assert_eq!(job.absent(), [(0, 0, 3, 4)]);
    }

    #[test]
    fn numbers_of_nccl_fill_lost_rows_in() {
        let mut job = Job::new(2, &[0], true);
        job.calls(0, 3, REDUCE, false);
        for (call, seq) in job.capture.processes[0].calls.iter_mut().zip([1, 2, 9]) {
            call.seq = seq;
        }
        assert_eq!(job.absent(), [(1, 1, 9, 9)]);
        // No more than were announced.
        let counters = &mut job.capture.processes[0].counters;
        counters.as_mut().expect("counters").announced = 5;
        assert_eq!(job.absent(), [(1, 1, 5, 5)]);
    }

    #[test]
    fn totals_count_and_say_how_many_had_a_time() {
        let mut job = Job::new(2, &[0], false);
        job.calls(0, 0, REDUCE, false);
        job.capture.processes[0].totals = vec![Total {
            folded: 20,
            rowless: 5,
            timed: 12,
            ..Total::default()
        }];
        assert_eq!(job.absent(), [(1, 1, 12, 25)]);
    }

    #[test]
    fn captured_calls_and_replays_need_not_show_everywhere() {
        let mut job = Job::new(2, &[0], true);
        job.calls_with(0, 5, REDUCE, false, None, flag::CAPTURED);
        job.calls_with(0, 50, REDUCE, true, None, flag::REPLAY);
        assert_eq!(job.absent(), [(1, 1, 0, 0)]);
    }

    #[test]
    fn a_receive_proves_the_send_and_a_send_alone_nothing() {
        let mut job = Job::new(3, &[0], false);
        job.calls_with(0, 6, SEND, true, Some(1), 0);
        job.calls_with(0, 4, RECEIVE, true, Some(2), 0);
        assert_eq!(job.absent(), [(1, 2, 4, 10)]);
        job.capture.processes[0].communicators[0].ended_ns = Some(1);
        assert_eq!(job.absent(), [(1, 2, 10, 10)]);
        // With oneself.
        let mut alone = Job::new(2, &[0], true);
        alone.calls_with(0, 6, SEND, true, Some(0), 0);
        assert_eq!(alone.absent(), [(1, 1, 0, 0)]);
    }

    #[test]
    fn a_rank_that_is_here_in_part_lacks_what_it_does_not_have() {
        let mut job = Job::new(2, &[0, 1], true);
        job.calls(0, 9, REDUCE, false);
        job.calls_with(0, 3, SEND, false, Some(1), 0);
        job.calls(1, 4, REDUCE, false);
        job.calls_with(1, 1, RECEIVE, false, Some(0), 0);
        job.capture.processes[1].live = LiveSource::None;
        assert_eq!(job.found().partial, [0, 7]);
        // Of receives in totals it is not known from whom they are.
        job.calls_with(1, 0, RECEIVE, false, None, 0);
        let shape = job.capture.processes[1].shapes.len() as u32 - 1;
        job.capture.processes[1].totals = vec![Total {
            shape,
            folded: 2,
            ..Total::default()
        }];
        assert_eq!(job.found().partial, [0, 5]);
    }

    #[test]
    fn ranks_that_make_different_calls_lack_nothing() {
        // They disagree in every function, and not in how many calls they made.
        let mut job = Job::new(3, &[0, 1], true);
        job.calls(0, 6, REDUCE, true).calls(1, 6, BROADCAST, true);
        job.capture.processes[1].live = LiveSource::Snapshot;
        assert_eq!(job.found().partial, [0, 0]);
        assert_eq!(job.absent(), [(2, 2, 6, 6)]);
    }

    #[test]
    fn an_old_nccl_tells_no_size_and_what_is_spoken_of_is_there() {
        let mut job = Job::new(4, &[0, 1, 3], true);
        job.capture.communicators[0].nranks = None;
        job.calls(0, 2, REDUCE, true);
        assert_eq!(job.absent(), [(2, 2, 2, 2)]);
        job.calls_with(0, 1, SEND, true, Some(5), 0);
        assert_eq!(job.absent(), [(2, 2, 2, 2), (4, 5, 5, 5)]);
        // Nor, older still, which ranks are here.
        job.capture.communicators[0].nranks = Some(4);
        job.capture.communicators[0].members[2].rank = None;
        assert_eq!(job.absent(), [(u32::MAX, 1, 2, 2)]);
    }

    #[test]
    fn a_damaged_number_of_ranks_makes_no_long_list() {
        let mut job = Job::new(u32::MAX, &[0], true);
        job.calls(0, 2, REDUCE, true);
        assert_eq!(job.absent(), []);
    }
}

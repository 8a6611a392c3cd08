//! The engine: when everything runs that a script asks for.
//!
//! It plays a job event by event, in the order of time. A kernel begins when it is launched, when the one
//! before it on its stream is over, and when what its stream waits for is over. An operation of NCCL ends
//! when its last rank has come and its transfer is done. While a kernel of NCCL is on a GPU, the others take
//! [`Job::beside`] times as long. A host goes on until its driver's queue is full or it waits for its GPU.

use crate::random::Random;
use crate::step::{Do, Fault, Job, Step, Way};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use tables::windows::DriverCall;

/// Ns in a millisecond.
pub const MS: i64 = 1_000_000;
pub(crate) const SINCE_1970: i64 = 1_700_000_000_000_000_000;
/// A kernel begins so long after its launch, ns.
const LAUNCHED: i64 = 4_000;
/// A launch takes its host so long, and NCCL a call, ns.
const LAUNCH: f64 = 4e3;
const CALL: f64 = 15e3;
/// A call returns so long after its launch, ns.
pub(crate) const RETURNS: i64 = 1000;
/// A launch of a graph, and for each node in it, ns.
const GRAPH: f64 = 8e3;
const GRAPH_NODE: f64 = 150.0;
/// From the end of a kernel to the beginning of the next on its stream, ns.
const AFTER: i64 = 1_000;
/// Launches that a GPU may be behind its host.
const QUEUE: usize = 1000;
/// CUDA's ids of streams.
pub(crate) const FIRST_STREAM: u32 = 7;
/// Streams of a rank.
pub(crate) const STREAMS: usize = 8;

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) does: Kind,
    pub(crate) stream: usize,
    pub(crate) launch: i64,
    /// The first node of the graph launch that it belongs to.
    pub(crate) graph: Option<usize>,
    /// What the one that keeps it waiting last ended at.
    ready: i64,
    /// Nodes before it that have not ended, or messages whose other side has not come.
    missing: usize,
    /// Nodes behind it.
    next: Vec<usize>,
    pub(crate) start: Option<i64>,
    pub(crate) end: Option<i64>,
    /// Of what computes: what is left of it, ns, as of when, and how often that changed.
    left: f64,
    since: i64,
    version: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Compute(&'static str, i64),
    /// Communicator and number on it.
    Collective(usize, usize),
    /// Message of each way, and how long it takes.
    Pass(Vec<Message>, i64),
}

/// Communicator, from, to and number.
type Message = (usize, usize, usize, usize);

#[derive(Clone, Debug)]
pub(crate) struct Called {
    pub(crate) node: usize,
    pub(crate) comm: usize,
    pub(crate) function: &'static str,
    pub(crate) bytes: u64,
    pub(crate) ways: Vec<Way>,
    pub(crate) datatype: &'static str,
    pub(crate) api: i64,
    pub(crate) launch: i64,
    pub(crate) back: i64,
    /// How the computing stream came to wait for it.
    pub(crate) waited_by: Option<Waited>,
}

/// How a stream came to wait for a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waited {
    /// What was on it before.
    pub(crate) busy: Option<usize>,
    /// What it waited for just before.
    pub(crate) before: Option<usize>,
    /// When the host asked for it.
    pub(crate) asked: i64,
}

#[derive(Default)]
pub(crate) struct Rank {
    pub(crate) host: f64,
    pub(crate) nodes: Vec<Node>,
    tails: Vec<Vec<usize>>,
    does: VecDeque<Do>,
    pub(crate) asked: Vec<DriverCall>,
    pub(crate) calls: Vec<Called>,
    step: usize,
    sent: HashMap<(usize, usize, usize), usize>,
    received: HashMap<(usize, usize, usize), usize>,
    joined: HashMap<usize, usize>,
    /// By communicator: its last collective.
    collectives: HashMap<usize, usize>,
    /// The last node of each launch.
    launches: Vec<usize>,
    /// The node that its host waits for.
    blocked: Option<usize>,
    /// Kernels of NCCL that are on the GPU, and others.
    resident: usize,
    running: Vec<usize>,
    /// How slow the host and the GPU are, which changes slowly.
    slow: [f64; 2],
    /// When each step began on the host.
    pub(crate) begun: Vec<i64>,
    /// Launches of graphs: their first node, when, and for how long, ns.
    pub(crate) graphs: Vec<(usize, i64, u64)>,
    /// When its host did its last, if it does nothing more.
    pub(crate) stopped: Option<i64>,
    /// Communicators that it destroyed, and when.
    pub(crate) destroyed: Vec<(usize, i64)>,
}

impl Rank {
    /// Whether it has done all, and its GPU too.
    pub(crate) fn is_over(&self) -> bool {
        let has_ended = |node: &Node| node.end.is_some();
        self.does.is_empty() && self.stopped.is_none() && self.nodes.iter().all(has_ended)
    }
}

struct Operation {
    came: Vec<(usize, usize)>,
    ns: i64,
    /// Function, bytes and datatype of the rank that was first to call it.
    what: (&'static str, u64, &'static str),
    /// Another rank's call differs, so it never ends.
    differs: bool,
}

/// A job that was played.
pub struct Played {
    pub(crate) comms: Vec<Vec<usize>>,
    pub(crate) ranks: Vec<Rank>,
    /// By rank.
    pub(crate) hosts: Vec<usize>,
    /// How long it took, s.
    pub seconds: f64,
    pub(crate) seed: u64,
    pub(crate) steps: usize,
}

impl Played {
    /// The mean of so many steps, s: the last ones, and those until the one before. `None` if there are no so
    /// many steps behind the first, or if a rank's GPU has nothing to do in one of them.
    pub fn mean_of_steps(&self, n: usize) -> Option<[f64; 2]> {
        let last = self.steps.checked_sub(1)?;
        let ended = |rank: &Rank, step: usize| {
            let next = rank.begun.get(step + 1).copied().unwrap_or(i64::MAX);
            let range = *rank.begun.get(step)?..next;
            let nodes = rank.nodes.iter();
            let nodes = nodes.filter(|node| range.contains(&node.launch));
            nodes.filter_map(|node| node.end).max()
        };
        let mean = |until: usize| {
            let before = until.checked_sub(n).filter(|_| n > 0)?;
            let lasted = |rank| Some(ended(rank, until)? - ended(rank, before)?);
            let lasted: Option<Vec<i64>> = self.ranks.iter().map(lasted).collect();
            let sum = lasted?.iter().sum::<i64>() as f64;
            Some(sum / self.ranks.len() as f64 / n as f64 / 1e9)
        };
        let of_last = mean(last)?;
        Some([of_last, mean(last - 1).unwrap_or(of_last)])
    }
}

/// Plays a job; `late` is what the straggler does.
pub fn play<'s>(job: &'s Job, seed: u64, late: Option<&'s dyn Fn(&mut Step)>) -> Played {
    let fault = Fault {
        within: late,
        ..Fault::default()
    };
    play_with(job, seed, fault)
}

/// Plays a job that has this fault.
pub fn play_with<'s>(job: &'s Job, seed: u64, fault: Fault<'s>) -> Played {
    let played = play_open(job, seed, fault);
    for (number, rank) in played.ranks.iter().enumerate() {
        assert!(rank.is_over(), "rank {number} hangs in step {}", rank.step);
    }
    played
}

/// Plays a job that may hang: until nothing happens any more.
pub(crate) fn play_open<'s>(job: &'s Job, seed: u64, fault: Fault<'s>) -> Played {
    let ranks = (0..job.ranks).map(|rank| {
        let mut seeds = Random(seed.wrapping_mul(1000) + rank as u64);
        Rank {
            host: 1e6 + 2e5 * seeds.uniform(),
            tails: vec![Vec::new(); STREAMS],
            ..Rank::default()
        }
    });
    let mut play = Play {
        job,
        fault,
        seed,
        ranks: ranks.collect(),
        operations: job.comms.iter().map(|_| Vec::new()).collect(),
        messages: HashMap::new(),
        heap: BinaryHeap::new(),
        events: 0,
    };
    play.run();
    let ranks = play.ranks;
    let ends = ranks
        .iter()
        .flat_map(|r| r.nodes.iter().filter_map(|n| n.end));
    Played {
        comms: job.comms.clone(),
        hosts: (0..job.ranks).map(|rank| job.host(rank)).collect(),
        seconds: ends.max().unwrap_or(0) as f64 / 1e9,
        ranks,
        seed,
        steps: job.steps,
    }
}

/// What happens to a node of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Starts,
    /// Ends, if its version is still this.
    Ends(u32),
}

/// Time, number of the event, rank, node, and what happens.
type Timed = (i64, u64, usize, usize, Event);

struct Play<'s> {
    job: &'s Job<'s>,
    fault: Fault<'s>,
    seed: u64,
    ranks: Vec<Rank>,
    operations: Vec<Vec<Operation>>,
    /// The rank and the node that have come to one side of a message.
    messages: HashMap<Message, (usize, usize)>,
    heap: BinaryHeap<Reverse<Timed>>,
    events: u64,
}

impl Play<'_> {
    fn run(&mut self) {
        for rank in 0..self.ranks.len() {
            self.host(rank);
        }
        while let Some(Reverse((at, _, rank, node, event))) = self.heap.pop() {
            match event {
                Event::Starts => self.starts(rank, node, at),
                Event::Ends(version) if version == self.ranks[rank].nodes[node].version => {
                    self.ends(rank, node, at);
                }
                Event::Ends(_) => {}
            }
        }
    }

    fn at(&mut self, at: i64, rank: usize, node: usize, event: Event) {
        self.events += 1;
        self.heap
            .push(Reverse((at, self.events, rank, node, event)));
    }

    /// A node ends then. Ends are apart by some 0.3 us.
    fn ends_at(&mut self, at: i64, rank: usize, node: usize) {
        if at == i64::MAX {
            return;
        }
        let apart = (node as i64 * 7919 + rank as i64 * 104_729).rem_euclid(300);
        let version = self.ranks[rank].nodes[node].version;
        self.at(at + apart, rank, node, Event::Ends(version));
    }

    fn starts(&mut self, rank: usize, index: usize, at: i64) {
        let node = &mut self.ranks[rank].nodes[index];
        node.start = Some(at);
        match node.does.clone() {
            // It never ends.
            Kind::Compute(_, i64::MAX) => {}
            Kind::Compute(_, ns) => {
                (node.left, node.since) = (ns as f64, at);
                self.ranks[rank].running.push(index);
                self.goes_on(rank, index, at);
            }
            Kind::Collective(comm, number) => {
                self.changes(rank, at, 1);
                let operation = &mut self.operations[comm][number];
                operation.came.push((rank, index));
                let are_all = operation.came.len() == self.job.comms[comm].len();
                if are_all && !operation.differs {
                    let end = at.saturating_add(operation.ns);
                    for (rank, index) in std::mem::take(&mut operation.came) {
                        self.ends_at(end, rank, index);
                    }
                }
            }
            Kind::Pass(messages, ns) => {
                self.changes(rank, at, 1);
                let mut missing = 0;
                for key in messages.iter().filter(|(_, from, to, _)| from != to) {
                    match self.messages.remove(key) {
                        None => {
                            self.messages.insert(*key, (rank, index));
                            missing += 1;
                        }
                        Some((other, of)) => {
                            let node = &mut self.ranks[other].nodes[of];
                            node.missing -= 1;
                            if let (0, Kind::Pass(_, ns)) = (node.missing, &node.does) {
                                let end = at.saturating_add(*ns);
                                self.ends_at(end, other, of);
                            }
                        }
                    }
                }
                self.ranks[rank].nodes[index].missing = missing;
                if missing == 0 {
                    self.ends_at(at.saturating_add(ns), rank, index);
                }
            }
        }
    }

    /// How many times as long kernels take on a rank now.
    fn pace(&self, rank: usize) -> f64 {
        match self.ranks[rank].resident {
            0 => 1.0,
            _ => self.job.beside,
        }
    }

    /// A kernel that computes goes on at today's pace.
    fn goes_on(&mut self, rank: usize, index: usize, at: i64) {
        let pace = self.pace(rank);
        let node = &mut self.ranks[rank].nodes[index];
        node.version += 1;
        let end = at + (node.left * pace).round() as i64;
        self.ends_at(end, rank, index);
    }

    /// A kernel of NCCL comes to the GPU or leaves it.
    fn changes(&mut self, rank: usize, at: i64, by: isize) {
        let before = self.pace(rank);
        let resident = &mut self.ranks[rank].resident;
        *resident = resident.saturating_add_signed(by);
        if self.pace(rank) == before {
            return;
        }
        for index in self.ranks[rank].running.clone() {
            let node = &mut self.ranks[rank].nodes[index];
            node.left = (node.left - (at - node.since) as f64 / before).max(0.0);
            node.since = at;
            self.goes_on(rank, index, at);
        }
    }

    fn ends(&mut self, rank: usize, index: usize, at: i64) {
        let of = &mut self.ranks[rank];
        of.nodes[index].end = Some(at);
        let next = std::mem::take(&mut of.nodes[index].next);
        match of.nodes[index].does {
            Kind::Compute(..) => of.running.retain(|other| *other != index),
            _ => self.changes(rank, at, -1),
        }
        for behind in next {
            let node = &mut self.ranks[rank].nodes[behind];
            node.ready = node.ready.max(at + AFTER);
            node.missing -= 1;
            if node.missing == 0 {
                let ready = node.ready;
                self.at(ready, rank, behind, Event::Starts);
            }
        }
        if self.ranks[rank].blocked == Some(index) {
            self.ranks[rank].blocked = None;
            self.host(rank);
        }
    }

    /// The next step of a rank; false if there is none.
    fn next_step(&mut self, number: usize) -> bool {
        let (job, fault) = (self.job, self.fault);
        let rank = &mut self.ranks[number];
        if rank.step == job.steps {
            return false;
        }
        let key = (self.seed.wrapping_mul(31) + number as u64).wrapping_mul(1_000_003);
        let mut random = Random(key.wrapping_add(rank.step as u64 * 7919));
        // Half of the noise stays from step to step.
        for of in &mut rank.slow {
            *of = 0.5 * *of + 0.75f64.sqrt() * random.normal();
        }
        let of = |z: f64| (1.0 + job.of_steps * z).max(0.3);
        let mut step = Step {
            rank: number,
            ranks: job.ranks,
            number: rank.step,
            steps: job.steps,
            noise: job.noise,
            tails: job.tails,
            slow_host: of(rank.slow[0]),
            slow_gpu: of(rank.slow[1]),
            random,
            per_launch: job.per_launch,
            fault,
            does: Vec::new(),
        };
        if let Some(before) = fault.before {
            before(&mut step);
        }
        (job.script)(&mut step);
        if let Some(after) = fault.after {
            after(&mut step);
        }
        let rank = &mut self.ranks[number];
        rank.begun.push(rank.host as i64);
        rank.does = step.does.into();
        rank.step += 1;
        true
    }

    /// The host goes on until it waits.
    fn host(&mut self, number: usize) {
        use capture::windows::DriverCallKind;
        loop {
            let rank = &mut self.ranks[number];
            if rank.stopped.is_some() {
                return;
            }
            let Some(next) = rank.does.front() else {
                if self.next_step(number) {
                    continue;
                }
                return;
            };
            let launches = matches!(next, Do::Compute { .. } | Do::Call { .. } | Do::Graph(_));
            // The queue of the driver.
            let mut waited = 0.0;
            if launches && rank.launches.len() >= QUEUE {
                let before = rank.launches[rank.launches.len() - QUEUE];
                match rank.nodes[before].end {
                    None => {
                        rank.blocked = Some(before);
                        return;
                    }
                    Some(end) => waited = (end as f64 - rank.host).max(0.0),
                }
            }
            if let Do::Sync(stream) = next {
                let tails = &rank.tails[*stream];
                if let Some(open) = tails.iter().find(|n| rank.nodes[**n].end.is_none()) {
                    rank.blocked = Some(*open);
                    return;
                }
            }
            let Some(next) = rank.does.pop_front() else {
                return;
            };
            match next {
                Do::Host(ns) => rank.host += ns,
                Do::Compute { .. } => {
                    rank.asks(DriverCallKind::Launch, LAUNCH + waited);
                    self.queue(number, next, None);
                }
                Do::Call { .. } => {
                    let api = rank.host as i64;
                    // NCCL is as slow as its host.
                    rank.host += CALL;
                    let launch = rank.host as i64;
                    rank.asks(DriverCallKind::Launch, LAUNCH + waited);
                    self.queue(number, next, None);
                    let rank = &mut self.ranks[number];
                    let back = rank.host as i64 + RETURNS;
                    if let Some(called) = rank.calls.last_mut() {
                        (called.api, called.launch, called.back) = (api, launch, back);
                    }
                }
                Do::Graph(all) => {
                    let (at, first) = (rank.host as i64, rank.nodes.len());
                    let took = GRAPH + GRAPH_NODE * all.len() as f64 + waited;
                    rank.asks(DriverCallKind::LaunchGraph, took);
                    rank.graphs.push((first, at, took as u64));
                    for one in all {
                        self.queue(number, one, Some(first));
                    }
                }
                Do::Enters(call) => {
                    let api = rank.host as i64;
                    rank.stopped = Some(api);
                    self.queue(number, *call, None);
                    if let Some(called) = self.ranks[number].calls.last_mut() {
                        (called.api, called.launch, called.back) = (api, i64::MAX, i64::MAX);
                    }
                }
                Do::Stops => rank.stopped = Some(rank.host as i64),
                Do::Ends(comm) => rank.destroyed.push((comm, rank.host as i64)),
                Do::Wait(stream, on) => {
                    rank.asks(DriverCallKind::Record, 1e3);
                    rank.asks(DriverCallKind::Wait, 1e3);
                    rank.waits(stream, on, self.job.waits_for_each);
                }
                Do::Sync(stream) => {
                    let ends = rank.tails[stream].iter().filter_map(|n| rank.nodes[*n].end);
                    let end = ends.max().unwrap_or(0) as f64;
                    let took = 2e3 + (end - rank.host).max(0.0);
                    rank.asks(DriverCallKind::Synchronise, took);
                }
            }
            let rank = &mut self.ranks[number];
            if launches && !rank.nodes.is_empty() {
                rank.launches.push(rank.nodes.len() - 1);
            }
        }
    }

    /// Puts a kernel or a call of NCCL on its stream.
    fn queue(&mut self, number: usize, what: Do, graph: Option<usize>) {
        let job = self.job;
        match what {
            Do::Compute { name, ns, stream } => {
                self.push(number, Kind::Compute(name, ns as i64), stream, graph);
            }
            Do::Call {
                comm,
                function,
                bytes,
                ns,
                stream,
                ways,
                datatype,
            } => {
                let step = self.ranks[number].step - 1;
                let ns = (ns * between(job, self.fault, (step, number), comm, &ways)) as i64;
                let rank = &mut self.ranks[number];
                let kind = if ways.is_empty() {
                    let at = rank.joined.entry(comm).or_default();
                    let index = *at;
                    *at += 1;
                    let what = (function, bytes, datatype);
                    match self.operations[comm].get_mut(index) {
                        Some(operation) => operation.differs |= operation.what != what,
                        None => self.operations[comm].push(Operation {
                            came: Vec::new(),
                            ns,
                            what,
                            differs: false,
                        }),
                    }
                    // Kernels of a communicator follow each other, on whatever streams they are. Sends and
                    // receives between different ranks are thought to have communicators of their own.
                    let before = rank.collectives.insert(comm, rank.nodes.len());
                    rank.tails[stream].extend(before);
                    Kind::Collective(comm, index)
                } else {
                    Kind::Pass(
                        ways.iter()
                            .map(|way| rank.message(number, comm, *way))
                            .collect(),
                        ns,
                    )
                };
                let node = self.push(number, kind, stream, graph);
                let rank = &mut self.ranks[number];
                rank.calls.push(Called {
                    node,
                    comm,
                    function,
                    bytes,
                    ways,
                    datatype,
                    api: rank.host as i64,
                    launch: rank.host as i64,
                    back: rank.host as i64,
                    waited_by: None,
                });
            }
            Do::Wait(stream, on) => self.ranks[number].waits(stream, on, job.waits_for_each),
            Do::Host(_) | Do::Sync(_) | Do::Graph(_) | Do::Enters(_) | Do::Stops | Do::Ends(_) => {}
        }
    }

    fn push(&mut self, number: usize, does: Kind, stream: usize, graph: Option<usize>) -> usize {
        let rank = &mut self.ranks[number];
        let node = rank.nodes.len();
        let launch = rank.host as i64;
        let mut ready = launch + LAUNCHED;
        let mut missing = 0;
        let mut behind = std::mem::replace(&mut rank.tails[stream], vec![node]);
        behind.sort_unstable();
        behind.dedup();
        for before in behind {
            match rank.nodes[before].end {
                Some(end) => ready = ready.max(end + AFTER),
                None => {
                    rank.nodes[before].next.push(node);
                    missing += 1;
                }
            }
        }
        // A host that enters a call and stops does not launch it.
        missing += usize::from(rank.stopped.is_some());
        rank.nodes.push(Node {
            does,
            stream,
            launch,
            graph,
            ready,
            missing,
            next: Vec::new(),
            start: None,
            end: None,
            left: 0.0,
            since: 0,
            version: 0,
        });
        if missing == 0 {
            self.at(ready, number, node, Event::Starts);
        }
        node
    }
}

impl Rank {
    /// The host calls the driver.
    fn asks(&mut self, kind: capture::windows::DriverCallKind, took: f64) {
        self.asked.push(DriverCall {
            at: SINCE_1970 + self.host as i64,
            took: took as u64,
            kind,
            thread: 100,
            stream: FIRST_STREAM,
            object: 0,
        });
        self.host += took;
    }

    /// A stream waits for what is on another so far: for each call since the last wait, or for the last call
    /// alone.
    fn waits(&mut self, stream: usize, on: usize, for_each: bool) {
        let busy = self.tails[0].first().copied();
        if stream == 0 {
            let (asked, nodes) = (self.host as i64, &self.nodes);
            let calls = self.calls.iter_mut().rev();
            let there = calls.filter(|call| nodes[call.node].stream == on);
            let fresh = there.take_while(|call| call.waited_by.is_none());
            let mut fresh: Vec<&mut Called> =
                fresh.take(if for_each { usize::MAX } else { 1 }).collect();
            fresh.reverse();
            let mut before = None;
            for call in fresh {
                call.waited_by = Some(Waited {
                    busy,
                    before,
                    asked,
                });
                before = Some(call.node);
            }
        }
        let more = self.tails[on].clone();
        self.tails[stream].extend(more);
    }

    /// The next message that way.
    fn message(&mut self, number: usize, comm: usize, way: Way) -> Message {
        let (from, to, sends) = match way {
            Way::To(peer) => (number, peer, true),
            Way::From(peer) => (peer, number, false),
        };
        let counts = if sends {
            &mut self.sent
        } else {
            &mut self.received
        };
        let at = counts.entry((comm, from, to)).or_default();
        *at += 1;
        (comm, from, to, *at - 1)
    }
}

/// How many times as long a transfer takes: between hosts, and over a slow link.
fn between(
    job: &Job,
    fault: Fault,
    (step, rank): (usize, usize),
    comm: usize,
    ways: &[Way],
) -> f64 {
    let peers = ways.iter().map(|way| match way {
        Way::To(peer) | Way::From(peer) => *peer,
    });
    let mut all: Vec<usize> = if ways.is_empty() {
        job.comms[comm].clone()
    } else {
        peers.chain([rank]).collect()
    };
    all.sort_unstable();
    all.dedup();
    let far = all.iter().any(|r| job.host(*r) != job.host(all[0]));
    let across = if far { job.across } else { 1.0 };
    across * fault.link.map_or(1.0, |link| link(&all, step))
}

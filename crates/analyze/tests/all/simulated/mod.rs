//! Jobs of which all is known: ranks with a host, streams and communicators, played in memory.
//!
//! A script says what the hosts do in a step: they work, launch kernels and call NCCL. [`play`] works out
//! when each kernel runs. A kernel begins when it is launched, when the one before it on its stream is over,
//! and when what its stream waits for is over. An operation of NCCL ends when its last rank has come and its
//! transfer is done. [`Played::capture`] reads the whole as a capture, with CUDA events of all calls and
//! with kernel windows as the recorder opens them.
//!
//! Truth: the same script with the same noise without the straggler ([`Played::seconds`]).

#![allow(dead_code)]

pub mod held_out;
mod recording;
pub mod scripts;

use std::collections::{HashMap, VecDeque};
use tables::windows::DriverCall;

pub const US: i64 = 1_000;
pub const MS: i64 = 1_000_000;
const SINCE_1970: i64 = 1_700_000_000_000_000_000;
/// A kernel begins so long after its launch, ns.
const LAUNCHED: i64 = 4 * US;
/// A launch takes its host so long, and NCCL a call, ns.
const LAUNCH: f64 = 4e3;
const CALL: f64 = 15e3;
/// Launches that a GPU may be behind its host.
const QUEUE: usize = 1000;
/// CUDA's ids of streams.
const FIRST_STREAM: u32 = 7;

/// A send or a receive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    To(usize),
    From(usize),
}

/// SplitMix64.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn normal(&mut self) -> f64 {
        let (a, b) = (self.uniform(), self.uniform());
        (-2.0 * (1.0 - a).ln()).sqrt() * (b * std::f64::consts::TAU).cos()
    }
}

#[derive(Clone, Debug)]
enum Do {
    Host(f64),
    Compute {
        name: &'static str,
        ns: f64,
        stream: usize,
    },
    Call {
        comm: usize,
        function: &'static str,
        bytes: u64,
        ns: f64,
        stream: usize,
        ways: Vec<Way>,
    },
    /// A stream waits for what is on another so far.
    Wait(usize, usize),
    /// The host waits for a stream.
    Sync(usize),
}

/// One step of one rank, as the script writes it. Times are µs.
pub struct Step<'s> {
    pub rank: usize,
    pub ranks: usize,
    pub number: usize,
    random: Random,
    noise: f64,
    /// How slow the host and the GPU are in this step.
    host: f64,
    gpu: f64,
    /// The host's own work before each launch, µs.
    pub per_launch: f64,
    late: Option<&'s dyn Fn(&mut Step)>,
    does: Vec<Do>,
}

impl Step<'_> {
    fn differs(&mut self) -> f64 {
        (1.0 + self.noise * self.random.normal()).max(0.2)
    }

    /// The host works.
    pub fn host(&mut self, us: f64) {
        let ns = 1e3 * us * self.host * self.differs();
        self.does.push(Do::Host(ns));
    }

    /// A kernel on the computing stream.
    pub fn compute(&mut self, name: &'static str, us: f64) {
        self.compute_on(name, us, 0);
    }

    pub fn compute_on(&mut self, name: &'static str, us: f64, stream: usize) {
        self.host(self.per_launch);
        let ns = 1e3 * us * self.gpu * self.differs();
        self.does.push(Do::Compute { name, ns, stream });
    }

    /// A collective on a stream of its own, which waits for the computing stream.
    pub fn collective(
        &mut self,
        comm: usize,
        function: &'static str,
        bytes: u64,
        us: f64,
        stream: usize,
    ) {
        self.host(self.per_launch);
        if stream != 0 {
            self.wait(stream, 0);
        }
        let ns = 1e3 * us;
        self.does.push(Do::Call {
            comm,
            function,
            bytes,
            ns,
            stream,
            ways: Vec::new(),
        });
    }

    /// Sends and receives in one launch.
    pub fn pass(&mut self, comm: usize, ways: &[Way], bytes: u64, us: f64, stream: usize) {
        self.host(self.per_launch);
        if stream != 0 {
            self.wait(stream, 0);
        }
        self.does.push(Do::Call {
            comm,
            function: "SendRecv",
            bytes,
            ns: 1e3 * us,
            stream,
            ways: ways.to_vec(),
        });
    }

    /// A stream waits for what is on another so far.
    pub fn wait(&mut self, stream: usize, on: usize) {
        self.does.push(Do::Wait(stream, on));
    }

    /// The host waits for a stream.
    pub fn sync(&mut self, stream: usize) {
        self.does.push(Do::Sync(stream));
    }

    /// Here the straggler does what it does.
    pub fn straggler(&mut self) {
        if let Some(late) = self.late {
            late(self);
        }
    }

    /// A straggler's host works so much longer.
    pub fn sleeps(&mut self, us: f64) {
        self.does.push(Do::Host(1e3 * us));
    }

    /// A straggler's GPU has so much more to do.
    pub fn extra(&mut self, us: f64) {
        self.does.push(Do::Host(5e3));
        self.does.push(Do::Compute {
            name: "extra",
            ns: 1e3 * us,
            stream: 0,
        });
    }
}

/// A job.
pub struct Job<'s> {
    /// Members of communicators.
    pub comms: Vec<Vec<usize>>,
    pub ranks: usize,
    pub steps: usize,
    /// Standard deviation of what each launch of a host and each kernel takes, as a part of it.
    pub noise: f64,
    /// The same of whole steps of a rank.
    pub of_steps: f64,
    pub script: &'s dyn Fn(&mut Step),
    /// The host's own work before each launch, µs.
    pub per_launch: f64,
}

#[derive(Clone, Debug)]
struct Node {
    does: Kind,
    stream: usize,
    launch: i64,
    behind: Vec<usize>,
    start: Option<i64>,
    end: Option<i64>,
    step: usize,
}

#[derive(Clone, Debug)]
enum Kind {
    Compute(&'static str, i64),
    Collective(usize, usize),
    /// Communicator, message of each way, and how long it takes.
    Pass(Vec<(usize, usize, usize, bool, usize)>, i64),
}

#[derive(Clone, Debug)]
struct Called {
    node: usize,
    comm: usize,
    function: &'static str,
    bytes: u64,
    ways: Vec<Way>,
    api: i64,
    launch: i64,
    back: i64,
    /// The node that kept the computing stream busy until it waited for this, and when its host asked for
    /// that.
    waited_by: Option<(usize, i64)>,
}

#[derive(Default)]
struct Rank {
    host: f64,
    nodes: Vec<Node>,
    tails: Vec<Vec<usize>>,
    /// Not resolved, by stream.
    pending: Vec<VecDeque<usize>>,
    does: VecDeque<Do>,
    asked: Vec<DriverCall>,
    calls: Vec<Called>,
    step: usize,
    sent: HashMap<(usize, usize, usize), usize>,
    received: HashMap<(usize, usize, usize), usize>,
    joined: HashMap<usize, usize>,
    /// By communicator: its last collective.
    collectives: HashMap<usize, usize>,
    /// The computing stream waits for these calls, and was last busy with this node.
    waits: Vec<(usize, Option<usize>)>,
    /// When each step began on the host.
    begun: Vec<i64>,
}

struct Operation {
    came: Vec<Option<i64>>,
    ns: i64,
    end: Option<i64>,
}

/// A job that was played.
pub struct Played {
    comms: Vec<Vec<usize>>,
    ranks: Vec<Rank>,
    /// How long it took, s.
    pub seconds: f64,
    seed: u64,
    steps: usize,
}

/// Plays a job; `late` is what the straggler does.
pub fn play<'s>(job: &'s Job, seed: u64, late: Option<&'s dyn Fn(&mut Step)>) -> Played {
    let mut ranks: Vec<Rank> = (0..job.ranks)
        .map(|rank| {
            let mut seeds = Random(seed.wrapping_mul(1000) + rank as u64);
            Rank {
                host: 1e6 + 2e5 * seeds.uniform(),
                tails: vec![Vec::new(); 8],
                pending: vec![VecDeque::new(); 8],
                ..Rank::default()
            }
        })
        .collect();
    // By rank: how slow the host and the GPU are, which changes slowly.
    let mut slow = vec![[0.0f64; 2]; job.ranks];
    let mut operations: Vec<Vec<Operation>> = job.comms.iter().map(|_| Vec::new()).collect();
    let mut messages: HashMap<(usize, usize, usize, usize), [Option<i64>; 2]> = HashMap::new();
    loop {
        let mut moved = false;
        for rank in 0..job.ranks {
            loop {
                if ranks[rank].does.is_empty() {
                    if ranks[rank].step == job.steps {
                        break;
                    }
                    let number = ranks[rank].step;
                    let key = (seed.wrapping_mul(31) + rank as u64).wrapping_mul(1_000_003);
                    let mut random = Random(key.wrapping_add(number as u64 * 7919));
                    // Half of the noise stays from step to step.
                    for of in &mut slow[rank] {
                        *of = 0.5 * *of + 0.75f64.sqrt() * random.normal();
                    }
                    let of = |z: f64| (1.0 + job.of_steps * z).max(0.3);
                    let mut step = Step {
                        rank,
                        ranks: job.ranks,
                        number,
                        noise: job.noise,
                        host: of(slow[rank][0]),
                        gpu: of(slow[rank][1]),
                        random,
                        per_launch: job.per_launch,
                        late,
                        does: Vec::new(),
                    };
                    (job.script)(&mut step);
                    let rank = &mut ranks[rank];
                    rank.begun.push(rank.host as i64);
                    rank.does = step.does.into();
                    rank.step += 1;
                    moved = true;
                }
                let before = ranks[rank].does.len();
                host(&mut ranks[rank], rank, &job.comms, &mut operations);
                if ranks[rank].does.len() == before {
                    break;
                }
                moved = true;
            }
            moved |= resolve(
                &mut ranks[rank],
                rank,
                &job.comms,
                &mut operations,
                &mut messages,
            );
        }
        if !moved {
            break;
        }
    }
    for (number, rank) in ranks.iter().enumerate() {
        assert!(
            rank.does.is_empty(),
            "rank {number} hangs in step {}",
            rank.step
        );
        assert!(
            rank.nodes.iter().all(|n| n.end.is_some()),
            "rank {number} hangs"
        );
    }
    let end = ranks
        .iter()
        .flat_map(|r| r.nodes.iter().filter_map(|n| n.end))
        .max();
    Played {
        comms: job.comms.clone(),
        ranks,
        seconds: end.expect("kernels") as f64 / 1e9,
        seed,
        steps: job.steps,
    }
}

/// The host goes on until it waits.
fn host(rank: &mut Rank, number: usize, comms: &[Vec<usize>], operations: &mut [Vec<Operation>]) {
    while let Some(next) = rank.does.front().cloned() {
        let launches = matches!(next, Do::Compute { .. } | Do::Call { .. });
        // The queue of the driver.
        let mut waited = 0.0;
        if launches && rank.nodes.len() >= QUEUE {
            match rank.nodes[rank.nodes.len() - QUEUE].end {
                None => return,
                Some(end) => waited = (end as f64 - rank.host).max(0.0),
            }
        }
        let asked = |rank: &mut Rank, kind, took: f64| {
            rank.asked.push(DriverCall {
                at: SINCE_1970 + rank.host as i64,
                took: took as u64,
                kind,
                thread: 100,
                stream: FIRST_STREAM,
                object: 0,
            });
            rank.host += took;
        };
        use capture::windows::DriverCallKind;
        match next {
            Do::Host(ns) => rank.host += ns,
            Do::Compute { name, ns, stream } => {
                asked(rank, DriverCallKind::Launch, LAUNCH + waited);
                push(rank, Kind::Compute(name, ns as i64), stream);
            }
            Do::Call {
                comm,
                function,
                bytes,
                ns,
                stream,
                ways,
            } => {
                let api = rank.host as i64;
                // NCCL is as slow as its host.
                rank.host += CALL;
                let launch = rank.host as i64;
                asked(rank, DriverCallKind::Launch, LAUNCH + waited);
                let kind = if ways.is_empty() {
                    let at = rank.joined.entry(comm).or_default();
                    let index = *at;
                    *at += 1;
                    if operations[comm].len() == index {
                        operations[comm].push(Operation {
                            came: vec![None; comms[comm].len()],
                            ns: ns as i64,
                            end: None,
                        });
                    }
                    Kind::Collective(comm, index)
                } else {
                    let all = ways.iter().map(|way| {
                        let (from, to, sends) = match way {
                            Way::To(peer) => (number, *peer, true),
                            Way::From(peer) => (*peer, number, false),
                        };
                        let counts = if sends {
                            &mut rank.sent
                        } else {
                            &mut rank.received
                        };
                        let at = counts.entry((comm, from, to)).or_default();
                        *at += 1;
                        (comm, from, to, sends, *at - 1)
                    });
                    Kind::Pass(all.collect(), ns as i64)
                };
                // Kernels of a communicator follow each other, on whatever streams they are. Sends and
                // receives between different ranks are thought to have communicators of their own.
                if let Kind::Collective(..) = kind {
                    let before = rank.collectives.insert(comm, rank.nodes.len());
                    rank.tails[stream].extend(before);
                }
                let node = push(rank, kind, stream);
                rank.calls.push(Called {
                    node,
                    comm,
                    function,
                    bytes,
                    ways,
                    api,
                    launch,
                    back: rank.host as i64 + 1000,
                    waited_by: None,
                });
            }
            Do::Wait(stream, on) => {
                asked(rank, DriverCallKind::Record, 1e3);
                asked(rank, DriverCallKind::Wait, 1e3);
                let on_call = rank.tails[on].last().copied();
                if stream == 0 {
                    let busy = rank.tails[0].first().copied();
                    if let Some(call) = rank.calls.iter().rposition(|c| Some(c.node) == on_call) {
                        if rank.calls[call].waited_by.is_none() {
                            let asked = (busy.unwrap_or(usize::MAX), rank.host as i64);
                            rank.calls[call].waited_by = Some(asked);
                        }
                    }
                }
                let more = rank.tails[on].clone();
                rank.tails[stream].extend(more);
            }
            Do::Sync(stream) => {
                let ends: Option<Vec<i64>> = rank.tails[stream]
                    .iter()
                    .map(|n| rank.nodes[*n].end)
                    .collect();
                let Some(ends) = ends else { return };
                let end = ends.into_iter().max().unwrap_or(0) as f64;
                asked(
                    rank,
                    DriverCallKind::Synchronise,
                    2e3 + (end - rank.host).max(0.0),
                );
            }
        }
        rank.does.pop_front();
    }
}

fn push(rank: &mut Rank, does: Kind, stream: usize) -> usize {
    let node = rank.nodes.len();
    rank.nodes.push(Node {
        does,
        stream,
        launch: rank.host as i64,
        behind: std::mem::take(&mut rank.tails[stream]),
        start: None,
        end: None,
        step: rank.step,
    });
    rank.tails[stream].push(node);
    rank.pending[stream].push_back(node);
    node
}

fn resolve(
    rank: &mut Rank,
    number: usize,
    comms: &[Vec<usize>],
    operations: &mut [Vec<Operation>],
    messages: &mut HashMap<(usize, usize, usize, usize), [Option<i64>; 2]>,
) -> bool {
    let mut moved = false;
    loop {
        let mut again = false;
        for stream in 0..rank.pending.len() {
            while let Some(index) = rank.pending[stream].front().copied() {
                let node = &rank.nodes[index];
                let start = match node.start {
                    Some(start) => start,
                    None => {
                        let ends: Option<Vec<i64>> =
                            node.behind.iter().map(|n| rank.nodes[*n].end).collect();
                        let Some(ends) = ends else { break };
                        let behind = ends.into_iter().max().map_or(0, |end| end + 1000);
                        let start = behind.max(node.launch + LAUNCHED);
                        rank.nodes[index].start = Some(start);
                        again = true;
                        start
                    }
                };
                let end = match &rank.nodes[index].does {
                    Kind::Compute(_, ns) => Some(start + ns),
                    Kind::Collective(comm, at) => {
                        let own = comms[*comm].iter().position(|r| *r == number);
                        let operation = &mut operations[*comm][*at];
                        operation.came[own.expect("a member")] = Some(start);
                        let came: Option<Vec<i64>> = operation.came.iter().copied().collect();
                        came.map(|came| came.into_iter().max().expect("ranks") + operation.ns)
                    }
                    Kind::Pass(ways, ns) => {
                        let mut last = Some(start);
                        for (comm, from, to, sends, at) in ways {
                            let both = messages.entry((*comm, *from, *to, *at)).or_default();
                            both[usize::from(!sends)] = Some(start);
                            let other = match from == to {
                                true => Some(start),
                                false => both[usize::from(*sends)],
                            };
                            last = last.zip(other).map(|(a, b)| a.max(b));
                        }
                        last.map(|last| last + ns)
                    }
                };
                let Some(end) = end else { break };
                // Ends are apart by some 0.3 µs.
                let apart = (index as i64 * 7919 + number as i64 * 104_729).rem_euclid(300);
                rank.nodes[index].end = Some(end + apart);
                rank.pending[stream].pop_front();
                again = true;
            }
        }
        moved |= again;
        if !again {
            return moved;
        }
    }
}

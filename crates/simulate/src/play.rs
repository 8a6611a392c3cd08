//! The engine: what hosts, streams and communicators do, and when.
//!
//! A script says what the hosts do in a step: they work, launch kernels and call NCCL. [`play`] works out
//! when each kernel runs. A kernel begins when it is launched, when the one before it on its stream is over,
//! and when what its stream waits for is over. An operation of NCCL ends when its last rank has come and its
//! transfer is done.
//!
//! Rule: random numbers belong to a step of a rank. A fault draws none, so the same seed without the fault is
//! the same job.

use crate::random::Random;
use std::collections::{HashMap, VecDeque};
use tables::windows::DriverCall;

/// Ns in a millisecond.
pub const MS: i64 = 1_000_000;
pub(crate) const SINCE_1970: i64 = 1_700_000_000_000_000_000;
/// A kernel begins so long after its launch, ns.
const LAUNCHED: i64 = 4_000;
/// A launch takes its host so long, and NCCL a call, ns.
const LAUNCH: f64 = 4e3;
const CALL: f64 = 15e3;
/// Launches that a GPU may be behind its host.
const QUEUE: usize = 1000;
/// CUDA's ids of streams.
pub(crate) const FIRST_STREAM: u32 = 7;

/// A send or a receive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// Sends to this rank.
    To(usize),
    /// Receives from this rank.
    From(usize),
}

#[derive(Clone, Debug)]
pub(crate) enum Do {
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
    /// The rank.
    pub rank: usize,
    /// Ranks of the job.
    pub ranks: usize,
    /// The step, from 0.
    pub number: usize,
    /// Steps of the job.
    pub steps: usize,
    /// What the script draws from.
    pub random: Random,
    noise: f64,
    tails: Tails,
    /// How slow the host is in this step; 1 is its usual speed.
    pub slow_host: f64,
    /// The same of the GPU.
    pub slow_gpu: f64,
    /// The host's own work before each launch, µs.
    pub per_launch: f64,
    fault: Fault<'s>,
    does: Vec<Do>,
}

impl Step<'_> {
    fn differs(&mut self) -> f64 {
        (1.0 + self.noise * self.random.normal()).max(0.2)
    }

    /// Now and then something takes much longer, ns.
    fn tail(&mut self, often: f64) -> f64 {
        if often == 0.0 || self.random.uniform() >= often {
            return 0.0;
        }
        1e3 * self.tails.least_us * self.random.heavy().min(self.tails.most)
    }

    /// The host works.
    pub fn host(&mut self, us: f64) {
        let ns = 1e3 * us * self.slow_host * self.differs() + self.tail(self.tails.host);
        self.does.push(Do::Host(ns));
    }

    /// A kernel on the computing stream.
    pub fn compute(&mut self, name: &'static str, us: f64) {
        self.compute_on(name, us, 0);
    }

    /// A kernel on another stream.
    pub fn compute_on(&mut self, name: &'static str, us: f64, stream: usize) {
        self.host(self.per_launch);
        let ns = 1e3 * us * self.slow_gpu * self.differs() + self.tail(self.tails.gpu);
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
        if let Some(within) = self.fault.within {
            within(self);
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

/// Work that takes much longer now and then: how long is drawn from a Pareto distribution.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tails {
    /// How often a host's work does, of all its work; 0 never.
    pub host: f64,
    /// The same of kernels.
    pub gpu: f64,
    /// It takes so much longer at least, µs.
    pub least_us: f64,
    /// And so many times that at most.
    pub most: f64,
}

/// How many times as long a transfer between these ranks takes in a step.
pub type SlowLink<'s> = dyn Fn(&[usize], usize) -> f64 + 's;

/// What is wrong with a job.
#[derive(Clone, Copy, Default)]
pub struct Fault<'s> {
    /// What a rank does more in a step, at the place that the script says ([`Step::straggler`]).
    pub within: Option<&'s dyn Fn(&mut Step)>,
    /// What is different about a step of a rank as a whole.
    pub before: Option<&'s dyn Fn(&mut Step)>,
    /// Transfers that take longer.
    pub link: Option<&'s SlowLink<'s>>,
}

/// A job.
pub struct Job<'s> {
    /// Members of communicators; the first has all ranks.
    pub comms: Vec<Vec<usize>>,
    /// How many ranks.
    pub ranks: usize,
    /// Of so many hosts; their ranks are neighbours.
    pub hosts: usize,
    /// How many steps.
    pub steps: usize,
    /// Standard deviation of what each launch of a host and each kernel takes, as a part of it.
    pub noise: f64,
    /// The same of whole steps of a rank.
    pub of_steps: f64,
    /// What takes much longer now and then.
    pub tails: Tails,
    /// What each rank does in a step.
    pub script: &'s dyn Fn(&mut Step),
    /// The host's own work before each launch, µs.
    pub per_launch: f64,
    /// How many times as long a transfer takes between hosts.
    pub across: f64,
}

impl<'s> Job<'s> {
    /// A job on one host without noise, with 20 µs of the host's work for each launch.
    pub fn new(comms: Vec<Vec<usize>>, steps: usize, script: &'s dyn Fn(&mut Step)) -> Job<'s> {
        Job {
            ranks: comms.first().map_or(0, Vec::len),
            comms,
            hosts: 1,
            steps,
            noise: 0.0,
            of_steps: 0.0,
            tails: Tails::default(),
            script,
            per_launch: 20.0,
            across: 1.0,
        }
    }

    /// The host of a rank.
    pub fn host(&self, rank: usize) -> usize {
        rank * self.hosts / self.ranks
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) does: Kind,
    pub(crate) stream: usize,
    pub(crate) launch: i64,
    pub(crate) behind: Vec<usize>,
    pub(crate) start: Option<i64>,
    pub(crate) end: Option<i64>,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Compute(&'static str, i64),
    Collective(usize, usize),
    /// Communicator, message of each way, and how long it takes.
    Pass(Vec<(usize, usize, usize, bool, usize)>, i64),
}

#[derive(Clone, Debug)]
pub(crate) struct Called {
    pub(crate) node: usize,
    pub(crate) comm: usize,
    pub(crate) function: &'static str,
    pub(crate) bytes: u64,
    pub(crate) ways: Vec<Way>,
    pub(crate) api: i64,
    pub(crate) launch: i64,
    pub(crate) back: i64,
    /// The node that kept the computing stream busy until it waited for this, and when its host asked for
    /// that.
    pub(crate) waited_by: Option<(usize, i64)>,
}

#[derive(Default)]
pub(crate) struct Rank {
    pub(crate) host: f64,
    pub(crate) nodes: Vec<Node>,
    pub(crate) tails: Vec<Vec<usize>>,
    /// Not resolved, by stream.
    pub(crate) pending: Vec<VecDeque<usize>>,
    pub(crate) does: VecDeque<Do>,
    pub(crate) asked: Vec<DriverCall>,
    pub(crate) calls: Vec<Called>,
    pub(crate) step: usize,
    pub(crate) sent: HashMap<(usize, usize, usize), usize>,
    pub(crate) received: HashMap<(usize, usize, usize), usize>,
    pub(crate) joined: HashMap<usize, usize>,
    /// By communicator: its last collective.
    pub(crate) collectives: HashMap<usize, usize>,
    /// When each step began on the host.
    pub(crate) begun: Vec<i64>,
}

struct Operation {
    came: Vec<Option<i64>>,
    ns: i64,
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
                        steps: job.steps,
                        noise: job.noise,
                        tails: job.tails,
                        slow_host: of(slow[rank][0]),
                        slow_gpu: of(slow[rank][1]),
                        random,
                        per_launch: job.per_launch,
                        fault,
                        does: Vec::new(),
                    };
                    if let Some(before) = fault.before {
                        before(&mut step);
                    }
                    (job.script)(&mut step);
                    let rank = &mut ranks[rank];
                    rank.begun.push(rank.host as i64);
                    rank.does = step.does.into();
                    rank.step += 1;
                    moved = true;
                }
                let before = ranks[rank].does.len();
                host(&mut ranks[rank], rank, job, fault, &mut operations);
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
        hosts: (0..job.ranks).map(|rank| job.host(rank)).collect(),
        ranks,
        seconds: end.expect("kernels") as f64 / 1e9,
        seed,
        steps: job.steps,
    }
}

/// The host goes on until it waits.
fn host(
    rank: &mut Rank,
    number: usize,
    job: &Job,
    fault: Fault,
    operations: &mut [Vec<Operation>],
) {
    let comms = &job.comms;
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
                let ns = ns * between(job, fault, (rank.step - 1, number), comm, &ways);
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
    let mut all: Vec<usize> = match ways.is_empty() {
        true => job.comms[comm].clone(),
        false => peers.chain([rank]).collect(),
    };
    all.sort_unstable();
    all.dedup();
    let far = all.iter().any(|r| job.host(*r) != job.host(all[0]));
    let across = if far { job.across } else { 1.0 };
    across * fault.link.map_or(1.0, |link| link(&all, step))
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

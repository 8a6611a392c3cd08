//! A job that was played, as a watcher sees it at a moment: calls that are open, processes that are stopped
//! or dead, and how far GPUs have come.
//!
//! The watcher is on the first host. Files of the other host are as old as their newest flush, and nobody can
//! ask whether its processes live. As `hang --watch` does, it keeps the newest minute of calls and counts the
//! others.

use crate::evidence::Evidence;
use crate::play::{Played, Rank, MS, SINCE_1970};
use crate::ring::{Channel, Stuck};
use capture::live::{part, ODDS};
use capture::rows::Ticks;
use std::collections::HashMap;
use tables::calls::Extra;
use tables::clock::{Anchor, Clock};
use tables::mpi::MpiSpan;
use tables::process::Counters;
use tables::sums::Sum;
use tables::tail::leave_out_before;
use tables::{Capture, Life, LiveSource, OnGpu, Process};

const SECOND: i64 = 1_000_000_000;
/// How often a recorder writes its files on a network file system, ns.
const FLUSH: i64 = 4_500 * MS;
/// A launch that is open for so long is asked for, ns.
const ASKED: i64 = SECOND;
/// Calls of so long are kept, ns.
const SPAN: i64 = 60 * SECOND;
/// A process needs so long from its last step to its end, ns.
const ENDING: i64 = 500 * MS;
/// Steps and channels of a transfer over the network.
const STEPS: u32 = 24;
const CHANNELS: u8 = 2;

/// What becomes of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Stopped,
    Dead,
    Left,
    Mpi,
    /// Nothing of it arrives any more.
    Silent,
}

/// What becomes of a rank, and when, ns of virtual time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fate {
    pub at: i64,
    pub what: What,
}

/// A moment, and what can be seen then.
pub(crate) struct AsOf<'a> {
    /// ns of virtual time.
    pub at: i64,
    pub evidence: &'a Evidence,
    /// By rank.
    pub fates: &'a [Option<Fate>],
    /// A rank whose send to the next does not end, in an operation of all ranks, and since when.
    pub stuck: Option<(usize, i64)>,
}

impl Played {
    /// When a rank's host did its last, if the story stops it, ns.
    pub(crate) fn stopped_ns(&self, rank: usize) -> Option<i64> {
        self.ranks[rank].stopped
    }

    /// Whether all ranks have done all.
    pub(crate) fn is_over(&self) -> bool {
        self.ranks.iter().all(Rank::is_over)
    }

    /// When anything happens.
    pub(crate) fn changes(&self) -> Vec<i64> {
        let mut all = Vec::new();
        for rank in &self.ranks {
            for called in &rank.calls {
                let node = &rank.nodes[called.node];
                all.extend([called.api, called.launch, called.back]);
                all.extend(node.start.into_iter().chain(node.end));
            }
            all.extend(rank.graphs.iter().map(|(_, at, _)| *at));
            all.extend(rank.destroyed.iter().map(|(_, at)| *at));
            all.push(rank.host as i64);
            if let Some(end) = end(rank) {
                all.push(end);
            }
        }
        all.retain(|at| *at < i64::MAX);
        all
    }

    /// What can be seen, with all calls up to then.
    pub(crate) fn as_of(&self, of: &AsOf) -> Capture {
        let (mut capture, names) = self.empty();
        let several = self.hosts.iter().any(|host| *host != 0);
        for (number, rank) in self.ranks.iter().enumerate() {
            let is_here = self.hosts[number] == 0;
            let fate = of.fates.get(number).copied().flatten();
            let fate = fate.filter(|fate| fate.at <= of.at);
            let end = end(rank).filter(|end| *end <= of.at);
            let until = match fate {
                Some(fate) if fate.what != What::Mpi => fate.at,
                _ => of.at,
            };
            let until = end.map_or(until, |end| end.min(until));
            // Files are written when the process ends.
            let ended = end.is_some() || fate.is_some_and(|fate| fate.what == What::Left);
            let until = if is_here || ended {
                until
            } else {
                until / FLUSH * FLUSH
            };
            let mut process = self.process(number, rank, &names, of.evidence, until);
            process.ended = ended;
            process.live = if is_here {
                LiveSource::Here
            } else {
                LiveSource::Snapshot
            };
            process.life = match fate.map(|fate| fate.what) {
                _ if !is_here => Life::Unknown,
                Some(What::Dead | What::Left) => Life::Gone,
                Some(What::Stopped) => Life::Stopped,
                _ if ended => Life::Gone,
                _ => Life::Running,
            };
            process.clock = clock(until);
            if let Some(Fate {
                at,
                what: What::Mpi,
            }) = fate
            {
                process.mpi.names = vec!["MPI_Recv".to_owned()];
                process.mpi.spans = vec![MpiSpan {
                    from: SINCE_1970 + at,
                    to: SINCE_1970 + until,
                    inside: until - at,
                    calls: 1,
                    open: true,
                    ..MpiSpan::default()
                }];
            }
            for local in &mut process.communicators {
                local.abi = 5;
                let destroyed = rank
                    .destroyed
                    .iter()
                    .find(|(comm, at)| *comm == local.uid as usize && *at <= until);
                let destroyed = destroyed
                    .map(|(_, at)| *at)
                    .or(end.filter(|end| *end <= until));
                local.ended_ns = destroyed.map(|at| SINCE_1970 + at);
            }
            process.counters = Some(Counters {
                odd: vec![0; ODDS.len()],
                ..Counters::default()
            });
            open(&mut process, rank, until);
            capture.processes.push(process);
        }
        if several {
            for communicator in &mut capture.communicators {
                let mut hosts: Vec<usize> = communicator
                    .members
                    .iter()
                    .map(|member| self.hosts[member.process])
                    .collect();
                hosts.dedup();
                communicator.nnodes = Some(hosts.len() as u32);
            }
        }
        if let Some((from, since)) = of.stuck.filter(|(_, since)| *since <= of.at) {
            self.add_net_ops(&mut capture, from, since);
        }
        for process in &mut capture.processes {
            let mut sums = vec![Sum::default(); process.shapes.len()];
            for call in &process.calls {
                sums[call.shape as usize].calls += 1;
            }
            process.sums = sums;
        }
        capture
    }

    /// What a watcher sees that keeps the newest calls.
    pub(crate) fn newest_as_of(&self, of: &AsOf) -> Capture {
        let mut capture = self.as_of(of);
        let newest = capture
            .processes
            .iter()
            .flat_map(|process| process.calls.last());
        if let Some(newest) = newest.map(|call| call.api_ns).max() {
            leave_out_before(&mut capture, newest - SPAN);
        }
        capture
    }

    /// The network operations of an operation that a link keeps from ending.
    fn add_net_ops(&self, capture: &mut Capture, from: usize, since: i64) {
        let ring = capture.names.intern("RING");
        let ranks = self.ranks.len();
        let run = |channel: u8| {
            let stuck = Stuck::Link(from);
            Channel::run(ranks, channel, STEPS, stuck, 5, SINCE_1970 + since)
        };
        let channels: Vec<Channel> = (0..CHANNELS).map(run).collect();
        let is_far = |a: usize, b: usize| self.hosts[a] != self.hosts[b];
        for (number, process) in capture.processes.iter_mut().enumerate() {
            // The first operation of all ranks that has not ended.
            let rank = &self.ranks[number];
            let open = rank.calls.iter().position(|called| {
                let is_of_all = called.ways.is_empty() && self.comms[called.comm].len() == ranks;
                is_of_all
                    && rank.nodes[called.node].start.is_some()
                    && rank.nodes[called.node].end.is_none()
            });
            let api = open.map(|open| SINCE_1970 + rank.calls[open].api);
            let Some(at) = process
                .calls
                .iter()
                .position(|call| Some(call.api_ns) == api)
            else {
                continue;
            };
            let ticket = process.calls[at].ticket;
            let sides = [(number + 1) % ranks, (number + ranks - 1) % ranks];
            let mut extra = Extra::default();
            for channel in &channels {
                for (op, peer) in channel.net_ops[number].into_iter().zip(sides) {
                    if !is_far(number, peer) {
                        continue;
                    }
                    extra.ops_started += 1;
                    match op {
                        Some(op) => process.net_ops.push(tables::NetOp { ticket, ..op }),
                        None => extra.ops_stopped += 1,
                    }
                }
            }
            process.extras.push(extra);
            let number = process.extras.len() as u32;
            let call = &mut process.calls[at];
            (call.extra, call.sealed) = (number, false);
            let mut shape = process.shapes[call.shape as usize];
            shape.algorithm = ring;
            call.shape = process.shapes.len() as u32;
            process.shapes.push(shape);
        }
    }
}

/// When a rank's process ends that has done all.
fn end(rank: &Rank) -> Option<i64> {
    let last = rank.nodes.iter().filter_map(|node| node.end).max();
    rank.is_over()
        .then(|| (rank.host as i64).max(last.unwrap_or(0)) + ENDING)
}

fn clock(until: i64) -> Clock {
    let anchor = |at: i64| Anchor {
        ticks: Ticks((at + SECOND) as u64),
        realtime: (SINCE_1970 + at) as u64,
        monotonic: 0,
    };
    Clock::new([anchor(0), anchor(until.max(1))], true)
}

/// Adds what is known of calls that have not ended: numbers, groups, and what the GPU was asked.
fn open(process: &mut Process, rank: &Rank, until: i64) {
    let mut groups = 0;
    let called: HashMap<i64, usize> = rank
        .calls
        .iter()
        .enumerate()
        .map(|(index, called)| (SINCE_1970 + called.api, index))
        .collect();
    let mut oldest: HashMap<u32, OnGpu> = HashMap::new();
    let mut group_of = HashMap::new();
    let shapes = &mut process.shapes;
    let mut launched_shapes: HashMap<u32, u32> = HashMap::new();
    for call in &mut process.calls {
        let shape = shapes[call.shape as usize];
        let is_p2p = shape.is(capture::live::flag::P2P);
        let in_graph = shape.is(capture::live::flag::CAPTURED);
        if is_p2p {
            call.group = *group_of.entry(call.api_ns).or_insert_with(|| {
                groups += 1;
                groups
            });
        }
        if in_graph || call.return_ns == 0 && call.launch_end_ns == 0 {
            continue;
        }
        // NCCL has planned it.
        let index = call.shape;
        call.shape = *launched_shapes.entry(index).or_insert_with(|| {
            let mut planned = shape;
            planned.parts |= part::ENQUEUED;
            shapes.push(planned);
            shapes.len() as u32 - 1
        });
        let is_open = call.gpu.stop().is_none() && shape.has_events();
        let of = called.get(&call.api_ns).map(|index| &rank.calls[*index]);
        if let (true, Some(of)) = (is_open, of) {
            if of.launch.saturating_add(ASKED) <= until {
                let begun = rank.nodes[of.node]
                    .start
                    .is_some_and(|start| start <= until);
                oldest.entry(shape.uid).or_insert(OnGpu {
                    ticket: call.ticket,
                    begun,
                    asked_ns: SINCE_1970 + until,
                });
            }
        }
    }
    process.on_gpu = oldest.into_values().collect();
    process.on_gpu.sort_by_key(|asked| asked.ticket);
}

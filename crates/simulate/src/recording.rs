//! A job that was played, as the recorder would have written it.

use crate::communicators::communicator;
use crate::evidence::{level_of, sampled, Evidence};
use crate::play::{Called, Kind, Played, Rank, FIRST_STREAM, MS, RETURNS, SINCE_1970};
use crate::random::Random;
use crate::step::Way;
use capture::live::{flag, part, verdict};
use capture::windows::{self, DriverCallKind, LAUNCH_NS, WAITED_NS};
use setup::counts::Counts;
use std::collections::{BTreeMap, HashMap};
use tables::communicators::Local;
use tables::composites::Composite;
use tables::graphs::{Content, Graph, Graphs, Launch};
use tables::windows::{GpuActivity, Off, Window};
use tables::{Call, Capture, Communicator, GpuTimes, Process, Shape};

/// The handle of a stream: scripts compute on the default stream, as PyTorch does.
fn handle(stream: usize) -> u64 {
    match stream {
        0 => 0,
        other => 0x7f00_0000_0000 + (other as u64) * 0x100,
    }
}

/// CUDA's id of a graph in windows.
const CUDA_GRAPH: u32 = 3;

/// Which ranks have kernel windows.
pub type Windows<'a> = &'a dyn Fn(usize) -> bool;

/// Numbers of names.
pub(crate) type Names = BTreeMap<&'static str, tables::Name>;

impl Played {
    /// When windows are open, by rank, ns of its host.
    fn windows(&self) -> Vec<Vec<(u64, i64, i64)>> {
        let mut random = Random(self.seed.wrapping_add(77));
        let whole = self.seconds * 1e9;
        let step = whole / self.steps as f64;
        let length = (4.0 * step).max(200e6);
        // In the beginning: a tenth of the time, or a fifth if steps are long.
        let part = if step > 50e6 { 0.2 } else { 0.1 };
        let period = length / part;
        let mut of = vec![Vec::new(); self.ranks.len()];
        let mut last = 0.5e9f64;
        for number in 1.. {
            let at = number as f64 * period + random.uniform() * 0.8 * period;
            if at + length > whole {
                break;
            }
            if at < last {
                continue;
            }
            last = at + length + 0.2e9;
            // At the same step on all ranks, wherever in it.
            let step = self.ranks[0]
                .begun
                .partition_point(|begun| (*begun as f64) < at);
            let inside = random.uniform();
            for (rank, of) in self.ranks.iter().zip(&mut of) {
                let (Some(a), Some(b)) = (rank.begun.get(step), rank.begun.get(step + 1)) else {
                    continue;
                };
                let from = a + ((b - a) as f64 * inside) as i64;
                let to = from + length as i64;
                of.push((number, from, to.min(rank.host as i64)));
            }
        }
        of
    }

    /// What the recorder would have written, with a time of every launch.
    pub fn capture(&self, with_windows: Windows) -> Capture {
        self.read(&Evidence::default(), with_windows)
    }

    /// What the recorder would have written if it saw this much.
    pub fn capture_of(&self, evidence: &Evidence) -> Capture {
        let mut capture = self.read(evidence, &|rank| evidence.windows.has(rank));
        evidence.hide(&mut capture, &self.hosts);
        capture
    }

    fn read(&self, evidence: &Evidence, with_windows: Windows) -> Capture {
        let (mut capture, names) = self.empty();
        let windows = self.windows();
        for (number, rank) in self.ranks.iter().enumerate() {
            let mut process = self.process(number, rank, &names, evidence, i64::MAX);
            if with_windows(number) {
                self.add_windows(&mut process, rank, &windows[number]);
            } else {
                process.windows.off = Some(Off::HostBound(300));
            }
            capture.processes.push(process);
        }
        capture
    }

    /// Communicators and names, before any process.
    pub(crate) fn empty(&self) -> (Capture, Names) {
        let mut capture = Capture::default();
        let names = [
            "AllReduce",
            "AllGather",
            "ReduceScatter",
            "Broadcast",
            "Send",
            "Recv",
            "SendRecv",
            "AlltoAll",
            "ncclFloat16",
            "ncclFloat32",
        ];
        let names = names.into_iter();
        let names = names.map(|name| (name, capture.names.intern(name)));
        let names = names.collect();
        for (index, members) in self.comms.iter().enumerate() {
            capture.communicators.push(Communicator {
                // As it is read from files.
                id: format!("{:016x}", index + 1),
                hash: index as u64 + 1,
                ..communicator(index, members)
            });
        }
        (capture, names)
    }

    /// A process with what was recorded up to a moment.
    pub(crate) fn process(
        &self,
        number: usize,
        rank: &Rank,
        names: &Names,
        evidence: &Evidence,
        until: i64,
    ) -> Process {
        let device = self.device(number);
        let locals = self.comms.iter().enumerate().map(|(index, members)| Local {
            uid: index as u32,
            nranks: members.len() as u32,
            rank: members.iter().position(|r| *r == number).map(|r| r as u32),
            device: Some(device),
            ..Local::default()
        });
        let mut process = Process {
            rank: Some(number as u32),
            host: if self.hosts.iter().all(|host| *host == 0) {
                "host".to_owned()
            } else {
                format!("host-{}", self.hosts[number])
            },
            pid: 100 + number as u32,
            communicators: locals.filter(|l| l.rank.is_some()).collect(),
            ..Process::default()
        };
        let timing = if evidence.events { "auto" } else { "host" };
        process.facts.insert("timing".into(), timing.into());
        process.setup.counts.push(rank.counts());
        let mut asked = rank.asked.iter().peekable();
        let kind = |called: &Called| (called.comm, called.function, called.bytes);
        let mut often: HashMap<(usize, &str, u64), u32> = HashMap::new();
        let launched = rank.calls.iter();
        for called in launched.filter(|called| rank.nodes[called.node].graph.is_none()) {
            *often.entry(kind(called)).or_default() += 1;
        }
        let most_often = often.values().copied().max().unwrap_or(0);
        let mut launches: HashMap<(usize, &str, u64), u32> = HashMap::new();
        let mut numbers: HashMap<(usize, &str), u64> = HashMap::new();
        let captured = rank.graphs.first().map(|(first, ..)| *first);
        for called in rank.calls.iter().filter(|called| called.api <= until) {
            let graph = rank.nodes[called.node].graph;
            if graph.is_some() && graph != captured {
                continue;
            }
            let in_graph = graph.is_some();
            let kind = kind(called);
            let index = launches.entry(kind).or_default();
            let often = often.get(&kind).copied().unwrap_or(0);
            let level = level_of(evidence.level(number), often, most_often);
            let timed = !in_graph && evidence.events && sampled(*index, level);
            *index += 1;
            let node = &rank.nodes[called.node];
            let is_back = called.back <= until;
            let has_launched = called.launch <= until;
            let end = node.end.filter(|end| *end <= until);
            let (mut waiter, mut waited) = (0, 0);
            let waits = called.waited_by.filter(|_| timed && evidence.stream_waits);
            if let (Some(wait), Some(start), Some(end)) = (waits, node.start, end) {
                // The computing stream had nothing else to do from here on.
                let end_of = |node: Option<usize>| rank.nodes[node?].end;
                let begun = end_of(wait.busy).or(Some(start)).max(end_of(wait.before));
                let from = begun.unwrap_or(start);
                let asked = wait.asked;
                use capture::live::waiter as of;
                waiter = of::word(FIRST_STREAM, of::TIMED);
                waited = of::units((end - from.max(asked)).max(0));
            }
            // In launches of NCCL, too: their rows are full when the call is made.
            let mut driver_waited_ns = 0;
            while let Some(of) = asked.next_if(|of| of.at - SINCE_1970 < called.api) {
                driver_waited_ns += match of.kind {
                    DriverCallKind::LaunchGraph => 0,
                    _ => windows::waited(of.took, WAITED_NS, LAUNCH_NS).unwrap_or(1),
                };
            }
            // A row counts in units of 64 ticks.
            if driver_waited_ns > 0 {
                driver_waited_ns = driver_waited_ns.max(64);
            }
            let first = process.calls.len() as u32;
            let own = self.comms[called.comm].iter().position(|r| *r == number);
            let ways: Vec<(&str, Option<u32>)> = if called.ways.is_empty() {
                vec![(called.function, None)]
            } else {
                let of = |way: &Way| {
                    let (function, peer) = match way {
                        Way::To(peer) => ("Send", *peer),
                        Way::From(peer) => ("Recv", *peer),
                    };
                    let peer = self.comms[called.comm].iter().position(|r| *r == peer);
                    (function, peer.map(|p| p as u32))
                };
                called.ways.iter().map(of).collect()
            };
            // NCCL numbers the operations of all ranks, by communicator and function.
            let seq = if called.ways.is_empty() && !in_graph {
                let number = numbers.entry((called.comm, called.function)).or_default();
                *number += 1;
                *number
            } else {
                0
            };
            let several = ways.len() > 1;
            let all = called.ways.len() == 2 * self.comms[called.comm].len();
            let fused = several && !all && evidence.sends_as_announced;
            for (function, peer) in &ways {
                let launched = !in_graph && (!fused || *function == "Send");
                let shape = Shape {
                    uid: called.comm as u32,
                    communicator: Some(called.comm as u32),
                    device: Some(device),
                    rank: own.map(|r| r as u32),
                    nranks: Some(self.comms[called.comm].len() as u32),
                    function: names[function],
                    parts: match (launched && evidence.events, timed) {
                        (false, _) => 0,
                        (true, true) => part::EVENTS,
                        (true, false) => part::UNSAMPLED,
                    },
                    flags: match (peer.is_some(), in_graph) {
                        (true, _) => flag::P2P,
                        (false, true) => flag::CAPTURED,
                        (false, false) => 0,
                    },
                    datatype: names[called.datatype],
                    count: called.bytes,
                    peer: *peer,
                    stream: handle(node.stream),
                    ..Shape::default()
                };
                let known = process.shapes.iter().position(|s| *s == shape);
                let index = known.unwrap_or_else(|| {
                    process.shapes.push(shape);
                    process.shapes.len() - 1
                });
                process.calls.push(Call {
                    ticket: process.calls.len() as u64,
                    shape: index as u32,
                    seq,
                    api_ns: SINCE_1970 + called.api,
                    launch_start_ns: if launched && has_launched {
                        SINCE_1970 + called.launch
                    } else {
                        0
                    },
                    launch_end_ns: if launched && is_back {
                        SINCE_1970 + called.back - RETURNS
                    } else {
                        0
                    },
                    return_ns: if is_back { SINCE_1970 + called.back } else { 0 },
                    driver_waited_ns: std::mem::take(&mut driver_waited_ns),
                    gpu: match (node.start, end) {
                        (Some(start), Some(end)) if launched && timed => GpuTimes::OnHost {
                            start: SINCE_1970 + start,
                            stop: SINCE_1970 + end,
                            error: 500,
                        },
                        _ => GpuTimes::None,
                    },
                    gpu_seen_ns: match end {
                        Some(end) if launched && timed => SINCE_1970 + end + 1000,
                        _ => 0,
                    },
                    verdict: if fused && launched && timed {
                        verdict::FUSED
                    } else {
                        0
                    },
                    composite: u32::from(several && !fused) * (process.composites.len() as u32 + 1),
                    waiter: if launched { waiter } else { 0 },
                    waited,
                    sealed: is_back && (!(launched && timed) || end.is_some()),
                    ..Call::default()
                });
            }
            if several && !fused {
                process.composites.push(Composite {
                    function: names[if all { "AlltoAll" } else { "SendRecv" }],
                    calls: (first..first + ways.len() as u32).collect(),
                    alone: true,
                });
            }
        }
        let level = evidence.events.then(|| evidence.level(number));
        process.graphs = graphs(&process, rank, until, level);
        process
    }

    /// CUDA's number of a rank's GPU.
    fn device(&self, rank: usize) -> u32 {
        let before = self.hosts[..rank].iter();
        before.filter(|host| **host == self.hosts[rank]).count() as u32
    }

    fn add_windows(&self, process: &mut Process, rank: &Rank, windows: &[(u64, i64, i64)]) {
        let mut kernels: Vec<String> = vec![String::new()];
        let mut of_kernel: Vec<usize> = Vec::new();
        for node in &rank.nodes {
            let name = match &node.does {
                Kind::Compute(name, _) => (*name).to_owned(),
                Kind::Collective(..) => String::new(),
                Kind::Pass(..) => "ncclDevKernel_SendRecv".to_owned(),
            };
            of_kernel.push(if name.is_empty() {
                0
            } else {
                kernels.iter().position(|n| *n == name).unwrap_or_else(|| {
                    kernels.push(name);
                    kernels.len() - 1
                })
            });
        }
        for called in rank.calls.iter().filter(|c| c.ways.is_empty()) {
            let name = format!("ncclDevKernel_{}_RING_LL", called.function);
            of_kernel[called.node] = kernels.iter().position(|n| *n == name).unwrap_or_else(|| {
                kernels.push(name);
                kernels.len() - 1
            });
        }
        process.windows.names = kernels;
        for (planned, from, to) in windows {
            let inside = |at: i64| (*from..*to).contains(&at);
            let mut ran: Vec<GpuActivity> = Vec::new();
            for (index, node) in rank.nodes.iter().enumerate() {
                if inside(node.launch) {
                    ran.push(GpuActivity {
                        device: process
                            .communicators
                            .first()
                            .and_then(|c| c.device)
                            .unwrap_or(0),
                        start: SINCE_1970 + node.start.expect("played"),
                        end: SINCE_1970 + node.end.expect("played"),
                        name: of_kernel[index] as u32,
                        stream: FIRST_STREAM + node.stream as u32,
                        correlation: node.graph.unwrap_or(index) as u32 + 1,
                        graph: if node.graph.is_some() { CUDA_GRAPH } else { 0 },
                        node: node.graph.map_or(0, |first| (index - first) as u64 + 1),
                        kind: capture::windows::ActivityKind::Kernel,
                        size: 1,
                    });
                }
            }
            ran.sort_by_key(|r| r.start);
            let asked = rank.asked.iter().filter(|a| inside(a.at - SINCE_1970));
            process.windows.list.push(Window {
                number: *planned as u32,
                planned: *planned,
                opening: SINCE_1970 + from,
                open: SINCE_1970 + from,
                closing: SINCE_1970 + to,
                closed: SINCE_1970 + to + 3 * MS,
                ran,
                asked: asked.copied().collect(),
                ..Window::default()
            });
        }
    }
}

impl Rank {
    /// How often it called the driver, as the recorder counts it.
    fn counts(&self) -> Counts {
        let of = |kind: DriverCallKind| self.asked.iter().filter(|a| a.kind == kind).count() as u64;
        let of_nccl = self
            .calls
            .iter()
            .filter(|c| self.nodes[c.node].graph.is_none());
        let launches = of(DriverCallKind::Launch).saturating_sub(of_nccl.count() as u64);
        Counts {
            at_ns: SINCE_1970 + self.host as i64,
            of: [("kernel_launches", launches), ("told_apart", 1)]
                .map(|(name, n)| (name.to_owned(), n))
                .into(),
        }
    }
}

/// The graph that a rank launches, of the calls that were captured into it. One in `1 << level` launches is
/// timed; `None`: none is.
fn graphs(process: &Process, rank: &Rank, until: i64, level: Option<u32>) -> Graphs {
    let launched = rank.graphs.partition_point(|(_, at, _)| *at <= until);
    let launched = &rank.graphs[..launched];
    let Some((_, newest, took)) = launched.last().copied() else {
        return Graphs::default();
    };
    let captured = process.calls.iter().map(|call| call.shape);
    let captured = captured.filter(|shape| process.shapes[*shape as usize].is(flag::CAPTURED));
    let mut shapes: Vec<u32> = Vec::new();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for shape in captured {
        let known = shapes.iter().position(|s| *s == shape);
        let number = known.unwrap_or_else(|| {
            shapes.push(shape);
            shapes.len() - 1
        }) as u32;
        match runs.last_mut() {
            Some(last) if last.0 == number => last.1 += 1,
            _ => runs.push((number, 1)),
        }
    }
    let ran = |first: usize| {
        let all = rank.nodes[first..].iter();
        let own = all.take_while(|node| node.graph == Some(first));
        let end = own.map(|node| node.end).max().flatten();
        let (start, end) = rank.nodes[first].start.zip(end)?;
        (end <= until).then(|| (SINCE_1970 + start, (end - start) as u64))
    };
    let is_timed = |index: u32| level.is_some_and(|level| sampled(index, level));
    let launches = (0..)
        .zip(launched)
        .map(|(index, (first, at, took))| Launch {
            graph: 1,
            at: SINCE_1970 + at,
            took: *took,
            stream: 0,
            gpu: ran(*first).filter(|_| is_timed(index)),
        });
    Graphs {
        shapes,
        contents: vec![Content {
            runs,
            countable: true,
        }],
        executables: vec![Graph {
            number: 1,
            content: Some(0),
            before: None,
            instantiated: launched.first().map(|(_, at, _)| SINCE_1970 + at - MS),
            destroyed: None,
            launches: launched.len() as u64,
            newest: Some(SINCE_1970 + newest),
            launching: newest.saturating_add(took as i64) > until,
            stream: 0,
        }],
        launches: launches.collect(),
        ..Graphs::default()
    }
}

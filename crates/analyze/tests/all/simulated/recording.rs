//! A job that was played, as the recorder would have written it.

use super::{Kind, Played, Random, Rank, Way, FIRST_STREAM, MS, SINCE_1970};
use crate::communicators::communicator;
use std::collections::BTreeMap;
use tables::communicators::Local;
use tables::composites::Composite;
use tables::windows::{GpuActivity, Off, Window};
use tables::{Call, Capture, Communicator, GpuTimes, Process, Shape};

/// Which ranks have kernel windows.
pub type Windows<'a> = &'a dyn Fn(usize) -> bool;

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

    /// What the recorder would have written.
    pub fn capture(&self, with_windows: Windows) -> Capture {
        let mut capture = Capture::default();
        let names: BTreeMap<&str, tables::Name> = [
            "AllReduce",
            "AllGather",
            "ReduceScatter",
            "Broadcast",
            "Send",
            "Recv",
            "SendRecv",
            "AlltoAll",
        ]
        .into_iter()
        .map(|name| (name, capture.names.intern(name)))
        .collect();
        for (index, members) in self.comms.iter().enumerate() {
            capture.communicators.push(Communicator {
                id: format!("comm-{index}"),
                hash: index as u64 + 1,
                ..communicator(index, members)
            });
        }
        let windows = self.windows();
        for (number, rank) in self.ranks.iter().enumerate() {
            let process =
                self.process(number, rank, &names, with_windows(number), &windows[number]);
            capture.processes.push(process);
        }
        capture
    }

    fn process(
        &self,
        number: usize,
        rank: &Rank,
        names: &BTreeMap<&str, tables::Name>,
        with_windows: bool,
        windows: &[(u64, i64, i64)],
    ) -> Process {
        let locals = self.comms.iter().enumerate().map(|(index, members)| Local {
            uid: index as u32,
            nranks: members.len() as u32,
            rank: members.iter().position(|r| *r == number).map(|r| r as u32),
            device: Some(number as u32),
            ..Local::default()
        });
        let mut process = Process {
            rank: Some(number as u32),
            host: "host".to_owned(),
            pid: 100 + number as u32,
            communicators: locals.filter(|l| l.rank.is_some()).collect(),
            ..Process::default()
        };
        process.facts.insert("timing".into(), "auto".into());
        for called in &rank.calls {
            let node = &rank.nodes[called.node];
            let (start, end) = (node.start.expect("played"), node.end.expect("played"));
            let (mut waiter, mut waited) = (0, 0);
            if let Some((busy, asked)) = called.waited_by {
                // The computing stream had nothing else to do from here on.
                let from = match busy {
                    usize::MAX => start,
                    busy => rank.nodes[busy].end.expect("played"),
                };
                use capture::live::waiter as of;
                waiter = of::word(FIRST_STREAM, of::TIMED);
                waited = of::units((end - from.max(asked)).max(0));
            }
            let first = process.calls.len() as u32;
            let own = self.comms[called.comm].iter().position(|r| *r == number);
            let ways: Vec<(&str, Option<u32>)> = match called.ways.is_empty() {
                true => vec![(called.function, None)],
                false => {
                    let of = |way: &Way| {
                        let (function, peer) = match way {
                            Way::To(peer) => ("Send", *peer),
                            Way::From(peer) => ("Recv", *peer),
                        };
                        let peer = self.comms[called.comm].iter().position(|r| *r == peer);
                        (function, peer.map(|p| p as u32))
                    };
                    called.ways.iter().map(of).collect()
                }
            };
            let several = ways.len() > 1;
            for (function, peer) in &ways {
                let shape = Shape {
                    uid: called.comm as u32,
                    communicator: Some(called.comm as u32),
                    device: Some(number as u32),
                    rank: own.map(|r| r as u32),
                    nranks: Some(self.comms[called.comm].len() as u32),
                    function: names[function],
                    parts: capture::live::part::EVENTS,
                    flags: if peer.is_some() {
                        capture::live::flag::P2P
                    } else {
                        0
                    },
                    count: called.bytes,
                    peer: *peer,
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
                    api_ns: SINCE_1970 + called.api,
                    launch_start_ns: SINCE_1970 + called.launch,
                    launch_end_ns: SINCE_1970 + called.launch + 2000,
                    return_ns: SINCE_1970 + called.back,
                    gpu: GpuTimes::OnHost {
                        start: SINCE_1970 + start,
                        stop: SINCE_1970 + end,
                        error: 500,
                    },
                    gpu_seen_ns: SINCE_1970 + end + 1000,
                    composite: u32::from(several) * (process.composites.len() as u32 + 1),
                    waiter,
                    waited,
                    sealed: true,
                    ..Call::default()
                });
            }
            if several {
                let all = called.ways.len() == 2 * self.comms[called.comm].len();
                process.composites.push(Composite {
                    function: names[if all { "AlltoAll" } else { "SendRecv" }],
                    calls: (first..first + ways.len() as u32).collect(),
                    alone: true,
                });
            }
        }
        if !with_windows {
            process.windows.off = Some(Off::HostBound(300));
            return process;
        }
        let mut kernels: Vec<String> = vec![String::new()];
        let mut of_kernel: Vec<usize> = Vec::new();
        for node in &rank.nodes {
            let name = match &node.does {
                Kind::Compute(name, _) => (*name).to_owned(),
                Kind::Collective(..) => String::new(),
                Kind::Pass(..) => "ncclDevKernel_SendRecv".to_owned(),
            };
            of_kernel.push(match name.is_empty() {
                true => 0,
                false => kernels.iter().position(|n| *n == name).unwrap_or_else(|| {
                    kernels.push(name);
                    kernels.len() - 1
                }),
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
                        device: number as u32,
                        start: SINCE_1970 + node.start.expect("played"),
                        end: SINCE_1970 + node.end.expect("played"),
                        name: of_kernel[index] as u32,
                        stream: FIRST_STREAM + node.stream as u32,
                        correlation: index as u32 + 1,
                        graph: 0,
                        node: 0,
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
        process
    }
}

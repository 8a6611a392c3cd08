//! Jobs with kernel windows, made up kernel by kernel, so that all that a report says of them is known.
//!
//! A [`Job`] is told when each rank's kernels ran, and which call each of NCCL's kernels carried out.
//! [`Job::report`] puts the kernels into windows and reads the whole as a capture.

use analyze::{report, Report};
use simulate::communicator;
use std::ops::Range;
use tables::communicators::Local;
use tables::composites::Composite;
use tables::windows::{GpuActivity, Window};
use tables::{Call, Capture, Communicator, Process, Shape};

pub const MS: i64 = 1_000_000;
const SINCE_1970: i64 = 1_700_000_000_000_000_000;
/// A kernel is launched so long before it runs.
const LAUNCH: i64 = 5_000;
const COMPUTE_STREAM: u32 = 7;

/// A send or a receive.
#[derive(Clone, Copy)]
pub enum Way {
    To(u32),
    From(u32),
}

pub struct Job {
    pub capture: Capture,
    names: Vec<String>,
    ran: Vec<Vec<GpuActivity>>,
}

impl Job {
    /// Of so many ranks, with one communicator.
    pub fn new(ranks: u32) -> Job {
        let mut capture = Capture::default();
        let members: Vec<usize> = (0..ranks as usize).collect();
        capture.communicators.push(Communicator {
            id: "world".to_owned(),
            ..communicator(0, &members)
        });
        let process = |rank: u32| Process {
            rank: Some(rank),
            host: "host".to_owned(),
            pid: 100 + rank,
            communicators: vec![Local {
                nranks: ranks,
                rank: Some(rank),
                device: Some(0),
                ..Local::default()
            }],
            ..Process::default()
        };
        capture.processes = (0..ranks).map(process).collect();
        Job {
            capture,
            names: vec![String::new()],
            ran: vec![Vec::new(); ranks as usize],
        }
    }

    fn push(&mut self, rank: u32, stream: u32, name: &str, span: Range<i64>) {
        let known = self.names.iter().position(|n| n == name);
        let name = known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        self.ran[rank as usize].push(GpuActivity {
            device: 0,
            start: SINCE_1970 + span.start,
            end: SINCE_1970 + span.end,
            name: name as u32,
            stream,
            correlation: 0,
            graph: 0,
            node: 0,
            kind: capture::windows::ActivityKind::Kernel,
            size: 1,
        });
    }

    /// A kernel of a rank's own, ns.
    pub fn computes(&mut self, rank: u32, name: &str, span: Range<i64>) {
        self.push(rank, COMPUTE_STREAM, name, span);
    }

    /// A kernel that sends and receives, on this stream.
    pub fn passes(&mut self, rank: u32, ways: &[Way], stream: u32, span: Range<i64>) {
        let functions = ["Send", "Recv", "SendRecv"].map(|f| self.capture.names.intern(f));
        self.push(rank, stream, "ncclDevKernel_SendRecv", span.clone());
        let process = &mut self.capture.processes[rank as usize];
        let first = process.calls.len() as u32;
        for way in ways {
            let (function, peer) = match way {
                Way::To(peer) => (functions[0], *peer),
                Way::From(peer) => (functions[1], *peer),
            };
            let shape = Shape {
                communicator: Some(0),
                rank: Some(rank),
                function,
                count: 1 << 20,
                peer: Some(peer),
                ..Shape::default()
            };
            let known = process.shapes.iter().position(|s| *s == shape);
            let index = known.unwrap_or_else(|| {
                process.shapes.push(shape);
                process.shapes.len() - 1
            });
            let at = SINCE_1970 + span.start - LAUNCH;
            let several = ways.len() > 1;
            process.calls.push(Call {
                shape: index as u32,
                api_ns: at - 1000,
                launch_start_ns: at,
                return_ns: at + 1000,
                composite: u32::from(several) * (process.composites.len() as u32 + 1),
                sealed: true,
                ..Call::default()
            });
        }
        if ways.len() > 1 {
            process.composites.push(Composite {
                function: functions[2],
                calls: (first..first + ways.len() as u32).collect(),
                alone: true,
            });
        }
    }

    /// The report, with windows that show these times.
    pub fn report(mut self, windows: &[Range<i64>]) -> Report {
        for (process, ran) in self.capture.processes.iter_mut().zip(&mut self.ran) {
            // Pieces of operations are by number of their call.
            let mut order: Vec<usize> = (0..process.calls.len()).collect();
            order.sort_by_key(|index| process.calls[*index].launch_start_ns);
            let at: Vec<u32> = {
                let mut at = vec![0; order.len()];
                for (new, old) in order.iter().enumerate() {
                    at[*old] = new as u32;
                }
                at
            };
            process.calls = order
                .iter()
                .enumerate()
                .map(|(ticket, index)| Call {
                    ticket: ticket as u64,
                    ..process.calls[*index]
                })
                .collect();
            // No two launches of a host are at the same time.
            let mut last = (0, 0);
            for call in &mut process.calls {
                let same = call.composite != 0 && call.composite == last.1;
                if !same && call.launch_start_ns <= last.0 {
                    call.launch_start_ns = last.0 + 1;
                } else if same {
                    call.launch_start_ns = last.0;
                }
                last = (call.launch_start_ns, call.composite);
            }
            for composite in &mut process.composites {
                for index in &mut composite.calls {
                    *index = at[*index as usize];
                }
            }
            ran.sort_by_key(|r| r.start);
            for (correlation, ran) in (1..).zip(&mut *ran) {
                ran.correlation = correlation;
            }
            process.windows.names.clone_from(&self.names);
            process.windows.list = (1..)
                .zip(windows)
                .map(|(number, span)| {
                    let span = SINCE_1970 + span.start..SINCE_1970 + span.end;
                    let launched = |r: &&GpuActivity| span.contains(&(r.start - LAUNCH));
                    Window {
                        number,
                        opening: span.start,
                        open: span.start,
                        closing: span.end,
                        closed: span.end,
                        ran: ran.iter().filter(launched).copied().collect(),
                        ..Window::default()
                    }
                })
                .collect();
        }
        report(&self.capture)
    }
}

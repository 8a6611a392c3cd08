//! What the job's GPUs did in kernel windows: how much of communication stopped the job, and for whom it
//! waited.
//!
//! A [`Gatherer`] takes one process at a time. Of each window and GPU it keeps what [`window::seen`] finds,
//! and which of NCCL's kernels carried out which calls ([`join`]). [`Gatherer::finish`] puts ranks together:
//! shares of the time, with their intervals, kernels by name, and exposed waiting for each rank
//! ([`waiting`]).
//!
//! Rule: windows are samples, so all figures are shares of the time that they show; each window counts by its
//! length. What a window can't show (calls that were launched before it, a GPU without CUPTI) is left out,
//! and counted where it is.

pub mod bubbles;
mod by_name;
mod causes;
mod host;
pub mod idle;
mod interference;
mod intervals;
mod join;
pub mod kernels;
mod kinds;
mod losses;
pub mod replays;
mod schedule;
mod timed;
mod waiting;
pub(crate) mod whole_run;
mod window;

use crate::executions::{Execution, Place};
use crate::interval::{Batches, LEAST_STRETCHES};
use crate::steps::{Steps, StepsRow};
use bubbles::Bubble;
use by_name::ByName;
use interference::{alone, computed, slowed, Alone, Computed};
use intervals::Union;
use join::Launched;
use kinds::Names;
use replays::Replay;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use tables::windows::Off;
use tables::{Capture, Process};
use timed::Timed;
use waiting::Waits;
use window::Seen;

/// What the GPUs did, from kernel windows.
#[derive(Clone, Debug, Serialize)]
pub struct Streams {
    /// Windows that count, summed over GPUs.
    pub windows: u64,
    /// Windows that were left to another profiler, summed over processes.
    pub yielded: u64,
    /// Why processes have no windows: cause and processes.
    pub without: BTreeMap<&'static str, u64>,
    /// By restart and rank.
    pub ranks: Vec<RankStreams>,
    /// NCCL's kernels by function, largest time first.
    pub communication: Vec<FunctionStreams>,
    /// Communication that NCCL does not know of, by library.
    pub other_communication: Vec<OtherCommunication>,
    /// Kernels by name, largest time first; copies and fills too.
    pub kernels: Vec<KernelRow>,
    /// The same by GPU, in that order and by rank: those with the largest time.
    pub kernels_by_rank: Vec<KernelOfRank>,
    /// The time in windows for which it is known who was waited for, on the GPU with the least of it, µs.
    pub common_us: f64,
    /// Operations in that time that were found on all their ranks.
    pub operations: u64,
    /// GPUs without windows of which CUDA events say when they came.
    pub timed: u64,
    /// Who was waited for, largest loss first.
    pub waited_for: Vec<WaitedFor>,
    /// Replays of CUDA graphs that communicate, by rank and calls, longest in all first.
    pub replays: Vec<Replay>,
    /// By rank: the bubbles of a job that passes data on by sends and receives, as pipelines do; else empty.
    pub bubbles: Vec<Bubble>,
}

/// With fewer operations on all ranks, windows don't say who was waited for.
const LEAST_MATCHED: u64 = 16;

impl Streams {
    /// A test's, with these losses.
    #[cfg(test)]
    pub(crate) fn of_waits(waited_for: Vec<WaitedFor>) -> Streams {
        Streams {
            windows: 8,
            yielded: 0,
            without: BTreeMap::new(),
            ranks: Vec::new(),
            communication: Vec::new(),
            other_communication: Vec::new(),
            kernels: Vec::new(),
            kernels_by_rank: Vec::new(),
            common_us: 1e6,
            operations: 100,
            timed: 0,
            bubbles: Vec::new(),
            replays: Vec::new(),
            waited_for,
        }
    }

    /// Whether the windows of several GPUs say who was waited for, and what that cost.
    pub fn tells_who(&self) -> bool {
        let enough = |rank: &RankStreams| rank.exposed_waiting.interval.is_some();
        self.ranks.len() as u64 + self.timed > 1
            && self.operations >= LEAST_MATCHED
            && self.ranks.iter().all(enough)
    }
}

/// A share of the time, or a ratio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Share {
    /// The share, 0 to 1.
    pub share: f64,
    /// 95 % interval; null for fewer than three windows.
    pub interval: Option<(f64, f64)>,
}

/// One GPU of a process.
#[derive(Clone, Debug, Serialize)]
pub struct RankStreams {
    /// The launcher's rank.
    pub rank: Option<u32>,
    /// Host.
    pub host: String,
    /// Process.
    pub pid: u32,
    /// CUDA device ordinal.
    pub device: u32,
    /// Windows that count.
    pub windows: u64,
    /// How long they are together, µs.
    pub seen_us: f64,
    /// Kernels computed, and nothing communicated.
    pub computing: Share,
    /// Kernels computed beside communication.
    pub beside: Share,
    /// Kernels communicated, and nothing computed.
    pub exposed: Share,
    /// Only copies and fills ran.
    pub copies: Share,
    /// Nothing ran.
    pub idle: Share,
    /// What its host did meanwhile; null if the node sampler did not watch it.
    pub idle_causes: Option<idle::IdleCauses>,
    /// Of exposed: it waited for other ranks.
    pub exposed_waiting: Share,
    /// Its host waited for the GPU. Null where that is not known, because not all launches were seen.
    pub host_waited: Option<Share>,
    /// How much longer the same kernels ran beside communication than without, by which part of the time;
    /// null where none ran both ways.
    pub interference: Option<f64>,
    /// What that cost of the time.
    pub interference_share: Option<f64>,
}

/// Kernels of a library that communicates beside NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OtherCommunication {
    /// Which.
    pub library: &'static str,
    /// Its kernels in windows.
    pub kernels: u64,
    /// Their time, µs.
    pub sum_us: f64,
}

/// NCCL's kernels of a function.
#[derive(Clone, Debug, Serialize)]
pub struct FunctionStreams {
    /// The function.
    pub function: String,
    /// Kernels in windows.
    pub kernels: u64,
    /// Their time, µs.
    pub sum_us: f64,
    /// Of that: nothing computed beside them.
    pub exposed_us: f64,
    /// Of that: other kernels computed beside them.
    pub hidden_us: f64,
}

/// Kernels of a name, or copies or fills.
#[derive(Clone, Debug, Serialize)]
pub struct KernelRow {
    /// The name.
    pub name: String,
    /// `computing`, `communication`, `copy` or `fill`.
    pub kind: &'static str,
    /// How many.
    pub kernels: u64,
    /// Their time, µs.
    pub sum_us: f64,
    /// Their time by the time that windows show, 0 to 1 for a kernel that runs alone.
    pub share: f64,
    /// Of their time: communication ran beside them.
    pub beside_us: f64,
}

/// Kernels of a name, or copies or fills, of one GPU.
#[derive(Clone, Debug, Serialize)]
pub struct KernelOfRank {
    /// The launcher's rank.
    pub rank: Option<u32>,
    /// Host.
    pub host: String,
    /// Process.
    pub pid: u32,
    /// CUDA device ordinal.
    pub device: u32,
    /// As in [`KernelRow`].
    pub name: String,
    /// As in [`KernelRow`].
    pub kind: &'static str,
    /// How many.
    pub kernels: u64,
    /// Their time, µs.
    pub sum_us: f64,
    /// Their time by the time that windows of this GPU show.
    pub share: f64,
    /// Of their time: communication ran beside them.
    pub beside_us: f64,
}

/// A GPU that others waited for.
#[derive(Clone, Debug, Serialize)]
pub struct WaitedFor {
    /// The launcher's rank.
    pub rank: Option<u32>,
    /// Host.
    pub host: String,
    /// Process.
    pub pid: u32,
    /// CUDA device ordinal.
    pub device: u32,
    /// Operations in windows in which it was last.
    pub last: u64,
    /// Of so many that it was in.
    pub operations: u64,
    /// It has no windows: CUDA events say when it came.
    pub by_events: bool,
    /// What the job would take less had it been no later than the others are: exposed waiting for it, less
    /// what it waited for them, and what waiting kernels slowed. Of the time.
    pub loss: Share,
    /// The same of the time from its first call to its last, µs.
    pub loss_us: f64,
    /// 95 % interval of that; null for fewer than three windows.
    pub loss_interval_us: Option<(f64, f64)>,
    /// Its GPU stood idle for so much longer than the others' that this explains half of the loss: its host
    /// was late. Else its GPU was busy.
    pub host_late: bool,
    /// The GPU that lost least by waiting for it: host, process and device.
    #[serde(skip)]
    pub(crate) other: (String, u32, u32),
    /// How much faster that one's host could be, of the time.
    #[serde(skip)]
    pub(crate) host_most: Option<f64>,
    /// From its process's first call to the last, ns.
    #[serde(skip)]
    pub(crate) active_ns: f64,
    /// It was scaled to the run by CUDA events.
    #[serde(skip)]
    pub(crate) by_run: bool,
    /// How long a cycle of the other one's windows is, ns; 0 if they show none.
    #[serde(skip)]
    pub(crate) cycle_ns: f64,
}

/// What a window shows of a GPU.
pub(crate) struct LaneWindow {
    pub(crate) seen: Seen,
    pub(crate) names: Arc<Names>,
    computed: Vec<Computed>,
}

impl Lane {
    /// The GPU of a test, with these windows.
    #[cfg(test)]
    pub(crate) fn with(windows: Vec<LaneWindow>) -> Lane {
        Lane {
            rank: None,
            host: String::new(),
            pid: 0,
            device: 0,
            active: 0,
            windows,
            host_pieces: Vec::new(),
            in_calls: None,
            idle: idle::Parts::default(),
            gpu_ran: Vec::new(),
            by_name: ByName::default(),
            timed: None,
            replays: Vec::new(),
        }
    }

    fn new(process: &Process, device: u32, active: i64) -> Lane {
        Lane {
            rank: process.rank,
            host: process.host.clone(),
            pid: process.pid,
            device,
            active,
            windows: Vec::new(),
            host_pieces: Vec::new(),
            in_calls: None,
            idle: idle::Parts::default(),
            gpu_ran: Vec::new(),
            by_name: ByName::default(),
            timed: None,
            replays: Vec::new(),
        }
    }

    /// How long a cycle of its windows is, ns; 0 if they show none.
    fn cycle_ns(&self) -> f64 {
        let marks = self.windows.iter().map(|window| &window.seen.marks);
        let (ns, cycles) = marks.fold((0, 0), |(ns, cycles), marks| {
            let span = marks.last().zip(marks.first());
            let long = span.map_or(0, |(last, first)| last - first);
            (ns + long, cycles + marks.len().saturating_sub(1))
        });
        ns as f64 / cycles.max(1) as f64
    }

    /// Its windows, and behind them what events timed.
    pub(crate) fn all(&self) -> impl Iterator<Item = &LaneWindow> {
        self.windows.iter().chain(&self.timed)
    }

    /// One of [`Lane::all`].
    pub(crate) fn at(&self, window: usize) -> &Seen {
        let timed = || &self.timed.as_ref().expect("an index of all").seen;
        self.windows.get(window).map_or_else(timed, |w| &w.seen)
    }

    /// Whether one of [`Lane::all`] shows what computed.
    pub(crate) fn shows_computing(&self, window: usize) -> bool {
        window < self.windows.len()
    }

    /// What its kernels take without communication.
    fn alone(&self) -> Alone {
        alone(self.windows.iter().map(LaneWindow::kernels))
    }
}

impl LaneWindow {
    /// A test's, of what was seen.
    #[cfg(test)]
    pub(crate) fn with(seen: Seen, names: Arc<Names>) -> LaneWindow {
        LaneWindow {
            seen,
            names,
            computed: Vec::new(),
        }
    }

    fn kernels(&self) -> (&[Computed], &Union) {
        (&self.computed, self.seen.communicates())
    }
}

/// What a window shows of exposed communication on one GPU. Times are ns on its host's clock.
pub(crate) struct Exposure {
    pub(crate) rank: Option<u32>,
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) device: u32,
    /// What counts of the window.
    pub(crate) span: intervals::Span,
    /// When kernels communicated in it, and nothing computed.
    pub(crate) exposed: Vec<intervals::Span>,
}

/// Which part of its calls a process made in quiet spells, in which no CUDA events were recorded.
pub(crate) struct Quiet {
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) share: f64,
}

/// One GPU.
pub(crate) struct Lane {
    rank: Option<u32>,
    host: String,
    pid: u32,
    device: u32,
    /// From its process's first call to the last, ns.
    active: i64,
    pub(crate) windows: Vec<LaneWindow>,
    /// What its process's host did, by pieces of windows.
    host_pieces: Vec<host::Piece>,
    /// For which part of the run NCCL kept it.
    in_calls: Option<f64>,
    /// What its host did while nothing ran.
    idle: idle::Parts,
    /// How far the GPU came, by cycles of windows.
    gpu_ran: Vec<host::Ran>,
    /// What ran in its windows.
    by_name: ByName,
    /// NCCL's kernels that CUDA events timed, where no window shows them; nothing of what computed is in it.
    timed: Option<LaneWindow>,
    /// Whole replays of graphs that communicate.
    replays: Vec<(replays::Calls, replays::Sample)>,
}

/// What is gathered from processes.
#[derive(Default)]
pub struct Gatherer {
    lanes: Vec<Lane>,
    quiet: Vec<Quiet>,
    yielded: u64,
    without: BTreeMap<&'static str, u64>,
}

/// Calls of a process that were launched in windows.
#[derive(Default)]
pub struct Calls {
    spans: Vec<(i64, i64)>,
    /// How many were launched in each window and quiet spell, and in all.
    by_span: Vec<u64>,
    made: u64,
    /// By window: device, call.
    calls: Vec<Vec<(u32, Launched)>>,
    /// When windows of any process show what runs.
    looked_at: Union,
    /// By device: what CUDA events timed meanwhile.
    timed: BTreeMap<u32, Vec<Timed>>,
    /// From the first call to the last, ns.
    active: Option<(i64, i64)>,
    /// What NCCL took of the host's time.
    host: host::InCalls,
}

impl Calls {
    /// For a process of `capture`.
    pub fn new(capture: &Capture, process: &Process) -> Calls {
        let spans: Vec<_> = process
            .windows
            .list
            .iter()
            .map(|w| (w.open, w.closing))
            .collect();
        Calls {
            by_span: vec![0; spans.len()],
            made: 0,
            calls: vec![Vec::new(); spans.len()],
            host: host::InCalls::new(&spans),
            spans,
            looked_at: timed::looked_at(capture),
            timed: BTreeMap::new(),
            active: None,
        }
    }

    /// Adds an execution of a process, if it was launched in a window, or ran in another process's. `devices`
    /// are those of the process's communicators, by place.
    #[inline]
    pub fn add(&mut self, process: &Process, devices: &[u32], execution: &Execution) {
        if execution.captured || (self.looked_at.is_empty() && self.spans.is_empty()) {
            return;
        }
        let call = execution.call;
        let at = if call.launch_start_ns != 0 {
            call.launch_start_ns
        } else {
            call.api_ns
        };
        self.take_in(at);
        let window = self.spans.partition_point(|span| span.1 < at);
        let window = (self.spans.get(window))
            .filter(|span| span.0 <= at)
            .map(|_| window);
        self.made += 1;
        if let Some(window) = window {
            self.by_span[window] += 1;
        }
        self.host
            .add((call.api_ns, call.launch_start_ns), window, &self.spans);
        let device = devices[execution.place];
        if let Some(span) = timed::span(execution, &self.looked_at) {
            let timed = self.timed.entry(device).or_default();
            each_call(process, call, |call| {
                timed.push(Timed {
                    span,
                    shape: call.shape,
                    launched: call.launch_start_ns,
                })
            });
        }
        let Some(window) = window else {
            return;
        };
        each_call(process, call, |call| {
            let launched = Launched {
                at,
                shape: call.shape,
                ticket: call.ticket,
            };
            self.calls[window].push((device, launched));
        });
    }

    fn take_in(&mut self, at: i64) {
        if at != 0 {
            let (from, to) = self.active.unwrap_or((at, at));
            self.active = Some((from.min(at), to.max(at)));
        }
    }
}

/// Hands the call to `each`, or the sends and receives of one operation, which have one launch.
fn each_call(process: &Process, call: &tables::Call, mut each: impl FnMut(&tables::Call)) {
    match (call.composite as usize).checked_sub(1) {
        None => each(call),
        Some(composite) => {
            let calls = process.composites[composite].calls.iter();
            calls.for_each(|index| each(&process.calls[*index as usize]));
        }
    }
}

/// The devices that calls at these places are launched on.
pub fn devices(process: &Process, places: &[Place]) -> Vec<u32> {
    let device = |uid: u32| {
        let local = process.communicator(uid);
        local.and_then(|local| local.device).unwrap_or(u32::MAX)
    };
    places.iter().map(|place| device(place.shape.uid)).collect()
}

fn cause(off: Off) -> Option<&'static str> {
    Some(match off {
        Off::NotAsked | Off::NoDriver => return None,
        Off::NoCupti => "no_cupti",
        Off::ForeignTool => "another_tool",
        Off::Error(_) => "cupti_error",
        Off::NoMemory => "no_memory",
        Off::HostBound(_) => "host_bound",
        Off::Unknown(_) => "unknown",
    })
}

impl Gatherer {
    /// Adds a process with the calls that it launched in windows. Returns what the windows show of calls in
    /// graphs: index of the shape, and for how long its kernel ran, ns.
    pub fn add(
        &mut self,
        capture: &Capture,
        process: &Process,
        mut calls: Calls,
    ) -> Vec<(u32, u64)> {
        let mut in_graphs = Vec::new();
        let windows = &process.windows;
        self.yielded += windows.yielded;
        let quiet = calls.by_span.iter().zip(&windows.list);
        let quiet = quiet.filter(|(_, window)| window.is_quiet());
        let quiet: u64 = quiet.map(|(calls, _)| calls).sum();
        self.quiet.push(Quiet {
            host: process.host.clone(),
            pid: process.pid,
            share: quiet as f64 / calls.made.max(1) as f64,
        });
        if let Some(cause) = windows.off.and_then(cause) {
            *self.without.entry(cause).or_default() += 1;
        }
        for launch in &process.graphs.launches {
            calls.take_in(launch.at);
        }
        let active = calls.active.map_or(0, |(from, to)| to - from);
        let names = Arc::new(Names::new(&windows.names, &capture.communication));
        let mut lanes: BTreeMap<u32, Lane> = BTreeMap::new();
        for (index, window) in windows
            .list
            .iter()
            .enumerate()
            .filter(|(_, w)| w.is_whole())
        {
            let host_pieces = host::pieces(window, &names, calls.host.of_window(index));
            let launched = &calls.calls[index];
            for on in join::on_devices(window, launched, process, &capture.names, &names) {
                let (ran, Some(seen)) = (on.ran, on.seen) else {
                    continue;
                };
                in_graphs.extend(seen.nccl.iter().filter_map(|kernel| {
                    let ns = u64::try_from(kernel.end - kernel.start).ok()?;
                    Some((kernel.captured_as?, ns))
                }));
                let lane = lanes.entry(on.device);
                let lane = lane.or_insert_with(|| Lane::new(process, on.device, active));
                lane.host_pieces.extend(&host_pieces);
                lane.in_calls = calls.host.share();
                lane.gpu_ran.extend(host::ran(ran, &names, &seen));
                lane.idle
                    .add(idle::parts(capture, process, window, &seen, ran));
                lane.replays.extend(replays::of_device(ran, &seen, &names));
                lane.by_name.add(ran, &seen, &names);
                // What communicates beside a kernel is only known in this time.
                let computed = computed(ran, &names, seen.known);
                lane.windows.push(LaneWindow {
                    seen,
                    names: names.clone(),
                    computed,
                });
            }
        }
        for (device, timed) in &calls.timed {
            // A communicator's device may not be known.
            let only = lanes.keys().next().copied();
            let only = only.filter(|_| *device == u32::MAX && lanes.len() == 1);
            let device = only.unwrap_or(*device);
            let lane = lanes.entry(device);
            let lane = lane.or_insert_with(|| Lane::new(process, device, active));
            lane.timed = timed::window(timed, process, &capture.names, &lane.windows);
        }
        self.lanes.extend(lanes.into_values());
        in_graphs
    }

    /// Takes in what was gathered from the processes that follow.
    pub fn merge(&mut self, later: Gatherer) {
        self.lanes.extend(later.lanes);
        self.quiet.extend(later.quiet);
        self.yielded += later.yielded;
        for (cause, n) in later.without {
            *self.without.entry(cause).or_default() += n;
        }
    }

    /// When windows were open on each GPU, and when communication was exposed in them.
    pub(crate) fn exposures(&self) -> Vec<Exposure> {
        let windows = self
            .lanes
            .iter()
            .flat_map(|lane| lane.windows.iter().map(move |window| (lane, window)));
        let exposure = |(lane, window): (&Lane, &LaneWindow)| {
            let seen = &window.seen;
            let exposed = seen.communicates.within(seen.span).without(&seen.computes);
            Exposure {
                rank: lane.rank,
                host: lane.host.clone(),
                pid: lane.pid,
                device: lane.device,
                span: seen.span,
                exposed: exposed.spans().to_vec(),
            }
        };
        windows.map(exposure).collect()
    }

    /// Which part of their calls processes made in quiet spells.
    pub(crate) fn quiet(&mut self) -> Vec<Quiet> {
        std::mem::take(&mut self.quiet)
    }

    /// Why there are no windows, in words; nothing if there are some.
    pub(crate) fn why_none(&self) -> Option<String> {
        if self.lanes.iter().any(|lane| !lane.windows.is_empty()) {
            return None;
        }
        let cause = |(cause, processes): (&&str, &u64)| format!("{cause} ({processes} processes)");
        let causes: Vec<String> = self.without.iter().map(cause).collect();
        Some(match causes.is_empty() {
            true => "there are no kernel windows".to_owned(),
            false => format!("there are no kernel windows: {}", causes.join(", ")),
        })
    }

    /// What the windows show; `None` if there are none, and nothing says why.
    pub fn finish(mut self, capture: &Capture) -> Option<Streams> {
        // Those without windows come last. Without a single window, they show nothing.
        self.lanes.sort_by_key(|lane| lane.windows.is_empty());
        if self
            .lanes
            .first()
            .is_some_and(|lane| lane.windows.is_empty())
        {
            self.lanes.clear();
        }
        if self.lanes.is_empty() && self.without.is_empty() && self.yielded == 0 {
            return None;
        }
        let members: Vec<usize> = capture
            .communicators
            .iter()
            .map(|c| c.nranks.map_or(c.members.len(), |n| n as usize))
            .collect();
        let waits = waiting::waits(&self.lanes, &members);
        let windows = self.lanes.iter().flat_map(|lane| &lane.windows);
        let all = alone(windows.map(LaneWindow::kernels));
        let own: Vec<Alone> = self.lanes.iter().map(Lane::alone).collect();
        let ranks = self.lanes.iter().zip(&own).enumerate();
        let ranks = ranks.filter(|(_, (lane, _))| !lane.windows.is_empty());
        let ranks: Vec<RankStreams> = ranks
            .map(|(index, (lane, own))| rank_row(index, lane, &waits, own, &all))
            .collect();
        let us = |ns: i64| ns as f64 / 1e3;
        let mut others: BTreeMap<&'static str, (u64, i64)> = BTreeMap::new();
        let windows = self.lanes.iter().flat_map(|lane| &lane.windows);
        for (library, (kernels, ns)) in windows.flat_map(|w| &w.seen.others) {
            let sum = others.entry(library).or_default();
            *sum = (sum.0 + kernels, sum.1 + ns);
        }
        let others = others.into_iter();
        let other_communication = others
            .map(|(library, (kernels, ns))| OtherCommunication {
                library,
                kernels,
                sum_us: us(ns),
            })
            .collect();
        let kernels = by_name::rows(&self.lanes);
        Some(Streams {
            windows: self
                .lanes
                .iter()
                .map(|lane| lane.windows.len() as u64)
                .sum(),
            yielded: self.yielded,
            without: self.without,
            communication: by_name::communication(&self.lanes),
            other_communication,
            kernels_by_rank: by_name::of_ranks(&self.lanes, &kernels),
            kernels,
            common_us: us(waits.looked_at()),
            timed: (self.lanes.len() - ranks.len()) as u64,
            operations: waits.operations,
            waited_for: losses::waited_for(&self.lanes, &ranks, &waits, &own, &all),
            replays: replays::rows(&self.lanes),
            bubbles: bubbles::bubbles(&self.lanes, &waits),
            ranks,
        })
    }
}

impl Streams {
    /// Takes in how long the steps of processes are.
    pub(crate) fn with_steps(&mut self, steps: &Steps) {
        for rank in &mut self.ranks {
            let same = |row: &&StepsRow| (&row.host, row.pid) == (&rank.host, rank.pid);
            let step = steps
                .rows
                .iter()
                .find(same)
                .and_then(|row| row.step_us.as_ref());
            if let Some(causes) = &mut rank.idle_causes {
                causes.step_us = step.map(|step| step.mean);
            }
        }
    }
}

/// A share of the time, from windows: what of it, and how long it is, each.
fn share(windows: impl Iterator<Item = (f64, f64)>) -> Share {
    let windows: Vec<(f64, f64)> = windows.filter(|(_, length)| *length > 0.0).collect();
    let (of, length) = windows
        .iter()
        .fold((0.0, 0.0), |(a, b), w| (a + w.0, b + w.1));
    let enough = windows.len() >= LEAST_STRETCHES;
    let interval = if enough && windows.iter().all(|(of, _)| *of == 0.0) {
        Some((0.0, 0.0))
    } else {
        let mean = enough.then(|| Batches::of_stretches(&windows)).flatten();
        mean.and_then(|batches| batches.mean(0.0)?.interval())
    };
    Share {
        share: if length > 0.0 { of / length } else { 0.0 },
        interval,
    }
}

/// How much faster a rank's host could have been.
fn host_waited(lane: &Lane) -> Option<Share> {
    host::ahead(&lane.host_pieces, &lane.gpu_ran, lane.in_calls)
}

fn rank_row(index: usize, lane: &Lane, waits: &Waits, own: &Alone, others: &Alone) -> RankStreams {
    let part = |pick: &dyn Fn(&Seen) -> i64| {
        let windows = lane.windows.iter().map(|w| &w.seen);
        share(windows.map(|seen| (pick(seen) as f64, seen.length() as f64)))
    };
    let exposed_waiting = share(waits.each(index, |at| {
        waits.all.get(&(index, at)).copied().unwrap_or(0) as f64
    }));
    let seen: i64 = lane.windows.iter().map(|w| w.seen.length()).sum();
    let windows = lane.windows.iter().map(LaneWindow::kernels);
    let beside = slowed(windows, &[own, others]);
    let beside_share = part(&|seen| seen.beside);
    RankStreams {
        rank: lane.rank,
        host: lane.host.clone(),
        pid: lane.pid,
        device: lane.device,
        windows: lane.windows.len() as u64,
        seen_us: seen as f64 / 1e3,
        computing: part(&|seen| seen.computing),
        beside: beside_share,
        exposed: part(&|seen| seen.exposed),
        copies: part(&|seen| seen.copies),
        idle: part(&Seen::idle),
        idle_causes: lane.idle.causes(seen),
        exposed_waiting,
        host_waited: host_waited(lane),
        interference: beside.ratio().map(|ratio| ratio - 1.0),
        interference_share: beside.ratio().map(|_| beside.lost() * beside_share.share),
    }
}

//! What the job's GPUs did in kernel windows: how much of communication stopped the job, and how much of that
//! was waiting.
//!
//! A [`Gatherer`] takes one process at a time. Of each window and GPU it keeps what [`window::seen`] finds,
//! and which of NCCL's kernels carried out which calls ([`join`]). [`Gatherer::finish`] puts ranks together:
//! shares of the time, with their intervals, kernels by name, and exposed waiting for each rank
//! ([`waiting`]).
//!
//! Rule: windows are samples, so all figures are shares of the time that they show; each window counts by its
//! length. What a window can't show (calls that were launched before it, a GPU without CUPTI) is left out,
//! and counted where it is.

mod beside_waiting;
pub mod bubbles;
mod busier;
mod by_name;
mod calls;
mod causes;
mod host;
pub mod idle;
mod interference;
mod intervals;
mod join;
mod kernel_rows;
pub mod kernels;
mod kinds;
mod lane;
mod replay_rows;
mod replays;
mod rows;
mod share;
mod timed;
mod waiting;
mod window;

use crate::time::Nanos;
use interference::{alone, computed, slowed, Alone, Computed};
use intervals::Span;
use kinds::Names;
pub(crate) use lane::{Exposure, Lane, LaneWindow};
use std::collections::BTreeMap;
use std::sync::Arc;
use tables::windows::Off;
use tables::{Capture, Process};
use waiting::Waits;
use window::Seen;

pub use busier::{Busier, MoreOften, MOST};
pub use calls::{devices, WindowCalls};
pub use kernel_rows::{FunctionStreams, KernelOfRank, KernelRow};
pub use kinds::communicating_part;
pub use replay_rows::Replay;
pub use rows::{OtherCommunication, RankStreams, Streams};
use share::share;
pub use share::Share;

/// Why there is no figure from kernel windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoWindows {
    /// None shows these buckets of time.
    InBuckets,
    /// The capture has none: so many processes had none, by cause.
    AtAll(BTreeMap<&'static str, u64>),
}

/// A kernel of NCCL that a window shows. Times are ns.
#[derive(Clone, Copy, Debug)]
pub struct ShownKernel {
    /// CUDA device ordinal.
    pub device: u32,
    /// The ticket of its call; `None` in a graph.
    pub call: Option<u64>,
    /// In a graph: index of the captured call's shape in its process.
    pub captured_as: Option<u32>,
    /// In a graph: when that was launched.
    pub launched: i64,
    /// When it began.
    pub start: i64,
    /// When it ended.
    pub stop: i64,
    /// From when on nothing but NCCL ran until it ended; its end, if something else did then.
    pub from: i64,
    /// CUDA's id of its stream.
    pub stream: u32,
}

/// What is gathered from processes.
#[derive(Default)]
pub struct Gatherer {
    lanes: Vec<Lane>,
    yielded: u64,
    without: BTreeMap<&'static str, u64>,
}

fn cause(off: Off) -> Option<&'static str> {
    Some(match off {
        Off::NotAsked | Off::NoDriver => return None,
        Off::NoCupti => "no_cupti",
        Off::ForeignTool => "another_tool",
        Off::Error(_) => "cupti_error",
        Off::NoMemory => "no_memory",
        Off::HostBound(_) => "host_bound",
        Off::SharedGpu => "shared_gpu",
        Off::UnsafeCupti(_) => "unsafe_cupti",
        Off::Unknown(_) => "unknown",
    })
}

impl Gatherer {
    /// Adds a process with the calls that it launched in windows. Returns what the windows show of calls.
    pub fn add(
        &mut self,
        capture: &Capture,
        process: &Process,
        mut calls: WindowCalls,
    ) -> Vec<ShownKernel> {
        let mut shown = Vec::new();
        let windows = &process.windows;
        self.yielded += windows.yielded;
        if let Some(cause) = windows.off.and_then(cause) {
            *self.without.entry(cause).or_default() += 1;
        }
        for launch in &process.graphs.launches {
            calls.take_in(launch.at);
        }
        let active = calls.active.map_or(Nanos::ZERO, intervals::length);
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
                shown.extend(seen.nccl.iter().map(|kernel| ShownKernel {
                    device: on.device,
                    call: kernel.call.map(|(_, ticket)| ticket),
                    captured_as: kernel.captured_as,
                    launched: kernel.launched.unwrap_or(0),
                    start: kernel.start,
                    stop: kernel.end,
                    from: seen.idle_before(kernel.end),
                    stream: kernel.stream,
                }));
                let lane = lanes.entry(on.device);
                let lane = lane.or_insert_with(|| Lane::new(process, on.device, active));
                lane.host_pieces.extend(&host_pieces);
                lane.in_calls = calls.host.share();
                lane.gpu_ran.extend(host::ran(ran, &seen));
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
        shown
    }

    /// Takes in what was gathered from the processes that follow.
    pub fn merge(&mut self, later: Gatherer) {
        self.lanes.extend(later.lanes);
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
                process: lane.process.clone(),
                device: lane.device,
                span: seen.span,
                exposed: exposed.spans().to_vec(),
            }
        };
        windows.map(exposure).collect()
    }

    /// Why there are no windows; nothing if there are some.
    pub(crate) fn why_none(&self) -> Option<NoWindows> {
        let has_some = self.lanes.iter().any(|lane| !lane.windows.is_empty());
        (!has_some).then(|| NoWindows::AtAll(self.without.clone()))
    }

    /// What the windows show; `None` if there are none, and nothing says why.
    pub fn finish(mut self, capture: &Capture) -> Option<Streams> {
        let members: Vec<usize> = capture
            .communicators
            .iter()
            .map(|c| c.nranks.map_or(c.members.len(), |n| n as usize))
            .collect();
        // Without a single window there is nothing to look at.
        if self.lanes.iter().all(|lane| lane.windows.is_empty()) {
            self.lanes.clear();
        }
        // Those without windows come last.
        self.lanes.sort_by_key(|lane| lane.windows.is_empty());
        if self.lanes.is_empty() && self.without.is_empty() && self.yielded == 0 {
            return None;
        }
        let waits = waiting::waits(&self.lanes, &members);
        let windows = self.lanes.iter().flat_map(|lane| &lane.windows);
        let all = alone(windows.map(LaneWindow::kernels));
        let own: Vec<Alone> = self.lanes.iter().map(Lane::alone).collect();
        let ranks = self.lanes.iter().zip(&own).enumerate();
        let ranks = ranks.filter(|(_, (lane, _))| !lane.windows.is_empty());
        let mut ranks: Vec<RankStreams> = ranks
            .map(|(index, (lane, own))| rank_row(index, lane, &waits, own, &all))
            .collect();
        let slowed = beside_waiting::waiting_slows(&self.lanes, &waits, &own, &all);
        for (rank, slowed) in ranks.iter_mut().zip(slowed) {
            rank.waiting_slows = slowed;
        }
        for (rank, busier) in ranks.iter_mut().zip(busier::all(&self.lanes)) {
            rank.busier = busier;
        }
        let mut others: BTreeMap<&'static str, (u64, Nanos)> = BTreeMap::new();
        let windows = self.lanes.iter().flat_map(|lane| &lane.windows);
        for (library, (kernels, time)) in windows.flat_map(|w| &w.seen.others) {
            let sum = others.entry(library).or_default();
            *sum = (sum.0 + kernels, sum.1 + *time);
        }
        let others = others.into_iter();
        let other_communication = others
            .map(|(library, (kernels, time))| OtherCommunication {
                library,
                kernels,
                sum_us: time.us(),
            })
            .collect();
        let kernels = kernel_rows::rows(&self.lanes);
        Some(Streams {
            windows: self
                .lanes
                .iter()
                .map(|lane| lane.windows.len() as u64)
                .sum(),
            yielded: self.yielded,
            without: self.without,
            communication: kernel_rows::communication(&self.lanes),
            other_communication,
            kernels_by_rank: kernel_rows::of_ranks(&self.lanes, &kernels),
            names: kernel_rows::names(&self.lanes),
            kernels,
            common_us: waits.looked_at().us(),
            timed: (self.lanes.len() - ranks.len()) as u64,
            operations: waits.operations,
            replays: replay_rows::rows(&self.lanes),
            bubbles: bubbles::bubbles(&self.lanes, &waits),
            ranks,
        })
    }
}

/// How long the kernels of a GPU take without communication, by what kernels that others have too take on
/// `all` GPUs. `own` is what its kernels take.
fn pace(lane: &Lane, own: &Alone, all: &Alone) -> Option<Share> {
    let of_span = |window: &LaneWindow, (from, to): Span| {
        let (computed, communicates) = window.kernels();
        let inside = |(_, span): &&Computed| (from..to).contains(&span.0);
        let computed: Vec<Computed> = computed.iter().filter(inside).copied().collect();
        let ran = alone(std::iter::once((&computed[..], communicates)));
        let times = ran.iter().filter_map(|(same, (n, time))| {
            let (of_n, of_time) = all.get(same)?;
            let is_shared = own.get(same).is_none_or(|own| own.0 < *of_n);
            // Whole ns, so that the sum is the same in any order: that of kernels is by their names.
            let usual = Nanos::from((*of_time * *n as f64 / *of_n as f64).whole());
            is_shared.then_some((*time, usual))
        });
        let none = (Nanos::ZERO, Nanos::ZERO);
        times.fold(none, |sum, of| (sum.0 + of.0, sum.1 + of.1))
    };
    // A job may have few windows, but each shows several steps.
    let spans = lane.windows.iter().flat_map(|window| {
        let marks = &window.seen.marks;
        let cycles = marks.windows(2).map(|of| (of[0], of[1]));
        let whole = marks.len() < 2;
        let cycles = cycles.chain(whole.then_some(window.seen.span));
        cycles.map(move |span| of_span(window, span))
    });
    let pace = share(spans);
    (pace.share > 0.0).then_some(pace)
}

/// How much faster a rank's host could have been.
fn host_waited(lane: &Lane) -> Option<Share> {
    host::ahead(&lane.host_pieces, &lane.gpu_ran, lane.in_calls)
}

fn rank_row(index: usize, lane: &Lane, waits: &Waits, own: &Alone, others: &Alone) -> RankStreams {
    let part = |pick: &dyn Fn(&Seen) -> Nanos| {
        let windows = lane.windows.iter().map(|w| &w.seen);
        share(windows.map(|seen| (pick(seen), seen.length()))).of_time()
    };
    let exposed = part(&|seen| seen.exposed);
    // Without an operation that all its ranks show, nobody knows who was waited for.
    let exposed_waiting = (waits.operations > 0).then(|| {
        let waited = |at| waits.all.get(&(index, at)).copied().unwrap_or_default();
        share(waits.each(index, waited)).of_time()
    });
    // It is a part of the exposed time, but known in other stretches.
    let exposed_waiting = exposed_waiting.map(|of: Share| of.at_most(exposed.share));
    let seen = lane.seen();
    let windows = lane.windows.iter().map(LaneWindow::kernels);
    let beside = slowed(windows, &[own, others]);
    let beside_share = part(&|seen| seen.beside);
    RankStreams {
        process: lane.process.clone(),
        device: lane.device,
        windows: lane.windows.len() as u64,
        seen_us: seen.us(),
        computing: part(&|seen| seen.computing),
        beside: beside_share,
        exposed,
        copies: part(&|seen| seen.copies),
        idle: part(&Seen::idle),
        idle_causes: lane.idle.causes(seen),
        exposed_waiting,
        host_waited: host_waited(lane),
        waiting_slows: None,
        busier: None,
        pace: pace(lane, own, others),
        interference: beside.ratio().map(|ratio| ratio - 1.0),
        interference_share: beside.ratio().map(|_| beside.lost() * beside_share.share),
    }
}

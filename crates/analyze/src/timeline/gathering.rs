//! Sums over time while processes are read: each GPU has its own bins.
//!
//! Rule: a process's sums do not depend on the processes beside it, so processes are read in parallel.

use super::bins::{Bins, LEAST_SHIFT};
use super::joining::{Grid, Over};
use super::MOST;
use crate::clocks::{ClockLine, Clocks};
use crate::executions::{Execution, Walk};
use crate::matching::is_p2p;
use crate::subject::ProcessId;
use crate::time::{HostTime, Moment};
use std::collections::BTreeMap;
use tables::calls::Extra;
use tables::{Call, Capture, GpuTimes, Process};

/// What is added up for each GPU. Times are ns.
#[derive(Clone, Copy)]
pub(super) enum Sum {
    Calls,
    Collectives,
    Sends,
    Recvs,
    Untimed,
    Bytes,
    Sent,
    Received,
    Nccl,
    Exposed,
    Nic,
}

pub(super) const SUMS: usize = 11;

/// A GPU of a process.
pub(super) struct Lane {
    /// Its process.
    pub(super) process: ProcessId,
    /// The host by which its clock goes.
    pub(super) clock: String,
    pub(super) device: Option<u32>,
    pub(super) bins: Bins<SUMS>,
    /// Of kernels that are on the GPU's own clock: the least that these are ahead of the host's, ns.
    pub(super) ahead: Option<i64>,
    /// The row of the operations table by what is marked.
    pub(super) rows: Vec<u32>,
    /// `nccl_us` of the ranks table, ns; the bins have the part that was timed.
    pub(super) nccl_in_all: Option<u64>,
    pub(super) without_time: u64,
    pub(super) has_steps: bool,
    pub(super) has_gpu_times: bool,
    /// The size of some call is not known.
    pub(super) lacks_bytes: bool,
}

/// What is gathered.
#[derive(Default)]
pub struct Gatherer {
    lanes: Vec<Lane>,
}

/// What the calls of a place are.
#[derive(Clone, Copy)]
struct KindOfCall {
    lane: usize,
    /// [`Sum::Collectives`], sends, receives.
    of: [bool; 3],
    bytes: Option<u64>,
}

/// One process under way.
pub struct ProcessBins {
    lanes: Vec<Lane>,
    kinds: Vec<KindOfCall>,
}

impl ProcessBins {
    /// Prepares for a process; `rows` are those of its places in the operations table.
    pub fn new(capture: &Capture, process: &Process, walk: &Walk, rows: &[u32]) -> ProcessBins {
        let mut devices: BTreeMap<Option<u32>, Bins<SUMS>> = BTreeMap::new();
        for local in &process.communicators {
            let bins = devices.entry(local.device).or_default();
            for at in [local.created_ns, local.ended_ns].into_iter().flatten() {
                bins.see(at, at);
            }
        }
        let device = |uid: u32| process.communicator(uid).and_then(|local| local.device);
        for place in walk.places() {
            devices.entry(device(place.shape.uid)).or_default();
        }
        let numbers: Vec<Option<u32>> = devices.keys().copied().collect();
        let lane = |(device, bins)| Lane {
            process: ProcessId::of(process),
            clock: process.clock_host().to_owned(),

            device,
            bins,
            ahead: None,
            rows: rows.to_vec(),
            nccl_in_all: None,
            without_time: 0,
            has_steps: false,
            has_gpu_times: false,
            lacks_bytes: false,
        };
        let kind = |place: &crate::executions::Place| {
            let function = capture.names.get(place.function).unwrap_or("");
            let of = device(place.shape.uid);
            KindOfCall {
                lane: numbers.iter().position(|d| *d == of).unwrap_or(0),
                of: [
                    !is_p2p(function),
                    matches!(function, "Send" | "SendRecv"),
                    matches!(function, "Recv" | "SendRecv"),
                ],
                bytes: capture.bytes_as(place.shape, place.function),
            }
        };
        ProcessBins {
            kinds: walk.places().iter().map(kind).collect(),
            lanes: devices.into_iter().map(lane).collect(),
        }
    }

    /// Adds an execution; `exposed` is how long a stream stood still for it until its end, ns.
    #[inline]
    pub fn add(&mut self, process: &Process, execution: &Execution, exposed: u64) {
        if execution.captured {
            return;
        }
        let kind = self.kinds[execution.place];
        let lane = &mut self.lanes[kind.lane];
        if let (GpuTimes::Stamps { stop, .. }, true) =
            (execution.kernel, execution.call.gpu_seen_ns != 0)
        {
            let ahead = i128::from(execution.last.gpu_seen_ns) - i128::from(stop.0);
            let ahead = i64::try_from(ahead).unwrap_or(i64::MAX);
            lane.ahead = Some(lane.ahead.map_or(ahead, |least| least.min(ahead)));
        }
        let Some((begin, end)) = place(execution) else {
            lane.without_time += 1;
            return;
        };
        let bins = &mut lane.bins;
        bins.see(begin, end);
        bins.add(Sum::Calls as usize, begin, 1);
        match execution.gpu {
            Ok(_) => lane.has_gpu_times = true,
            Err(_) => bins.add(Sum::Untimed as usize, begin, 1),
        }
        for (is, sum) in kind
            .of
            .iter()
            .zip([Sum::Collectives, Sum::Sends, Sum::Recvs])
        {
            if *is {
                bins.add(sum as usize, begin, 1);
            }
        }
        match kind.bytes {
            Some(0) => {}
            Some(bytes) => bins.spread(Sum::Bytes as usize, begin, end, bytes),
            None => lane.lacks_bytes = true,
        }
        if exposed > 0 {
            let from = end.saturating_sub_unsigned(exposed);
            bins.spread(Sum::Exposed as usize, from, end, exposed);
        }
        if let Some(network) = execution.network {
            lane.has_steps = true;
            let from = end.saturating_sub_unsigned(network.longest);
            bins.spread(Sum::Nic as usize, from, end, network.longest);
        }
        if !process.extras.is_empty() {
            for extra in extras(process, execution.call) {
                bins.spread(Sum::Sent as usize, begin, end, extra.bytes_sent);
                bins.spread(Sum::Received as usize, begin, end, extra.bytes_received);
            }
        }
        bins.mark(execution.place, begin, end);
    }

    /// Counts calls without rows.
    pub fn add_counted(&mut self, place: usize, calls: u64) {
        let lane = &mut self.lanes[self.kinds[place].lane];
        lane.without_time = lane.without_time.saturating_add(calls);
    }

    /// Adds the time in NCCL of the GPU `device`: intervals that don't meet, and what they stand for in all,
    /// ns; `None` if no call has a length.
    pub fn add_nccl(
        &mut self,
        device: Option<u32>,
        in_all: Option<u64>,
        intervals: impl FnOnce(&mut dyn FnMut(u64, u64)),
    ) {
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.device == device) else {
            return;
        };
        intervals(&mut |begin, end| {
            let length = end - begin;
            let begin = lane.on_host(begin);
            let end = begin.saturating_add_unsigned(length);
            lane.bins.spread(Sum::Nccl as usize, begin, end, length);
        });
        lane.nccl_in_all = in_all;
    }
}

impl Lane {
    /// A kernel's time on the host's clock. A call that is on the GPU's own clock is moved by the least delay
    /// with which the host saw an end. It then lies within what is seen of the process.
    pub(super) fn on_host(&self, ns: u64) -> i64 {
        let ns = i64::try_from(ns).unwrap_or(i64::MAX);
        let Some((from, to)) = self.bins.range() else {
            return ns;
        };
        match self.ahead {
            Some(ahead) if !(from..=to).contains(&ns) => ns.saturating_add(ahead).clamp(from, to),
            _ => ns,
        }
    }
}

/// When it was, on the host's clock.
fn place(execution: &Execution) -> Option<(i64, i64)> {
    let seen = || {
        let end = Some(execution.last.gpu_seen_ns).filter(|ns| *ns != 0)?;
        Some((end.saturating_sub_unsigned(execution.kernel.length()?), end))
    };
    let at = || {
        let call = execution.call;
        let times = [
            call.api_ns,
            call.launch_start_ns,
            call.enqueue_ns,
            call.gpu_seen_ns,
        ];
        let at = times.into_iter().find(|ns| *ns != 0)?;
        Some((at, at))
    };
    let found = execution
        .kernel
        .on_host()
        .or_else(seen)
        .or(execution.api)
        .or_else(at)?;
    Some((found.0, found.1.max(found.0)))
}

/// What the calls of an execution had on the network.
fn extras<'a>(process: &'a Process, call: &'a Call) -> impl Iterator<Item = &'a Extra> {
    let composite = (call.composite as usize).checked_sub(1);
    let pieces: &[u32] = composite.map_or(&[], |index| &process.composites[index].calls);
    let alone = composite.is_none().then_some(call);
    let calls = pieces.iter().map(|index| &process.calls[*index as usize]);
    calls.chain(alone).filter_map(|call| {
        let extra = process.extras.get((call.extra as usize).checked_sub(1)?);
        extra.filter(|extra| extra.ops_started != 0)
    })
}

impl Gatherer {
    /// Takes in a process.
    pub fn add(&mut self, plan: ProcessBins) {
        self.lanes.extend(plan.lanes);
    }

    /// Takes in what was gathered from later processes; `rows` says which of our rows each of their rows is.
    pub fn merge(&mut self, later: Gatherer, rows: &[u32]) {
        self.lanes.extend(later.lanes.into_iter().map(|mut lane| {
            for row in &mut lane.rows {
                *row = rows[*row as usize];
            }
            lane
        }));
    }

    /// Prepares the buckets, on the clock of the first host; `None` without a single time.
    pub(crate) fn over(self, clocks: Option<&Clocks>) -> Option<Over> {
        let lanes = self.lanes.iter();
        let lines = lanes.map(|lane| ClockLine::of(&lane.clock, clocks));
        let lines: Vec<ClockLine> = lines.collect();
        let moved = |(lane, line): (&Lane, &ClockLine)| {
            let (from, to) = lane.bins.range()?;
            let on = |at| line.on_reference(HostTime(at));
            Some((on(from), on(to)))
        };
        let ranges = self.lanes.iter().zip(&lines).filter_map(moved);
        let (Moment(from), Moment(to)) = ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        let mut shift = LEAST_SHIFT;
        while (to >> shift).abs_diff(from >> shift) >= MOST as u64 {
            shift += 1;
        }
        let n = ((to >> shift).abs_diff(from >> shift) + 1) as usize;
        Some(Over {
            grid: Grid {
                begin: Moment(from >> shift << shift),
                shift,
                n,
            },
            lines,
            lanes: self.lanes,
            waiting: None,
            durations: None,
        })
    }
}

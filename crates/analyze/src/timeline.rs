//! The run over time: what happened in each of some 200 buckets, over all ranks.
//!
//! A [`Gatherer`] takes one process at a time: a [`ProcessBins`] adds the process's calls to the bins of
//! their GPUs. [`Gatherer::finish`] puts all bins on the clock of the first host, and joins them to buckets
//! of one width. The width in ns is a power of two.
//!
//! Calls are counted at their begin. Bytes and times are split over the buckets in which the call's kernel
//! ran, by their share of time. If the kernel's time on the host's clock is not known, the call lies where
//! the host saw its kernel end, and without a kernel, at its API call. A GPU that is on another host's clock
//! is moved by whole bins, to a quarter of a bucket.
//!
//! Time in NCCL that was estimated because calls were not timed lies in the buckets with such calls.
//!
//! Rule: the sum of a curve over all buckets is the sum in the report's tables. What has no time is in no
//! bucket, and [`Timeline::without_time`] counts it.

use crate::arrivals::over_time::{Gpu, OverTime};
use crate::arrivals::Arrivals;
use crate::clocks::{Clocks, Line};
use crate::deaths::Death;
use crate::executions::{Execution, Walk};
use crate::matching::is_p2p;
use crate::nodes::curves::Curves;
use crate::operations::Operation;
use crate::steps::Steps;
use crate::stream_waits::StreamWaits;
use crate::streams::Exposure;
use bins::{split, Bins, LEAST_SHIFT};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use tables::calls::Extra;
use tables::{Call, Capture, Process};

mod bins;

/// Buckets at most: fewer than half as many are in no run that is longer than a millisecond.
pub const MOST: usize = 256;

/// Which buckets have something: one bit each, the first bucket's the lowest.
pub type Buckets = [u64; MOST / 64];

/// The run over time.
#[derive(Clone, Debug, Serialize)]
pub struct Timeline {
    /// Begin of the first bucket, ns since 1970, on the clock of the first host.
    pub begin_ns: i64,
    /// Width of a bucket.
    pub bucket_us: f64,
    /// Buckets.
    pub buckets: u64,
    /// GPUs that rates and shares are over.
    pub ranks: u64,
    /// Calls of which no time is known: in no bucket.
    pub without_time: u64,
    /// Calls per second, counted at their begin.
    pub calls: Curve,
    /// Of these: collectives.
    pub collectives: Curve,
    /// Of these: sends. A SendRecv is one, and a receive too.
    pub sends: Curve,
    /// Of these: receives.
    pub recvs: Curve,
    /// Of all calls: those without a GPU time, which are in no time below. Null where no call has one.
    pub untimed: Option<Curve>,
    /// Bytes of calls per second.
    pub bytes: Curve,
    /// Bytes per second that the network accepted; null where no steps were recorded.
    pub bytes_sent: Option<Curve>,
    /// Bytes per second that came over the network.
    pub bytes_received: Option<Curve>,
    /// Share of the time in NCCL: kernels, or API calls where no call has a GPU time.
    pub nccl: Curve,
    /// Share of the time that operations with a GPU time on every rank waited for their last one; null
    /// without any.
    pub waiting: Option<Curve>,
    /// Share of the time in these operations after the last rank's arrival.
    pub transfer: Option<Curve>,
    /// Share of the time that streams stood still for calls; null where none was seen to wait.
    pub exposed: Option<Curve>,
    /// The same from kernel windows, if there are some, for the time that these show.
    pub exposed_in_windows: InWindows,
    /// Share of the time that a call's data was in the network's hands: of each call, its longest network
    /// operation. Null where that was not recorded.
    pub nic: Option<Curve>,
    /// What the node sampler saw: power, clocks, CPU time and the like.
    pub sampled: Curves,
    /// How long calls that began in a bucket took on the GPU; null without GPU times.
    pub durations_us: Option<Band>,
    /// Ranks that are late more than chance gives, and how long operations waited for them alone.
    pub late: Vec<LateRank>,
    /// When steps began.
    pub steps: Option<StepMarks>,
    /// When ranks died.
    pub marks: Vec<Mark>,
    /// What each row of the report's tables was active in; for pages that filter by time.
    #[serde(skip)]
    pub active: Active,
}

/// A figure over time, a value for each bucket.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Curve {
    /// Over all ranks: a number, bytes, or µs.
    pub sum: Vec<f64>,
    /// Of the rank with least: per second, or share of the time; four digits.
    pub min: Vec<f64>,
    /// Mean over ranks.
    pub mean: Vec<f64>,
    /// Of the rank with most.
    pub max: Vec<f64>,
}

/// How something is spread, a value for each bucket.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Band {
    /// How many.
    pub n: Vec<u64>,
    /// A tenth is below it; null where there is none.
    pub p10: Vec<Option<f64>>,
    /// Median.
    pub p50: Vec<Option<f64>>,
    /// A tenth is above it.
    pub p90: Vec<Option<f64>>,
}

/// Exposed communication by kernel windows, which show a part of the time only.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct InWindows {
    /// How long windows show each bucket, summed over GPUs, µs.
    pub seen_us: Vec<f64>,
    /// For how long of that kernels communicated and nothing computed, µs; null if no window shows the
    /// bucket.
    pub exposed_us: Vec<Option<f64>>,
    /// The one by the other.
    pub share: Vec<Option<f64>>,
    /// Why buckets are null; null if none is.
    pub why_null: Option<String>,
}

/// A rank that is late more than chance gives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LateRank {
    /// The launcher's rank.
    pub rank: Option<u32>,
    /// Host.
    pub host: String,
    /// Process.
    pub pid: u32,
    /// CUDA device ordinal.
    pub device: Option<u32>,
    /// How long operations waited for this rank alone, when all others had arrived.
    pub held_up_us: Vec<f64>,
}

/// When steps began.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepMarks {
    /// The rank.
    pub rank: Option<u32>,
    /// Every such step is here: 1 is all of them.
    pub every: u64,
    /// After the begin of the timeline.
    pub begins_us: Vec<f64>,
}

/// Something that happened at a moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// `dead_rank`.
    pub kind: &'static str,
    /// After the begin of the timeline.
    pub at_us: f64,
    /// What it was, in a sentence.
    pub text: String,
}

/// In which buckets rows of tables have calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Active {
    /// By row of the operations table.
    pub operations: Vec<Buckets>,
    /// By row of the ranks table.
    pub ranks: Vec<Buckets>,
}

/// Begins of so many steps are shown at most.
const MOST_STEP_MARKS: usize = 400;

/// What is added up for each GPU. Times are ns.
#[derive(Clone, Copy)]
enum Sum {
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

const SUMS: usize = 11;

/// A GPU of a process.
struct Lane {
    rank: Option<u32>,
    host: String,
    /// The host by which its clock goes.
    clock: String,
    pid: u32,
    device: Option<u32>,
    bins: Bins<SUMS>,
    /// Of kernels that are on the GPU's own clock: the least that these are ahead of the host's, ns.
    ahead: Option<i64>,
    /// The row of the operations table by what is marked.
    rows: Vec<u32>,
    /// `nccl_us` of the ranks table, ns; the bins have the part that was timed.
    nccl_in_all: Option<u64>,
    without_time: u64,
    has_steps: bool,
    has_gpu_times: bool,
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
            rank: process.rank,
            host: process.host.clone(),
            clock: process.clock_host().to_owned(),
            pid: process.pid,
            device,
            bins,
            ahead: None,
            rows: rows.to_vec(),
            nccl_in_all: None,
            without_time: 0,
            has_steps: false,
            has_gpu_times: false,
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
        if let (Some((_, stop)), None, true) = (
            execution.kernel,
            execution.error,
            execution.call.gpu_seen_ns != 0,
        ) {
            let ahead = i128::from(execution.last.gpu_seen_ns) - i128::from(stop);
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
        if let Some(bytes) = kind.bytes.filter(|bytes| *bytes > 0) {
            bins.spread(Sum::Bytes as usize, begin, end, bytes);
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
    /// ns.
    pub fn add_nccl(
        &mut self,
        device: Option<u32>,
        in_all: u64,
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
        lane.nccl_in_all = Some(in_all);
    }
}

impl Lane {
    /// A kernel's time on the host's clock. A call that is on the GPU's own clock is moved by the least delay
    /// with which the host saw an end. It then lies within what is seen of the process.
    fn on_host(&self, ns: u64) -> i64 {
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
    let kernel = execution.kernel.filter(|_| execution.error.is_some());
    let kernel = kernel.and_then(|(a, b)| Some((a.try_into().ok()?, b.try_into().ok()?)));
    let seen = || {
        let end = Some(execution.last.gpu_seen_ns).filter(|ns| *ns != 0)?;
        let (begin, stop) = execution.kernel?;
        Some((end.saturating_sub_unsigned(stop.saturating_sub(begin)), end))
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
    let found = kernel.or_else(seen).or(execution.api).or_else(at)?;
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
        let lines: Vec<Option<Line>> = self
            .lanes
            .iter()
            .map(|lane| {
                clocks
                    .and_then(|clocks| clocks.lines.get(&lane.clock))
                    .cloned()
            })
            .collect();
        let moved = |(lane, line): (&Lane, &Option<Line>)| {
            let (from, to) = lane.bins.range()?;
            Some(match line {
                Some(line) => (line.on_reference(from), line.on_reference(to)),
                None => (from, to),
            })
        };
        let ranges = self.lanes.iter().zip(&lines).filter_map(moved);
        let (from, to) = ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        let mut shift = LEAST_SHIFT;
        while (to >> shift).abs_diff(from >> shift) >= MOST as u64 {
            shift += 1;
        }
        let n = ((to >> shift).abs_diff(from >> shift) + 1) as usize;
        Some(Over {
            grid: Grid {
                begin: from >> shift << shift,
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

/// Where buckets lie.
#[derive(Clone, Copy)]
struct Grid {
    begin: i64,
    shift: u32,
    n: usize,
}

impl Grid {
    fn bucket(&self, at: i64) -> usize {
        let last = self.n - 1;
        let bucket = at.saturating_sub(self.begin) >> self.shift;
        usize::try_from(bucket.max(0)).map_or(last, |bucket| bucket.min(last))
    }

    /// Adds an amount that is spread over a time.
    fn spread(&self, into: &mut [u64], begin: i64, end: i64, amount: u64) {
        let from = begin.saturating_sub(self.begin);
        let to = end.saturating_sub(self.begin);
        let last = self.n as i64 - 1;
        split(from, to, self.shift, amount, |bucket, part| {
            let sum = &mut into[bucket.clamp(0, last) as usize];
            *sum = sum.saturating_add(part);
        });
    }

    fn us(&self, at: i64) -> f64 {
        at.saturating_sub(self.begin) as f64 / 1e3
    }
}

/// What operations say, by lane and bucket, ns.
struct Waiting {
    wait: Vec<Vec<u64>>,
    transfer: Vec<Vec<u64>>,
    /// When all others had arrived, until this one did.
    held_up: Vec<Vec<u64>>,
}

/// The buckets of a run, while they are filled.
pub(crate) struct Over {
    grid: Grid,
    lanes: Vec<Lane>,
    lines: Vec<Option<Line>>,
    waiting: Option<Waiting>,
    /// By bucket, ns.
    durations: Option<Vec<Vec<u32>>>,
}

impl Over {
    /// Takes in kernels and operations.
    pub(crate) fn look(&mut self, of: &OverTime) {
        let mut known: HashMap<Gpu, usize> = HashMap::new();
        for (index, lane) in self.lanes.iter().enumerate() {
            known.entry(gpu(lane)).or_insert(index);
        }
        let lanes: Option<Vec<usize>> = of.gpus().map(|gpu| known.get(&gpu).copied()).collect();
        let Some(lanes) = lanes else {
            return;
        };
        let on_one_clock = |lane: usize, ns: u64| {
            let at = self.lanes[lane].on_host(ns);
            self.lines[lane]
                .as_ref()
                .map_or(at, |line| line.on_reference(at))
        };
        let mut durations = vec![Vec::new(); self.grid.n];
        of.timed(|part| {
            let at = on_one_clock(lanes[part.gpu], part.start);
            durations[self.grid.bucket(at)].push(part.ns as u32);
        });
        if durations.iter().any(|of| !of.is_empty()) {
            self.durations = Some(durations);
        }
        if of.is_empty() {
            return;
        }
        let empty = || vec![vec![0u64; self.grid.n]; self.lanes.len()];
        let mut waiting = Waiting {
            wait: empty(),
            transfer: empty(),
            held_up: empty(),
        };
        of.operations(|parts| {
            let [.., before, last] = parts else {
                return;
            };
            for part in parts {
                let lane = lanes[part.gpu];
                let begin = on_one_clock(lane, part.start);
                let waited = part.ns - last.ns;
                let arrived = begin.saturating_add_unsigned(waited);
                let end = arrived.saturating_add_unsigned(last.ns);
                self.grid
                    .spread(&mut waiting.wait[lane], begin, arrived, waited);
                self.grid
                    .spread(&mut waiting.transfer[lane], arrived, end, last.ns);
            }
            let lane = lanes[last.gpu];
            let (arrived, alone) = (on_one_clock(lane, last.start), before.ns - last.ns);
            let from = arrived.saturating_sub_unsigned(alone);
            self.grid
                .spread(&mut waiting.held_up[lane], from, arrived, alone);
        });
        self.waiting = Some(waiting);
    }

    /// The timeline; `operations`, `steps` and the others are those of the report.
    pub(crate) fn finish(
        self,
        operations: &[Operation],
        arrivals: Option<&Arrivals>,
        waits: Option<&StreamWaits>,
        steps: Option<&Steps>,
    ) -> Timeline {
        let curve = |of: Sum, unit: Unit| {
            let mut curve = Under::new(self.grid, unit);
            for lane in 0..self.lanes.len() {
                let by_bucket = self.by_bucket(lane, |bins, each| bins.each(of as usize, each));
                if let (Sum::Nccl, Some(in_all)) = (of, self.lanes[lane].nccl_in_all) {
                    let untimed =
                        self.by_bucket(lane, |bins, each| bins.each(Sum::Untimed as usize, each));
                    let width = (1u64 << self.grid.shift) as f64;
                    let nccl = with_untimed(&by_bucket, in_all as f64, &untimed, width);
                    curve.add(nccl.into_iter());
                    continue;
                }
                let more = match of {
                    Sum::Exposed => exposed_more(&self.lanes[lane], &by_bucket, waits),
                    _ => 1.0,
                };
                curve.add(by_bucket.iter().map(|sum| *sum as f64 * more));
            }
            curve.finish(self.lanes.len())
        };
        let of_waiting = |of: fn(&Waiting) -> &Vec<Vec<u64>>| {
            self.waiting.as_ref().map(|waiting| {
                let mut curve = Under::new(self.grid, Unit::Ns);
                for by_bucket in of(waiting) {
                    curve.add(by_bucket.iter().map(|ns| *ns as f64));
                }
                curve.finish(self.lanes.len())
            })
        };
        let gpu_times = self.lanes.iter().any(|lane| lane.has_gpu_times);
        let network = self.lanes.iter().any(|lane| lane.has_steps);
        let network = |of, unit| network.then(|| curve(of, unit));
        Timeline {
            begin_ns: self.grid.begin,
            bucket_us: (1u64 << self.grid.shift) as f64 / 1e3,
            buckets: self.grid.n as u64,
            ranks: self.lanes.len() as u64,
            without_time: self.lanes.iter().map(|lane| lane.without_time).sum(),
            calls: curve(Sum::Calls, Unit::Number),
            collectives: curve(Sum::Collectives, Unit::Number),
            sends: curve(Sum::Sends, Unit::Number),
            recvs: curve(Sum::Recvs, Unit::Number),
            untimed: gpu_times.then(|| curve(Sum::Untimed, Unit::Number)),
            bytes: curve(Sum::Bytes, Unit::Number),
            bytes_sent: network(Sum::Sent, Unit::Number),
            bytes_received: network(Sum::Received, Unit::Number),
            nccl: curve(Sum::Nccl, Unit::Ns),
            waiting: of_waiting(|waiting| &waiting.wait),
            transfer: of_waiting(|waiting| &waiting.transfer),
            exposed_in_windows: InWindows::default(),
            exposed: waits.map(|_| curve(Sum::Exposed, Unit::Ns)),
            sampled: Curves::default(),
            nic: network(Sum::Nic, Unit::Ns).filter(|nic| nic.sum.iter().any(|us| *us > 0.0)),
            durations_us: self.durations.as_ref().map(|of| band(of)),
            late: self.late(arrivals),
            steps: steps.and_then(|steps| self.steps(steps)),
            marks: Vec::new(),
            active: self.active(operations),
        }
    }

    /// What kernel windows show of exposed communication, by bucket; `why_none` says why there are none.
    pub(crate) fn in_windows(&self, windows: &[Exposure], why_none: Option<String>) -> InWindows {
        let empty = || vec![0u64; self.grid.n];
        let (mut seen, mut exposed) = (empty(), empty());
        for window in windows {
            let of = Gpu {
                rank: window.rank,
                host: &window.host,
                pid: window.pid,
                device: Some(window.device),
            };
            let Some(lane) = self.lanes.iter().position(|lane| gpu(lane) == of) else {
                continue;
            };
            let spread = |into: &mut [u64], (from, to): (i64, i64)| {
                let line = self.lines[lane].as_ref();
                let begin = line.map_or(from, |line| line.on_reference(from));
                let length = u64::try_from(to - from).unwrap_or(0);
                let end = begin.saturating_add_unsigned(length);
                self.grid.spread(into, begin, end, length);
            };
            spread(&mut seen, window.span);
            for span in &window.exposed {
                spread(&mut exposed, *span);
            }
        }
        let us = |ns: u64| ns as f64 / 1e3;
        let known = || {
            seen.iter()
                .zip(&exposed)
                .map(|(seen, of)| (*seen > 0).then_some((*seen, *of)))
        };
        let why_null = why_none.or_else(|| {
            let is_dark = seen.contains(&0);
            is_dark.then(|| "no kernel window shows these buckets".to_owned())
        });
        InWindows {
            seen_us: seen.iter().map(|ns| us(*ns)).collect(),
            exposed_us: known()
                .map(|of| of.map(|(_, exposed)| us(exposed)))
                .collect(),
            share: known()
                .map(|of| of.map(|(seen, exposed)| rounded(exposed as f64 / seen as f64)))
                .collect(),
            why_null,
        }
    }

    /// What the bins of a lane have, by bucket.
    fn by_bucket(
        &self,
        lane: usize,
        bins: impl FnOnce(&Bins<SUMS>, &mut dyn FnMut(i64, u64)),
    ) -> Vec<u64> {
        let mut by_bucket = vec![0u64; self.grid.n];
        let line = self.lines[lane].as_ref();
        bins(&self.lanes[lane].bins, &mut |at, sum| {
            let at = line.map_or(at, |line| line.on_reference(at));
            let into = &mut by_bucket[self.grid.bucket(at)];
            *into = into.saturating_add(sum);
        });
        by_bucket
    }

    fn late(&self, arrivals: Option<&Arrivals>) -> Vec<LateRank> {
        let Some((waiting, arrivals)) = self.waiting.as_ref().zip(arrivals) else {
            return Vec::new();
        };
        let late = arrivals
            .ranks
            .iter()
            .filter(|rank| rank.loss_wall_us.is_some());
        late.filter_map(|rank| {
            let of = Gpu {
                rank: rank.rank,
                host: &rank.host,
                pid: rank.pid,
                device: rank.device,
            };
            let lane = self.lanes.iter().position(|lane| gpu(lane) == of)?;
            let held_up = &waiting.held_up[lane];
            Some(LateRank {
                rank: rank.rank,
                host: rank.host.clone(),
                pid: rank.pid,
                device: rank.device,
                held_up_us: held_up.iter().map(|ns| *ns as f64 / 1e3).collect(),
            })
        })
        .collect()
    }

    fn steps(&self, steps: &Steps) -> Option<StepMarks> {
        let row = steps.reference()?;
        let of = |lane: &Lane| (lane.rank, lane.pid, &lane.host) == (row.rank, row.pid, &row.host);
        let lane = self.lanes.iter().position(of)?;
        let line = self.lines[lane].as_ref();
        let at = |at: &i64| line.map_or(*at, |line| line.on_reference(*at));
        let every = row.each.len().div_ceil(MOST_STEP_MARKS).max(1);
        let begins = row.each.iter().step_by(every);
        let begins = begins.filter_map(|step| step.start_ns);
        Some(StepMarks {
            rank: row.rank,
            every: every as u64,
            begins_us: begins.map(|ns| self.grid.us(at(&ns))).collect(),
        })
    }

    fn active(&self, operations: &[Operation]) -> Active {
        let rows: HashMap<u32, usize> = operations
            .iter()
            .enumerate()
            .map(|(index, operation)| (operation.gathered_as, index))
            .collect();
        let mut active = Active {
            operations: vec![Buckets::default(); operations.len()],
            ranks: vec![Buckets::default(); self.lanes.len()],
        };
        for (index, lane) in self.lanes.iter().enumerate() {
            let line = self.lines[index].as_ref();
            for place in 0..lane.bins.marked() {
                let row = lane.rows.get(place).and_then(|row| rows.get(row));
                lane.bins.each_marked(place, |at| {
                    let at = line.map_or(at, |line| line.on_reference(at));
                    let bucket = self.grid.bucket(at);
                    let bit = 1u64 << (bucket % 64);
                    active.ranks[index][bucket / 64] |= bit;
                    if let Some(row) = row {
                        active.operations[*row][bucket / 64] |= bit;
                    }
                });
            }
        }
        active
    }
}

impl Timeline {
    /// Marks when ranks died.
    pub(crate) fn mark_deaths(&mut self, deaths: &[Death], clocks: Option<&Clocks>) {
        self.marks.extend(deaths.iter().map(|death| {
            let line = clocks.and_then(|clocks| clocks.lines.get(&death.host));
            let at = line.map_or(death.seen_ns, |line| line.on_reference(death.seen_ns));
            Mark {
                kind: "dead_rank",
                at_us: at.saturating_sub(self.begin_ns) as f64 / 1e3,
                text: death.sentence(),
            }
        }));
    }
}

fn gpu(lane: &Lane) -> Gpu<'_> {
    Gpu {
        rank: lane.rank,
        host: &lane.host,
        pid: lane.pid,
        device: lane.device,
    }
}

/// The time in NCCL by bucket: in each what was timed there, and the rest of `in_all` by how many calls had
/// no time. A bucket is filled up to `width` before what is left goes to others, as long as there is room.
///
/// Buckets in which every call was timed keep their own time. They do not if no bucket has an untimed call,
/// or the estimate `in_all` is less than what was timed: then all buckets change by one factor.
fn with_untimed(own: &[u64], in_all: f64, untimed: &[u64], width: f64) -> Vec<f64> {
    let mut all: Vec<f64> = own.iter().map(|ns| *ns as f64).collect();
    let timed: f64 = all.iter().sum();
    let mut rest = in_all - timed;
    let calls = |of: &dyn Fn(usize) -> bool| -> f64 {
        let of = (0..untimed.len()).filter(|bucket| of(*bucket));
        of.map(|bucket| untimed[bucket] as f64).sum()
    };
    if rest < 0.0 || calls(&|_| true) == 0.0 {
        let factor = in_all / timed.max(1.0);
        return all.iter().map(|ns| ns * factor).collect();
    }
    // Each turn fills a bucket, or shares out all that is left.
    for _ in 0..=all.len() {
        let room: Vec<f64> = all.iter().map(|ns| (width - ns).max(0.0)).collect();
        let open = calls(&|bucket| room[bucket] > 0.0);
        if rest <= 0.0 || open == 0.0 {
            break;
        }
        let each = rest / open;
        for bucket in (0..all.len()).filter(|bucket| room[*bucket] > 0.0) {
            let part = (each * untimed[bucket] as f64).min(room[bucket]);
            all[bucket] += part;
            rest -= part;
        }
    }
    // More than the buckets hold: the sum is kept.
    if rest > 0.0 {
        let each = rest / calls(&|_| true);
        for (ns, untimed) in all.iter_mut().zip(untimed) {
            *ns += each * *untimed as f64;
        }
    }
    all
}

/// What all calls of a GPU were exposed, by what those were of which that is known.
fn exposed_more(lane: &Lane, known: &[u64], waits: Option<&StreamWaits>) -> f64 {
    let known: f64 = known.iter().map(|ns| *ns as f64).sum();
    let ranks = waits.into_iter().flat_map(|waits| &waits.ranks);
    let of = ranks.map(|rank| {
        let of = Gpu {
            rank: rank.rank,
            host: &rank.host,
            pid: rank.pid,
            device: rank.device,
        };
        (of, rank.exposed.sum_us)
    });
    let sum = of.into_iter().find(|(of, _)| *of == gpu(lane));
    sum.filter(|_| known > 0.0)
        .map_or(1.0, |(_, us)| us * 1e3 / known)
}

/// What sums are of.
#[derive(Clone, Copy)]
enum Unit {
    Number,
    Ns,
}

/// A curve under construction.
struct Under {
    grid: Grid,
    unit: Unit,
    sum: Vec<f64>,
    min: Vec<f64>,
    max: Vec<f64>,
}

impl Under {
    fn new(grid: Grid, unit: Unit) -> Under {
        Under {
            grid,
            unit,
            sum: vec![0.0; grid.n],
            min: vec![f64::INFINITY; grid.n],
            max: vec![0.0; grid.n],
        }
    }

    /// Adds a rank's.
    fn add(&mut self, by_bucket: impl Iterator<Item = f64>) {
        for (bucket, sum) in by_bucket.enumerate() {
            self.sum[bucket] += sum;
            self.min[bucket] = self.min[bucket].min(sum);
            self.max[bucket] = self.max[bucket].max(sum);
        }
    }

    fn finish(self, ranks: usize) -> Curve {
        let width = (1u64 << self.grid.shift) as f64;
        let (unit, per) = match self.unit {
            Unit::Number => (1.0, width / 1e9),
            Unit::Ns => (1e3, width),
        };
        let rate = |of: &[f64]| of.iter().map(|sum| rounded(sum / per)).collect();
        let mean: Vec<f64> = self.sum.iter().map(|sum| sum / ranks as f64).collect();
        Curve {
            min: rate(&self.min),
            mean: rate(&mean),
            max: rate(&self.max),
            // To a thousandth: ns of µs.
            sum: self
                .sum
                .iter()
                .map(|sum| (sum * 1e3 / unit).round() / 1e3)
                .collect(),
        }
    }
}

/// To four digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

fn band(of: &[Vec<u32>]) -> Band {
    let mut band = Band::default();
    for durations in of {
        let mut durations = durations.clone();
        durations.sort_unstable();
        // The nearest rank.
        let at = |tenths: usize| {
            let index = (durations.len() * tenths).div_ceil(10).checked_sub(1)?;
            Some(f64::from(durations[index]) / 1e3)
        };
        band.n.push(durations.len() as u64);
        band.p10.push(at(1));
        band.p50.push(at(5));
        band.p90.push(at(9));
    }
    band
}

/// A timeline without buckets.
#[cfg(test)]
pub(crate) fn empty() -> Timeline {
    Timeline {
        begin_ns: 0,
        bucket_us: 0.0,
        buckets: 0,
        ranks: 0,
        without_time: 0,
        calls: Curve::default(),
        collectives: Curve::default(),
        sends: Curve::default(),
        recvs: Curve::default(),
        untimed: None,
        bytes: Curve::default(),
        bytes_sent: None,
        bytes_received: None,
        nccl: Curve::default(),
        waiting: None,
        transfer: None,
        exposed: None,
        exposed_in_windows: InWindows::default(),
        nic: None,
        sampled: Curves::default(),
        durations_us: None,
        late: Vec::new(),
        steps: None,
        marks: Vec::new(),
        active: Active::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::with_untimed;

    #[test]
    fn timed_buckets_keep_their_time_and_the_rest_goes_to_untimed_calls() {
        // Of 100 ns in all, 40 were timed. 60 belong to six calls in two buckets.
        let found = with_untimed(&[30, 0, 10, 0], 100.0, &[0, 2, 4, 0], 1000.0);
        assert_eq!(found, [30.0, 20.0, 50.0, 0.0]);
    }

    #[test]
    fn a_bucket_holds_no_more_than_its_width_while_others_have_room() {
        let found = with_untimed(&[30, 0, 10, 0], 120.0, &[0, 1, 7, 0], 50.0);
        assert_eq!(found, [30.0, 40.0, 50.0, 0.0]);
        // If there is no room, the sum is kept.
        let found = with_untimed(&[50, 0], 200.0, &[0, 3], 50.0);
        assert_eq!(found, [50.0, 150.0]);
    }

    #[test]
    fn without_untimed_calls_all_buckets_change_by_one_factor() {
        assert_eq!(with_untimed(&[30, 10], 80.0, &[0, 0], 100.0), [60.0, 20.0]);
        assert_eq!(with_untimed(&[30, 10], 20.0, &[0, 5], 100.0), [15.0, 5.0]);
        assert_eq!(with_untimed(&[0, 0], 0.0, &[0, 0], 100.0), [0.0, 0.0]);
    }
}

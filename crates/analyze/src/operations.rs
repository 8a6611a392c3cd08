//! What was done: the totals table.
//!
//! A [`Gatherer`] counts every execution in one row, by communicator, function, datatype, bytes, algorithm
//! and protocol. An AlltoAll, Gather, Scatter or SendRecv that NCCL announced in pieces is one call per rank
//! here. Calls captured into a CUDA graph are templates, counted as `captured`; their replays are calls, each
//! launch of the graph one of each.
//!
//! Two times are kept apart. `time_us` is GPU time: from NCCL's stamps or from CUDA events, and only of calls
//! that have a time worth believing. A call of a fused batch has none, because the stamps are the batch's.
//! The exception is a batch that is one operation. `host_us` is the time the program spent in the call, from
//! API entry to return. The first call of each rank on a communicator, its warm-up, is counted in both and is
//! in neither's statistics.
//!
//! Two bandwidths are kept apart, too. `algbw_gb_per_s` and `busbw_gb_per_s` are of the operation: its size
//! by the time of its shortest rank, which waited least; the row gives that of the median operation.
//! `call_busbw_gb_per_s` is what the program saw. It divides the size by the mean time over the ranks of an
//! operation, waiting for other ranks included. This is again of the median operation. The median call would
//! say nothing of two ranks: one of them never waits.
//!
//! Rule: `calls` = `timed` + all of `untimed`, and `time_us.n` = `timed` without the warm-ups.

use crate::bandwidth::Bandwidth;
use crate::executions::{ByCause, Execution, Walk, CAUSES};
use crate::matching::{is_p2p, Matcher};
use crate::sampled::{Sampled, Stretches};
use crate::statistics::{Histogram, Sample, Statistics, Summed};
use capture::live::flag;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use tables::process::HistogramOf;
use tables::{Capture, Name, Process, Shape, Untimed};

/// A row of the totals table.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Operation {
    /// Communicator id; null when its definition is lost.
    pub communicator: Option<String>,
    /// Its ranks.
    pub nranks: Option<u32>,
    /// Function, as NCCL names it.
    pub function: Option<String>,
    /// Datatype, as NCCL names it.
    pub datatype: Option<String>,
    /// Bytes by the convention of nccl-tests.
    pub bytes: Option<u64>,
    /// Algorithm; null where NCCL does not say.
    pub algorithm: Option<String>,
    /// Protocol; null where NCCL does not say.
    pub protocol: Option<String>,
    /// Executions, one rank's part each, warm-ups included.
    pub calls: u64,
    /// Calls with a GPU time that can be believed.
    pub timed: u64,
    /// Those of them that were the first on their communicator: not in the statistics. Null if it is not
    /// known which were: a file of another tool may begin in the middle of a run.
    pub warmup: Option<u64>,
    /// GPU time; null if no call but warm-ups has one that can be believed.
    pub time_us: Option<Statistics>,
    /// Where `time_us` comes from: `stamps` or `events`; the two are never in one row.
    #[schemars(extend("enum" = ["stamps", "events", "windows", null]))]
    pub time_source: Option<&'static str>,
    /// What the calls that were timed say of all of them, where some were left out of the sample; null
    /// without, and where too few were timed. The extremes of `time_us` are then bounds: there may have been
    /// shorter and longer calls.
    pub sampled: Option<Sampled>,
    /// Host time; null if no call but warm-ups has one. Replays and ABI v1 to v4 have none.
    pub host_us: Option<Statistics>,
    /// Operations with a GPU time on every rank.
    pub matched: u64,
    /// GPU time of an operation's shortest rank, which waited least; null if no operation has a GPU time on
    /// every rank. Sends and receives are not matched.
    pub shortest_us: Option<Statistics>,
    /// The blind spot of a tool that sees host calls only: which share of a call's GPU time lies beyond the
    /// time that its host call takes, 0 to 1. Of the median host time and the median GPU time, both by
    /// nearest rank.
    pub blind_share: Option<f64>,
    /// What NCCL itself expected one to take by this algorithm and protocol; null if that was not recorded
    /// (NCCLSCOPE_COSTS=on).
    pub nccl_us: Option<f64>,
    /// Bytes by the median of `shortest_us`; null without a size, a GPU time on every rank or a second rank,
    /// or if it is refused.
    pub algbw_gb_per_s: Option<f64>,
    /// `algbw_gb_per_s` by nccl-tests' factor: of the operation, close to the transfer. Null without that.
    pub busbw_gb_per_s: Option<f64>,
    /// Bytes by the mean time over an operation's ranks, the median operation's, by nccl-tests' factor:
    /// waiting for late ranks is in it. Of sends and receives, and where no operation has a time on every
    /// rank, by the median call. Null without a size, a GPU time or a second rank, or if it is refused.
    pub call_busbw_gb_per_s: Option<f64>,
    /// Why there is no bandwidth although there are size and time.
    pub bandwidth_refused: Option<String>,
    /// Calls without a GPU time, by cause.
    pub untimed: BTreeMap<&'static str, u64>,
    /// Calls captured into CUDA graphs: templates, not executions. Null if files of another tool do not show
    /// them.
    pub captured: Option<u64>,
    /// Executions that were replays of captured calls. Null as `captured`.
    pub replays: Option<u64>,
    /// Largest relative error of percentiles: 0 from rows, 0.01 from histograms.
    pub percentile_error: f64,
    /// Those of `timed` whose CUDA events began on an idle stream: their times include the launch.
    pub on_idle_stream: u64,
    /// The number that the row was gathered under.
    #[serde(skip)]
    pub gathered_as: u32,
    /// For plots; not in the JSON report, where they would take most of the room.
    #[serde(skip)]
    pub histograms: Histograms,
}

/// How the times of a row are spread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Histograms {
    /// Of `time_us`.
    pub time: Option<Histogram>,
    /// Of `shortest_us`.
    pub shortest: Option<Histogram>,
    /// Of `host_us`.
    pub host: Option<Histogram>,
}

impl Operation {
    /// GPU time of all its calls on all ranks but the warm-ups, µs: the sum, or what the sample says it is.
    pub fn gpu_sum_us(&self) -> Option<f64> {
        let sum = self.time_us.map(|t| t.sum);
        self.sampled.map(|s| s.sum_us).or(sum)
    }

    /// The 95 % interval of that, if it is estimated from a sample.
    pub fn gpu_sum_interval_us(&self) -> Option<(f64, f64)> {
        self.sampled.map(|s| (s.sum_low_us, s.sum_high_us))
    }

    /// Calls that are in the statistics: all but those that are known to be warm-ups.
    pub fn calls_past_warmup(&self) -> u64 {
        self.calls.saturating_sub(self.warmup.unwrap_or(0))
    }

    /// Whether it goes from one rank to one other.
    pub fn is_p2p(&self) -> bool {
        self.function.as_deref().is_some_and(is_p2p)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    communicator: Option<u32>,
    function: Name,
    datatype: Name,
    bytes: Option<u64>,
    algorithm: Name,
    protocol: Name,
    /// GPU times are of CUDA events.
    events: bool,
}

#[derive(Default)]
struct Gathered {
    events: bool,
    idle: u64,
    stretches: Stretches,
    nranks: Option<u32>,
    calls: u64,
    timed: u64,
    warmup: u64,
    captured: u64,
    replays: u64,
    /// Calls in graphs that were timed in kernel windows.
    in_windows: u64,
    gpu: Sample,
    host: Sample,
    untimed: ByCause,
}

/// The table under construction.
#[derive(Default)]
pub struct Gatherer {
    known: HashMap<Key, u32>,
    rows: Vec<Gathered>,
}

impl Gatherer {
    /// The row of each place of `walk`.
    pub fn plan(&mut self, capture: &Capture, walk: &Walk) -> Vec<u32> {
        let events = walk.has_events();
        let row = |place: &crate::executions::Place| {
            let key = key(capture, place.shape, place.function, events);
            self.row(key, place.shape)
        };
        walk.places().iter().map(row).collect()
    }

    fn row(&mut self, key: Key, shape: &Shape) -> u32 {
        let rows = &mut self.rows;
        let index = *self.known.entry(key).or_insert_with(|| {
            rows.push(Gathered {
                events: key.events,
                ..Gathered::default()
            });
            rows.len() as u32 - 1
        });
        let row = &mut self.rows[index as usize];
        row.nranks = row.nranks.or(shape.nranks);
        index
    }

    /// Counts an execution in `row`.
    #[inline]
    pub fn add(&mut self, row: u32, execution: &Execution) {
        let row = &mut self.rows[row as usize];
        if execution.captured {
            row.captured += 1;
            return;
        }
        row.calls += 1;
        row.replays += u64::from(execution.shape.is(flag::REPLAY));
        row.warmup += u64::from(execution.warmup);
        match execution.gpu {
            Ok(ns) => {
                row.timed += 1;
                row.idle += u64::from(row.events && began_at_launch(execution));
                if !execution.warmup {
                    row.gpu.push(ns);
                    if row.events {
                        row.stretches.push(ns);
                    }
                }
            }
            Err(cause) => row.untimed[cause as usize] += 1,
        }
        if let Some(ns) = execution.host().filter(|_| !execution.warmup) {
            row.host.push(ns);
        }
    }

    /// Counts the calls without rows of a process, whose rows for its shapes begin `plan`. Which of them came
    /// first on their communicator is not known.
    pub fn add_totals(&mut self, process: &Process, plan: &[u32]) {
        let stamps = process.fact("timing") == Some("stamps");
        for total in &process.totals {
            let shape = &process.shapes[total.shape as usize];
            self.rows[plan[total.shape as usize] as usize].totals(stamps, shape, total);
        }
    }

    /// Counts calls that launches of CUDA graphs executed, and of which there is nothing else.
    pub fn add_in_graphs(&mut self, row: u32, calls: u64) {
        let row = &mut self.rows[row as usize];
        let untimed = &mut row.untimed[Untimed::InGraph as usize];
        for count in [&mut row.calls, &mut row.replays, untimed] {
            *count = count.saturating_add(calls);
        }
    }

    /// Gives one of these a time, from a kernel window.
    pub fn time_in_graph(&mut self, row: u32, ns: u64) {
        let row = &mut self.rows[row as usize];
        let untimed = &mut row.untimed[Untimed::InGraph as usize];
        // Launches that were counted may be fewer than windows show, if the process was killed.
        if let Some(left) = untimed.checked_sub(1) {
            *untimed = left;
            row.timed += 1;
            row.in_windows += 1;
            row.gpu.push(ns);
            row.stretches.push(ns);
        }
    }

    /// Takes in another table; returns which row each of its rows is here.
    pub fn merge(&mut self, other: Gatherer) -> Vec<u32> {
        let mut rows = vec![0; other.rows.len()];
        let mut theirs: Vec<Option<Gathered>> = other.rows.into_iter().map(Some).collect();
        let mut keys: Vec<(u32, Key)> = other.known.into_iter().map(|(k, i)| (i, k)).collect();
        keys.sort_unstable();
        for (index, key) in keys {
            let Some(from) = theirs[index as usize].take() else {
                continue;
            };
            let shape = Shape {
                nranks: from.nranks,
                ..Shape::default()
            };
            rows[index as usize] = self.row(key, &shape);
            self.rows[rows[index as usize] as usize].merge(from);
        }
        rows
    }

    /// The rows, largest total GPU time first, then largest host time.
    pub fn finish(self, capture: &Capture, matcher: &Matcher) -> Vec<Operation> {
        let mut whole = vec![(Sample::default(), Sample::default()); self.rows.len()];
        matcher.whole(capture, |row, shortest, mean| {
            let of = &mut whole[row as usize];
            of.0.push(shortest);
            of.1.push(mean);
        });
        let all = &capture.processes;
        let first_known = all.iter().all(Process::begins_with_first_call);
        let graphs_known = all.iter().all(Process::knows_graphs);
        let mut keys: Vec<(u32, Key)> = self.known.into_iter().map(|(k, i)| (i, k)).collect();
        keys.sort_unstable();
        let mut rows: Vec<(Key, Operation)> = keys
            .into_iter()
            .zip(self.rows)
            .zip(whole)
            .map(|(((index, key), row), whole)| {
                let row = row.finish(capture, key, whole);
                let operation = Operation {
                    gathered_as: index,
                    warmup: row.warmup.filter(|_| first_known),
                    captured: row.captured.filter(|_| graphs_known),
                    replays: row.replays.filter(|_| graphs_known),
                    ..row
                };
                (key, operation)
            })
            // Shapes that no execution had, such as those of pieces.
            .filter(|(_, row)| row.calls != 0 || row.captured.is_some_and(|n| n != 0))
            .collect();
        let sum = |s: &Option<Statistics>| s.map_or(0.0, |s| s.sum);
        rows.sort_by(|(a_key, a), (b_key, b)| {
            let gpu = |o: &Operation| o.gpu_sum_us().unwrap_or(0.0);
            let by_time = gpu(b)
                .total_cmp(&gpu(a))
                .then(sum(&b.host_us).total_cmp(&sum(&a.host_us)));
            by_time.then(b.calls.cmp(&a.calls)).then(a_key.cmp(b_key))
        });
        rows.into_iter().map(|(_, row)| row).collect()
    }
}

fn key(capture: &Capture, shape: &Shape, function: Name, events: bool) -> Key {
    Key {
        communicator: shape.communicator,
        function,
        datatype: shape.datatype,
        bytes: capture.bytes_as(shape, function),
        algorithm: shape.algorithm,
        protocol: shape.protocol,
        events,
    }
}

/// Adds the calls in a total that have no GPU time, by cause. `stamps`: whether NCCL's stamps alone were to
/// time them.
pub(crate) fn untimed_in_totals(
    stamps: bool,
    shape: &Shape,
    total: &tables::Total,
    to: &mut ByCause,
) {
    // Those that had a row were told apart by the recorder, which leaves these out.
    let early = if stamps && shape.stops_early {
        total.folded.saturating_sub(total.timed)
    } else {
        0
    };
    let calls = total.folded.saturating_add(total.rowless);
    let rest = calls.saturating_sub(total.timed).saturating_sub(early);
    for (cause, n) in [(Untimed::EarlyStop, early), (Untimed::Rowless, rest)] {
        let count = &mut to[cause as usize];
        *count = count.saturating_add(n);
    }
}

impl Gathered {
    fn totals(&mut self, stamps: bool, shape: &Shape, total: &tables::Total) {
        // Counters of a damaged live part may be anything.
        let calls = total.folded.saturating_add(total.rowless);
        if shape.is(flag::CAPTURED) {
            self.captured = self.captured.saturating_add(calls);
            return;
        }
        self.calls = self.calls.saturating_add(calls);
        self.timed = self.timed.saturating_add(total.timed);
        self.replays = self
            .replays
            .saturating_add(if shape.is(flag::REPLAY) { calls } else { 0 });
        self.gpu.push_summed(Summed {
            count: total.timed,
            sum: total.sum,
            extremes: Some((total.min, total.max)),
            histogram: (total.histogram_of == HistogramOf::Gpu).then_some(&total.histogram),
        });
        if let (Some(sum), false) = (
            total.host_ns,
            shape.is(flag::REPLAY) || shape.is(flag::LEGACY),
        ) {
            let histogram =
                (total.histogram_of == HistogramOf::Host).then_some(total.histogram.as_slice());
            self.host.push_summed(Summed {
                count: total.folded,
                sum,
                extremes: None,
                histogram,
            });
        }
        untimed_in_totals(stamps, shape, total, &mut self.untimed);
    }

    fn merge(&mut self, other: Gathered) {
        for (into, from) in [
            (&mut self.calls, other.calls),
            (&mut self.timed, other.timed),
            (&mut self.warmup, other.warmup),
            (&mut self.captured, other.captured),
            (&mut self.replays, other.replays),
            (&mut self.idle, other.idle),
            (&mut self.in_windows, other.in_windows),
        ] {
            *into = into.saturating_add(from);
        }
        for (into, from) in self.untimed.iter_mut().zip(other.untimed) {
            *into = into.saturating_add(from);
        }
        self.stretches.merge(other.stretches);
        self.gpu.merge(other.gpu);
        self.host.merge(other.host);
    }

    /// `shortest` and `means` are of the operations with a time on every rank.
    fn finish(self, capture: &Capture, key: Key, (shortest, means): (Sample, Sample)) -> Operation {
        let name = |name: Name| capture.names.get(name).map(str::to_owned);
        let communicator = key
            .communicator
            .and_then(|c| capture.communicators.get(c as usize));
        let nranks = self.nranks.or_else(|| communicator.and_then(|c| c.nranks));
        let function = name(key.function);
        let rounded = self.gpu.is_rounded() || self.host.is_rounded();
        let histograms = Histograms {
            time: self.gpu.histogram(),
            shortest: shortest.histogram(),
            host: self.host.histogram(),
        };
        let (time_us, gpu_typical) = self.gpu.with_typical().unzip();
        let (host_us, host_typical) = self.host.with_typical().unzip();
        let blind = |host: f64, gpu: f64| (gpu > 0.0).then(|| f64::max(1.0 - host / gpu, 0.0));
        let typical = host_typical.flatten().zip(gpu_typical.flatten());
        let shortest_us = shortest.statistics();
        let bandwidth = |time: &Option<Statistics>| {
            let (function, bytes) = (function.as_deref()?, key.bytes?);
            let p50 = time.as_ref()?.p50?;
            Some(Bandwidth::of(function, nranks, bytes, p50))
        };
        let of_operation = bandwidth(&shortest_us);
        let of_call = bandwidth(&means.statistics().or(time_us));
        let refused = [&of_operation, &of_call]
            .into_iter()
            .find_map(|b| b.as_ref()?.as_ref().err().cloned());
        let of_operation = of_operation.and_then(Result::ok).unwrap_or_default();
        let of_call = of_call.and_then(Result::ok).unwrap_or_default();
        let mut unsampled = self.untimed[Untimed::Unsampled as usize];
        if self.in_windows > 0 {
            unsampled += self.untimed[Untimed::InGraph as usize];
        }
        let sampled = (unsampled > 0)
            .then(|| self.stretches.estimate(unsampled + time_us?.n))
            .flatten();
        let untimed = CAUSES.iter().zip(self.untimed);
        Operation {
            gathered_as: 0,
            communicator: communicator.map(|c| c.id.clone()),
            nranks,
            function,
            datatype: name(key.datatype),
            bytes: key.bytes,
            algorithm: name(key.algorithm),
            protocol: name(key.protocol),
            calls: self.calls,
            timed: self.timed,
            warmup: Some(self.warmup),
            time_us,
            time_source: (self.timed > 0).then_some(match self.events {
                _ if self.in_windows > 0 => "windows",
                true => "events",
                false => "stamps",
            }),
            sampled,
            host_us,
            matched: shortest_us.map_or(0, |s| s.n),
            shortest_us,
            blind_share: typical.and_then(|(host, gpu)| blind(host, gpu)),
            nccl_us: None,
            algbw_gb_per_s: of_operation.algbw_gb_per_s,
            busbw_gb_per_s: of_operation.busbw_gb_per_s,
            call_busbw_gb_per_s: of_call.busbw_gb_per_s,
            bandwidth_refused: refused,
            untimed: untimed
                .filter(|(_, n)| *n > 0)
                .map(|(cause, n)| (cause.name(), n))
                .collect(),
            captured: Some(self.captured),
            replays: Some(self.replays),
            percentile_error: if rounded { 0.01 } else { 0.0 },
            on_idle_stream: self.idle,
            histograms,
        }
    }
}

/// Whether the first CUDA event came while the call was being launched: the stream had nothing else to do,
/// and the GPU waited for the launch.
fn began_at_launch(execution: &Execution) -> bool {
    let call = execution.call;
    let launched = match call.launch_end_ns {
        0 => call.return_ns,
        launched => launched,
    };
    let begun = execution.kernel.on_host();
    begun.is_some_and(|(start, _)| launched != 0 && start <= launched)
}

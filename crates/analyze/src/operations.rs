//! What was done: the totals table.
//!
//! Every execution is counted in one row, by communicator, function, datatype, bytes, algorithm and protocol. An AlltoAll,
//! Gather, Scatter or SendRecv that NCCL announced in pieces is one call per rank here. Calls captured into a CUDA graph
//! are templates, counted as `captured`; their replays are calls.
//!
//! Two times are kept apart. `time_us` is GPU time from stamps, of calls whose stamps can be believed; a call of a fused
//! batch has none, because the stamps are the batch's, unless the batch is one operation. `host_us` is the time the
//! program spent in the call, from API entry to return.
//!
//! Rule: `calls` = `timed` + all of `untimed`.

use crate::statistics::{Sample, Statistics, Summed};
use capture::live::flag;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use tables::process::HistogramOf;
use tables::{Call, Capture, Name, Process, Shape, Untimed};

/// A row of the totals table.
#[derive(Clone, Debug, Serialize)]
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
    /// Executions, one rank's part each.
    pub calls: u64,
    /// Those of them with a GPU time.
    pub timed: u64,
    /// GPU time.
    pub time_us: Option<Statistics>,
    /// Where `time_us` comes from.
    pub time_source: Option<&'static str>,
    /// Host time.
    pub host_us: Option<Statistics>,
    /// Calls without a GPU time, by cause.
    pub untimed: BTreeMap<&'static str, u64>,
    /// Calls captured into CUDA graphs: templates, not executions.
    pub captured: u64,
    /// Executions that were replays of captured calls.
    pub replays: u64,
    /// Largest relative error of percentiles: 0 from rows, 0.01 from histograms.
    pub percentile_error: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    communicator: Option<u32>,
    function: Name,
    datatype: Name,
    bytes: Option<u64>,
    algorithm: Name,
    protocol: Name,
}

#[derive(Default)]
struct Gathered {
    nranks: Option<u32>,
    calls: u64,
    captured: u64,
    replays: u64,
    gpu: Sample,
    host: Sample,
    untimed: BTreeMap<Untimed, u64>,
}

/// The table, with what other analyses need of the way there.
pub struct Operations {
    rows: Vec<Operation>,
    /// Announced calls that have a GPU time, by process: pieces of a timed operation count one by one.
    pub timed_calls: Vec<u64>,
    /// Announced calls without one, by process and cause; captured calls are in neither.
    pub untimed_calls: Vec<BTreeMap<Untimed, u64>>,
}

impl Operations {
    /// The rows, largest total time first.
    pub fn rows(&self) -> &[Operation] {
        &self.rows
    }

    /// As [`Operations::rows`].
    pub fn into_rows(self) -> Vec<Operation> {
        self.rows
    }
}

/// Host time of an API call. A replay and a call of a legacy ABI have no API call to measure.
fn host_ns(call: &Call, shape: &Shape) -> Option<u64> {
    if shape.is(flag::REPLAY) || shape.is(flag::LEGACY) {
        None
    } else {
        call.host_ns()
    }
}

/// The GPU time of an operation of several calls: first start to last stop.
fn composite_ns(process: &Process, calls: &[u32], alone: bool) -> Result<u64, Untimed> {
    let (mut start, mut stop) = (u64::MAX, 0);
    let mut worst = Err(Untimed::NoStamp);
    for index in calls {
        let call = &process.calls[*index as usize];
        let shape = &process.shapes[call.shape as usize];
        let with_oneself = shape.peer.is_none() || shape.peer == shape.rank;
        match call.gpu_ns(shape) {
            // One batch that is one operation: its time is the operation's.
            Err(Untimed::Fused) if alone => {}
            // NCCL up to 2.30 launches nothing for the pair with oneself.
            Err(Untimed::NoStamp) if with_oneself && calls.len() > 1 => continue,
            Err(cause) => return Err(cause),
            Ok(_) => {}
        }
        (start, stop) = (start.min(call.gpu_start), stop.max(call.gpu_stop));
        worst = Ok(());
    }
    worst.and_then(|()| stop.checked_sub(start).ok_or(Untimed::Negative))
}

/// The totals table of a capture.
pub fn operations(capture: &Capture) -> Operations {
    let mut gathered: HashMap<Key, Gathered> = HashMap::new();
    let mut timed_calls = Vec::new();
    let mut untimed_calls = Vec::new();
    for process in &capture.processes {
        let mut timed = 0u64;
        let mut untimed: BTreeMap<Untimed, u64> = BTreeMap::new();
        // Calls of one shape are many and mostly follow each other.
        let keys: Vec<Key> = process
            .shapes
            .iter()
            .map(|shape| key(capture, shape, shape.function))
            .collect();
        for call in process.calls.iter().filter(|call| call.composite == 0) {
            let shape = &process.shapes[call.shape as usize];
            let entry = entry(&mut gathered, keys[call.shape as usize], shape);
            if shape.is(flag::CAPTURED) {
                entry.captured += 1;
                continue;
            }
            let gpu = call.gpu_ns(shape);
            entry.execution(shape, gpu, host_ns(call, shape));
            match gpu {
                Ok(_) => timed += 1,
                Err(cause) => *untimed.entry(cause).or_insert(0) += 1,
            }
        }
        for composite in &process.composites {
            let Some(first) = composite.calls.first() else {
                continue;
            };
            let shape = &process.shapes[process.calls[*first as usize].shape as usize];
            let entry = entry(
                &mut gathered,
                key(capture, shape, composite.function),
                shape,
            );
            if shape.is(flag::CAPTURED) {
                entry.captured += 1;
                continue;
            }
            let calls = || {
                composite
                    .calls
                    .iter()
                    .map(|index| &process.calls[*index as usize])
            };
            let ends = calls()
                .map(|c| c.return_ns)
                .max()
                .filter(|_| calls().all(|c| host_ns(c, shape).is_some()));
            let host = ends
                .zip(calls().map(|c| c.api_ns).min())
                .and_then(|(end, begin)| u64::try_from(end.checked_sub(begin)?).ok());
            let gpu = composite_ns(process, &composite.calls, composite.alone);
            entry.execution(shape, gpu, host);
            match gpu {
                Ok(_) => timed += composite.calls.len() as u64,
                Err(cause) => *untimed.entry(cause).or_insert(0) += composite.calls.len() as u64,
            }
        }
        for total in &process.totals {
            let shape = &process.shapes[total.shape as usize];
            let entry = entry(&mut gathered, keys[total.shape as usize], shape);
            let calls = total.folded.saturating_add(total.rowless);
            if shape.is(flag::CAPTURED) {
                entry.captured = entry.captured.saturating_add(calls);
                continue;
            }
            // Counters of a damaged live part may be anything.
            timed = timed.saturating_add(total.timed);
            entry.totals(shape, total);
            let rowless = untimed.entry(Untimed::Rowless).or_insert(0);
            *rowless = rowless.saturating_add(calls.saturating_sub(total.timed));
        }
        untimed.retain(|_, n| *n > 0);
        timed_calls.push(timed);
        untimed_calls.push(untimed);
    }
    let mut rows: Vec<(Key, Operation)> = gathered
        .into_iter()
        .map(|(key, gathered)| (key, gathered.row(capture, key)))
        .collect();
    let sum = |s: &Option<Statistics>| s.map_or(0.0, |s| s.sum);
    rows.sort_by(|(a_key, a), (b_key, b)| {
        let by_time = sum(&b.time_us)
            .total_cmp(&sum(&a.time_us))
            .then(sum(&b.host_us).total_cmp(&sum(&a.host_us)));
        by_time.then(b.calls.cmp(&a.calls)).then(a_key.cmp(b_key))
    });
    Operations {
        rows: rows.into_iter().map(|(_, row)| row).collect(),
        timed_calls,
        untimed_calls,
    }
}

fn key(capture: &Capture, shape: &Shape, function: Name) -> Key {
    Key {
        communicator: shape.communicator,
        function,
        datatype: shape.datatype,
        bytes: capture.bytes_as(shape, function),
        algorithm: shape.algorithm,
        protocol: shape.protocol,
    }
}

fn entry<'a>(
    gathered: &'a mut HashMap<Key, Gathered>,
    key: Key,
    shape: &Shape,
) -> &'a mut Gathered {
    let entry = gathered.entry(key).or_default();
    entry.nranks = entry.nranks.or(shape.nranks);
    entry
}

impl Gathered {
    fn execution(&mut self, shape: &Shape, gpu: Result<u64, Untimed>, host: Option<u64>) {
        self.calls += 1;
        self.replays += u64::from(shape.is(flag::REPLAY));
        match gpu {
            Ok(ns) => self.gpu.push(ns),
            Err(cause) => *self.untimed.entry(cause).or_insert(0) += 1,
        }
        if let Some(ns) = host {
            self.host.push(ns);
        }
    }

    fn totals(&mut self, shape: &Shape, total: &tables::Total) {
        let calls = total.folded.saturating_add(total.rowless);
        self.calls = self.calls.saturating_add(calls);
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
        let untimed = calls.saturating_sub(total.timed);
        if untimed > 0 {
            let rowless = self.untimed.entry(Untimed::Rowless).or_insert(0);
            *rowless = rowless.saturating_add(untimed);
        }
    }

    fn row(self, capture: &Capture, key: Key) -> Operation {
        let name = |name: Name| capture.names.get(name).map(str::to_owned);
        let communicator = key
            .communicator
            .and_then(|c| capture.communicators.get(c as usize));
        let rounded = self.gpu.is_rounded() || self.host.is_rounded();
        let timed = self.gpu.count();
        Operation {
            communicator: communicator.map(|c| c.id.clone()),
            nranks: self.nranks.or_else(|| communicator.and_then(|c| c.nranks)),
            function: name(key.function),
            datatype: name(key.datatype),
            bytes: key.bytes,
            algorithm: name(key.algorithm),
            protocol: name(key.protocol),
            calls: self.calls,
            timed,
            time_us: self.gpu.statistics(),
            time_source: (timed > 0).then_some("stamps"),
            host_us: self.host.statistics(),
            untimed: self
                .untimed
                .into_iter()
                .map(|(cause, n)| (cause.name(), n))
                .collect(),
            captured: self.captured,
            replays: self.replays,
            percentile_error: if rounded { 0.01 } else { 0.0 },
        }
    }
}

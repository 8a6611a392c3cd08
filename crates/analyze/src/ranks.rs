//! How much of the run each rank spent in NCCL, and which ranks differ from the rest.
//!
//! [`add`] takes one process and gives a [`RankRow`] for each GPU that it drives. [`finish`] works out what
//! is usual over all ranks, and names the ranks that differ. A rank that spends less time in NCCL than the
//! others is the one they wait for: it arrives last.
//!
//! Rule: `nccl_us` is the length of the union of a rank's intervals, so that calls at the same time count
//! once, and `share` is never above 1. `sum_us` is the plain sum and may exceed both. Of a sample (`basis` is
//! `sample`), both are estimates. Each time stands for as many calls of its kind as were made for one that
//! was timed, and calls at the same time may count twice.

use crate::coverage::Coverage;
use crate::executions::{Execution, Place, Walk};
use crate::matching::is_p2p;
use crate::sampled::Stretches;
use crate::statistics::{median, sorted, spread, Spread};
use crate::subject::ProcessId;
use crate::time::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use tables::{Capture, Name, Process, Untimed};

/// One rank: a GPU of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RankRow {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// CUDA device ordinal.
    pub device: Option<u32>,
    /// Executions.
    pub calls: u64,
    /// Calls with a GPU time that can be believed.
    pub timed: u64,
    /// Calls that are sends and receives; null if NCCL's RAS counted, which leaves them out.
    pub p2p: Option<u64>,
    /// From the first communicator or call to the last thing seen.
    pub wall_us: Option<f64>,
    /// Where the intervals come from: `gpu` (kernels), `sample` (estimated from the kernels that were timed),
    /// or `host` (API calls) if no call has a GPU time; null if no call has a time.
    #[schemars(extend("enum" = ["gpu", "sample", "host", null]))]
    pub basis: Option<&'static str>,
    /// Time in NCCL kernels after warm-up, or in API calls without GPU times: the union of the intervals, so
    /// no moment counts twice. Null if no call has a time.
    pub nccl_us: Option<f64>,
    /// 95 % interval of an estimate from a sample; null if all calls were timed, or too few for an estimate.
    pub nccl_interval_us: Option<(f64, f64)>,
    /// `nccl_us` by `wall_us`, 0 to 1: the share of the run, never more than all of it. Null if no call has a
    /// time.
    pub share: Option<f64>,
    /// The most that its GPU can have been in NCCL, without warm-up. `None` if nothing bounds that: some kind
    /// of call has no time, or the recording did not end by itself.
    #[serde(skip)]
    pub most_us: Option<f64>,
    /// Plain sum of the intervals: overlaps count twice. Null if no call has a time.
    pub sum_us: Option<f64>,
    /// The GPU's UUID, 32 hex digits.
    pub gpu: Option<String>,
    /// Operations of which it is known who came last; null if none was compared.
    pub operations: Option<u64>,
    /// Those of `operations` in which it came last.
    pub last: Option<u64>,
    /// How long it waited for later ranks in its operations: estimated of all, if these are a sample. No more
    /// than `nccl_us`.
    pub waited_us: Option<f64>,
    /// The part of its time in which communication ran and nothing computed: of kernel windows, else of
    /// stream waits.
    pub exposed_share: Option<f64>,
    /// What the run would take less without its fault: the largest finding that blames it alone; null if none
    /// does.
    pub loss_us: Option<f64>,
}

/// A rank that differs from the rest.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Outlier {
    /// Which of `ranks.rows` it is, from 0.
    pub row: usize,
    /// The launcher's rank.
    pub rank: Option<u32>,
    /// Host.
    pub host: String,
    /// Which figure differs: `calls`, `untimed` (calls without a GPU time where others have one) or
    /// `nccl_us`.
    #[schemars(extend("enum" = ["calls", "untimed", "nccl_us"]))]
    pub figure: &'static str,
    /// Its value, in the unit of the figure: a number, or µs.
    pub value: f64,
    /// The median over ranks, in the same unit.
    pub median: f64,
}

/// All ranks.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Ranks {
    /// Spread of `calls`.
    pub calls: Option<Spread>,
    /// Spread of `wall_us`.
    pub wall_us: Option<Spread>,
    /// Spread of `nccl_us`.
    pub nccl_us: Option<Spread>,
    /// Spread of `share`.
    pub share: Option<Spread>,
    /// Those that differ, farthest from the median first.
    pub outliers: Vec<Outlier>,
    /// By restart, rank and device.
    pub rows: Vec<RankRow>,
}

/// The intervals of one GPU of a process.
#[derive(Default)]
struct Gpu {
    calls: u64,
    timed: u64,
    p2p: u64,
    kernels: Coverage,
    api: Coverage,
    /// By kind: calls, and the lengths of those with a GPU interval.
    kinds: Vec<(u64, Stretches)>,
    /// Some calls were left out of the sample that is timed.
    sampled: bool,
    /// Some calls have no times that could be here: they were captured into a graph, or have no rows.
    unseen: bool,
    begin: Option<i64>,
    end: Option<i64>,
    /// From the start of its first warm-up kernel to the end of the last.
    warmup: Option<(u64, u64)>,
}

/// One process under way.
pub struct Gatherer {
    gpus: Vec<(Option<u32>, Gpu)>,
    /// Index into `gpus` by [`crate::executions::Place::local`].
    by_local: Vec<usize>,
    /// Whether it is a send or receive, by place.
    p2p: Vec<bool>,
    /// By place: which kind of call it is. Calls of one kind have places of their own if they differ in how
    /// they were launched or timed.
    kinds: Vec<usize>,
}

impl Gatherer {
    /// Prepares for a process.
    pub fn new(capture: &Capture, process: &Process, walk: &Walk) -> Gatherer {
        let mut gpus: BTreeMap<Option<u32>, Gpu> = BTreeMap::new();
        for local in &process.communicators {
            let gpu = gpus.entry(local.device).or_default();
            gpu.see(local.created_ns);
            gpu.see(local.ended_ns);
        }
        let mut devices = vec![None; walk.locals()];
        for place in walk.places() {
            let device = process.communicator(place.shape.uid);
            devices[place.local as usize] = device.and_then(|l| l.device);
            gpus.entry(devices[place.local as usize]).or_default();
        }
        let mut gpus: Vec<(Option<u32>, Gpu)> = gpus.into_iter().collect();
        let mut known: HashMap<(u32, Name, Name, u64), usize> = HashMap::new();
        let kinds: Vec<usize> = walk
            .places()
            .iter()
            .map(|place| {
                let shape = place.shape;
                let kind = (place.local, place.function, shape.datatype, shape.count);
                let next = known.len();
                *known.entry(kind).or_insert(next)
            })
            .collect();
        for (_, gpu) in &mut gpus {
            gpu.kinds.resize(known.len(), Default::default());
        }
        let index = |device: Option<u32>| gpus.iter().position(|(d, _)| *d == device);
        let function = |place: &Place| capture.names.get(place.function);
        let p2p = walk.places().iter().map(function);
        Gatherer {
            p2p: p2p.map(|f| f.is_some_and(is_p2p)).collect(),
            by_local: devices.into_iter().map(|d| index(d).unwrap_or(0)).collect(),
            kinds,
            gpus,
        }
    }

    /// Adds an execution made at a place of this communicator.
    #[inline]
    pub fn add(&mut self, local: u32, execution: &Execution) {
        let gpu = &mut self.gpus[self.by_local[local as usize]].1;
        if let Some((begin, end)) = execution.api {
            gpu.see(Some(begin));
            gpu.see(Some(end));
        }
        gpu.see(Some(execution.call.gpu_seen_ns).filter(|ns| *ns != 0));
        if execution.captured {
            gpu.unseen = true;
            return;
        }
        gpu.calls = gpu.calls.saturating_add(1);
        gpu.timed += u64::from(execution.gpu.is_ok());
        gpu.p2p += u64::from(self.p2p[execution.place]);
        if execution.warmup {
            if let Some((begin, end)) = execution.kernel.on_either_clock() {
                gpu.warmup = Some(
                    gpu.warmup
                        .map_or((begin, end), |(b, e)| (b.min(begin), e.max(end))),
                );
            }
            return;
        }
        let kind = &mut gpu.kinds[self.kinds[execution.place]];
        kind.0 += 1;
        if let Some(length) = execution.kernel.length() {
            kind.1.push(length);
        }
        gpu.sampled |= execution.gpu == Err(Untimed::Unsampled);
        match (execution.kernel.on_either_clock(), execution.api) {
            (Some((begin, end)), _) => gpu.kernels.push(begin, end),
            (None, Some((begin, end))) if gpu.kernels.is_empty() => {
                if let (Ok(begin), Ok(end)) = (begin.try_into(), end.try_into()) {
                    gpu.api.push(begin, end);
                }
            }
            _ => {}
        }
    }

    /// Adds executions of a place without rows.
    pub fn add_counted(&mut self, local: u32, place: usize, calls: u64, timed: u64) {
        let gpu = &mut self.gpus[self.by_local[local as usize]].1;
        gpu.unseen |= calls > 0;
        gpu.calls = gpu.calls.saturating_add(calls);
        gpu.timed = gpu.timed.saturating_add(timed);
        if self.p2p[place] {
            gpu.p2p = gpu.p2p.saturating_add(calls);
        }
    }

    /// The rows of the process, one for each of its GPUs. `look` sees the time in NCCL of each: device, ns in
    /// all if it is known, and intervals.
    pub fn finish(
        self,
        process: &Process,
        mut look: impl FnMut(Option<u32>, Option<u64>, &mut Coverage),
    ) -> Vec<RankRow> {
        let us = |ns: u64| Nanos::from(ns).us();
        // A trace of another tool is one window, and all that it has is in it.
        let windows = process.windows.list.iter();
        let seen = windows
            .filter(|_| process.other_tool().is_some())
            .flat_map(|window| [window.open, window.closed]);
        let seen: Vec<i64> = seen.collect();
        self.gpus
            .into_iter()
            .map(|(device, mut gpu)| {
                seen.iter().for_each(|time| gpu.see(Some(*time)));
                let warmup = gpu.warmup;
                let (basis, mut intervals) = match (gpu.kernels, gpu.api) {
                    (kernels, _) if !kernels.is_empty() => (Some("gpu"), kernels),
                    (_, api) if !api.is_empty() => (Some("host"), api),
                    (none, _) => (None, none),
                };
                let wall = gpu.begin.zip(gpu.end);
                let wall = wall.and_then(|(a, b)| u64::try_from(b.checked_sub(a)?).ok());
                // Replayed stamps are of another time than this run, and may be of a longer one.
                let on_gpu = basis == Some("gpu");
                let spans = [intervals.span(), warmup.filter(|_| on_gpu)]
                    .into_iter()
                    .flatten();
                let span = spans.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)));
                let span = span.map_or(0, |(a, b)| b.saturating_sub(a));
                let wall = wall.map(|wall| wall.max(span)).filter(|wall| *wall > 0);
                let (mut sum, mut union) = (intervals.sum(), intervals.union());
                let (mut basis, mut interval) = (basis, None);
                let of = estimated(&gpu.kinds);
                // In the wall, calls lie over each other as much as those that were timed.
                let timed = (union, sum.max(1));
                let within = |time: Nanos| {
                    let scaled = Nanos::from(timed.0) * (time / Nanos::from(timed.1));
                    (scaled.0 as u64).min(wall.unwrap_or(u64::MAX))
                };
                let is_whole = process.ended && !gpu.unseen && basis != Some("host");
                let most = (is_whole && all_known(&gpu.kinds)).then(|| within(of.high));
                if gpu.sampled && basis == Some("gpu") {
                    basis = Some("sample");
                    interval = Some((us(within(of.low)), us(within(of.high))));
                    (union, sum) = (within(of.sum), of.sum.0 as u64);
                }
                look(device, basis.map(|_| union), &mut intervals);
                RankRow {
                    process: ProcessId::of(process),
                    device,
                    calls: gpu.calls,
                    timed: gpu.timed,
                    p2p: process.knows_p2p().then_some(gpu.p2p),
                    wall_us: wall.map(us),
                    basis,
                    nccl_us: basis.map(|_| us(union)),
                    nccl_interval_us: interval,
                    share: basis.and(wall).map(|wall| union as f64 / wall as f64),
                    most_us: most.map(us),
                    sum_us: basis.map(|_| us(sum)),
                    ..RankRow::default()
                }
            })
            .collect()
    }
}

/// Whether some call of each kind has a GPU time.
fn all_known(kinds: &[(u64, Stretches)]) -> bool {
    let mut kinds = kinds.iter();
    kinds.all(|(calls, timed)| *calls == 0 || timed.total().1 > 0.0)
}

/// What calls took in all.
#[derive(Default)]
struct Estimated {
    sum: Nanos,
    low: Nanos,
    high: Nanos,
}

/// What calls of all kinds took, by those of each that were timed. Calls of several kinds are slow at the
/// same moments, so their intervals add up. Of a kind with too few timed ones, those are the least.
fn estimated(kinds: &[(u64, Stretches)]) -> Estimated {
    let mut all = Estimated::default();
    for (calls, timed) in kinds {
        let (time, n) = timed.total();
        if n == 0.0 {
            continue;
        }
        let sum = time * (*calls as f64 / n);
        let (low, high) = match timed.estimate(*calls) {
            _ if n >= *calls as f64 => (time, time),
            Some(of) => (
                Nanos::from_us(of.sum_low_us),
                Nanos::from_us(of.sum_high_us),
            ),
            None => (time, sum * 2.0 - time),
        };
        all.sum += sum;
        all.low += low;
        all.high += high;
    }
    all
}

impl Gpu {
    #[inline]
    fn see(&mut self, time: Option<i64>) {
        if let Some(time) = time {
            self.begin = Some(self.begin.map_or(time, |t| t.min(time)));
            self.end = Some(self.end.map_or(time, |t| t.max(time)));
        }
    }
}

/// A figure is out of line beyond so many scaled median deviations and this part of the median.
const DEVIATIONS: f64 = 5.0;
/// Makes a median deviation comparable with a standard deviation, for a normal distribution (P. J. Rousseeuw
/// and C. Croux, "Alternatives to the median absolute deviation", Journal of the American Statistical
/// Association 88(424), 1993).
const TO_STANDARD_DEVIATION: f64 = 1.4826;
const PART: f64 = 0.1;
/// Fewer ranks have no "rest" to differ from.
const LEAST_RANKS: usize = 4;

/// What is usual, and who is not.
pub fn finish(rows: Vec<RankRow>) -> Ranks {
    let mut outliers = Vec::new();
    let calls: Vec<Option<f64>> = rows.iter().map(|r| Some(r.calls as f64)).collect();
    let nccl: Vec<Option<f64>> = rows.iter().map(|r| r.nccl_us).collect();
    let untimed: Vec<Option<f64>> = rows
        .iter()
        .map(|r| Some(r.calls.saturating_sub(r.timed) as f64))
        .collect();
    // Time in API calls is no sign of anything, and where GPU times were not asked for none is missing.
    let on_gpu = rows.iter().all(|r| r.basis == Some("gpu"));
    for (figure, values, counts) in [
        ("calls", &calls, true),
        ("untimed", &untimed, on_gpu),
        ("nccl_us", &nccl, on_gpu),
    ] {
        if counts {
            outliers.extend(outliers_of(figure, values, &rows));
        }
    }
    let off = |o: &Outlier| (o.value - o.median).abs() / o.median.max(1.0);
    outliers.sort_by(|a, b| off(b).total_cmp(&off(a)).then(a.row.cmp(&b.row)));
    Ranks {
        calls: spread(&calls),
        wall_us: spread(&rows.iter().map(|r| r.wall_us).collect::<Vec<_>>()),
        nccl_us: spread(&nccl),
        share: spread(&rows.iter().map(|r| r.share).collect::<Vec<_>>()),
        outliers,
        rows,
    }
}

fn outliers_of(figure: &'static str, values: &[Option<f64>], rows: &[RankRow]) -> Vec<Outlier> {
    let known = sorted(values);
    let Some(middle) = median(&known).filter(|_| known.len() >= LEAST_RANKS) else {
        return Vec::new();
    };
    let deviations: Vec<Option<f64>> = known.iter().map(|v| Some((v - middle).abs())).collect();
    let usual = median(&sorted(&deviations)).unwrap_or(0.0) * TO_STANDARD_DEVIATION;
    let limit = (DEVIATIONS * usual).max(PART * middle);
    let out = |(row, value): (usize, &Option<f64>)| {
        let value = (*value)?;
        // A few calls more without a time are no finding.
        let least = match figure {
            "untimed" => PART * rows[row].calls as f64,
            _ => 0.0,
        };
        ((value - middle).abs() > limit.max(least)).then(|| Outlier {
            row,
            rank: rows[row].process.rank,
            host: rows[row].process.host.clone(),
            figure,
            value,
            median: middle,
        })
    };
    values.iter().enumerate().filter_map(out).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(values: &[f64]) -> Vec<RankRow> {
        let row = |(rank, us): (usize, &f64)| RankRow {
            process: ProcessId {
                rank: Some(rank as u32),
                ..ProcessId::default()
            },
            calls: 7,
            timed: 7,
            basis: Some("gpu"),
            nccl_us: Some(*us),
            ..RankRow::default()
        };
        values.iter().enumerate().map(row).collect()
    }

    #[test]
    fn the_rank_that_differs_is_named() {
        let mut values = vec![100.0; 1024];
        values
            .iter_mut()
            .enumerate()
            .for_each(|(i, v)| *v += (i % 7) as f64);
        values[17] = 20.0;
        let ranks = finish(rows(&values));
        assert_eq!(ranks.outliers.len(), 1);
        let outlier = &ranks.outliers[0];
        assert_eq!(
            (outlier.rank, outlier.figure, outlier.value, outlier.median),
            (Some(17), "nccl_us", 20.0, 103.0)
        );
        let spread = ranks.nccl_us.expect("known");
        assert_eq!((spread.min, spread.max), (20.0, 106.0));
    }

    #[test]
    fn ranks_that_are_alike_or_few_have_no_outlier() {
        assert_eq!(finish(rows(&[100.0, 101.0, 104.0, 99.0])).outliers, []);
        assert_eq!(finish(rows(&[100.0, 101.0, 1.0])).outliers, []);
    }
}

//! What a comparison needs of one run: how long each kind of operation took, in order.

use super::runs::Figures;
use super::{Lack, NoInterval, Run, RunRow, Side, STAMP_STEP};
use crate::completeness::MASKED;
use crate::environment;
use crate::executions::{Steps, Walk};
use crate::graphs::{without_rows, Shown};
use crate::interval::{Batches, Mean};
use crate::roles::roles;
use crate::statistics::middle;
use crate::streams::RankStreams;
use crate::time::Nanos;
use crate::Report;
use capture::live::{flag, part};
use std::collections::{BTreeMap, HashMap};
use tables::{Capture, Name, Process, Shape};

/// A kind within one run: role, function, datatype, bytes.
pub(super) type KindKey = (Option<usize>, Option<String>, Option<String>, Option<u64>);

/// All ranks' parts in one operation of a series.
#[derive(Clone, Copy, Debug, Default)]
struct Operation {
    gpu: (u64, u32),
    host: (u64, u32),
}

/// The operations of one kind on one communicator, in order.
#[derive(Clone, Debug, Default)]
struct Series {
    operations: Vec<Operation>,
    /// ns of calls that are not the first of their rank, GPU and host.
    values: [Vec<u64>; 2],
    /// ns of calls that are.
    first: [Vec<u64>; 2],
    /// Those of these that are not the first of their rank on the communicator.
    not_warmup: [Vec<u64>; 2],
}

/// What `Run` knows of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathered {
    pub(super) calls: u64,
    /// Number and ns of calls that were counted without rows, GPU and host.
    pub(super) summed: [(u64, u64); 2],
    pub(super) how: BTreeMap<String, u64>,
    series: Vec<Series>,
}

/// A kind's times of one source.
pub(super) struct Times {
    pub(super) side: Side,
    pub(super) mean: Option<Mean>,
    pub(super) no_interval: Option<NoInterval>,
}

pub(super) const SOURCES: [&str; 2] = ["gpu", "host"];

/// A step is of another kind if it has so many times the calls and the bytes: it holds several of the
/// other's.
const OTHER_STEP: f64 = 1.5;

impl Run {
    /// Whether a step of this run is what one of the other is, as far as is known. Fewer calls that move as
    /// many bytes are the same step with larger buckets.
    pub(super) fn has_steps_of(&self, other: &Run) -> bool {
        let Some((a, b)) = self.step_size.zip(other.step_size) else {
            return true;
        };
        let holds =
            |a: (f64, f64), b: (f64, f64)| a.0 >= OTHER_STEP * b.0 && a.1 >= OTHER_STEP * b.1;
        !holds(a, b) && !holds(b, a)
    }

    /// The same run, as one of the variant of this name.
    pub fn of_variant(self, name: Option<String>) -> Run {
        Run {
            variant: name,
            ..self
        }
    }

    /// Whether both are one recording, or copies of it.
    pub fn is_same_recording(&self, other: &Run) -> bool {
        !self.recorded_as.is_empty() && self.recorded_as == other.recorded_as
    }

    /// Where its capture is.
    pub fn capture(&self) -> &str {
        &self.row.capture
    }

    /// What a comparison needs of a capture.
    pub fn of(capture: &Capture) -> Run {
        let report = crate::report(capture);
        let (roles, role_of) = roles(capture);
        let job = &report.job;
        let mut recording: Vec<String> =
            job.mode.iter().map(|mode| format!("mode {mode}")).collect();
        recording.extend(job.timing.iter().map(|timing| format!("timing {timing}")));
        let kinds = gather(capture, &role_of);
        let replays_hidden = report.completeness.unseen.keys().any(|why| why != MASKED);
        let step_ns = report
            .steps
            .as_ref()
            .map_or(&[][..], |steps| &steps.times_ns);
        let step = mean_of(step_ns);
        Run {
            nsteps: step_ns.len(),
            step_size: step_size(&report),
            mostly_in_graphs: crate::summary::mostly_in_graphs(&report),
            in_windows: step
                .as_ref()
                .zip(report.streams.as_ref())
                .and_then(|(step, streams)| in_windows(&streams.ranks, Nanos(step.mean).us())),
            step,
            row: RunRow {
                capture: job.capture.clone(),
                command: job.command.clone(),
                started: job.started.clone(),
                nccl: job.nccl.clone(),
                njobs: job.jobs.len().max(1),
                nprocesses: job.nprocesses,
                nhosts: job.hosts.len(),
                recording,
                announced: report.completeness.announced,
                recorded: report.completeness.recorded,
                missing_at_least: report.completeness.missing_at_least,
                is_least: report.completeness.announced_is_lower_bound,
                incomplete: incomplete(&report),
                figures: Figures::of(&report),
                findings: report.findings.clone(),
            },
            variant: None,
            facts: environment::facts(capture),
            ids: capture.communicators.iter().map(|c| c.id.clone()).collect(),
            roles,
            kinds,
            recommendations: report.recommendations.clone(),
            replays_hidden,
            recorded_as: capture.processes.iter().filter_map(recorded_as).collect(),
            host_asked: report.times_exist && job.timing.iter().any(|timing| timing == "host"),
        }
    }
}

/// How long NCCL's kernels ran in a step of so many µs: the mean over ranks, and its interval. Those of one
/// rank add up, because computing beside them and nothing beside them are shares of the same windows.
fn in_windows(ranks: &[RankStreams], step_us: f64) -> Option<(f64, (f64, f64))> {
    let mut sum = (0.0, 0.0, 0.0);
    for rank in ranks {
        for share in [rank.beside, rank.exposed] {
            let (low, high) = share.interval?;
            sum = (sum.0 + share.share, sum.1 + low.max(0.0), sum.2 + high);
        }
    }
    let of = |sum: f64| sum / ranks.len() as f64 * step_us;
    (!ranks.is_empty()).then(|| (of(sum.0), (of(sum.1), of(sum.2))))
}

/// The mean of durations in order, if there are enough of them for an interval.
/// How many calls a step has, and how many bytes they move on a rank.
fn step_size(report: &Report) -> Option<(f64, f64)> {
    let steps = report.steps.as_ref()?;
    let calls = steps.calls?.median;
    let bytes = |of: &crate::operations::Operation| of.bytes.unwrap_or(0) as f64 * of.calls as f64;
    let all: f64 = report.operations.iter().map(bytes).sum();
    let ranks = report.ranks.rows.len() as f64;
    Some((calls, all / ranks / steps.steps?.median))
}

fn mean_of(ns: &[u64]) -> Option<Mean> {
    let mut batches = Batches::new(ns.len())?;
    for (index, each) in ns.iter().enumerate() {
        batches.add(index, ns.len(), *each as f64, 1.0);
    }
    batches.mean(1.0)
}

/// The name of a process's files, without what says in which form they are.
pub(crate) fn recorded_as(process: &Process) -> Option<String> {
    let name = process.file.file_name()?.to_str()?;
    let name = name.split('.').next().filter(|name| !name.is_empty())?;
    Some(name.to_owned())
}

fn incomplete(report: &Report) -> Vec<Lack> {
    let c = &report.completeness;
    let mut lacks: Vec<Lack> = c.absent.iter().cloned().map(Lack::Ranks).collect();
    for rank in c.ranks.iter().filter(|rank| rank.missing_at_least > 0) {
        lacks.push(Lack::Calls(rank.missing_at_least, rank.process.clone()));
    }
    let lost = c.lost.iter();
    lacks.extend(lost.map(|(cause, n)| Lack::Lost(*n, cause.clone())));
    lacks.extend(c.unseen.keys().cloned().map(Lack::NotCounted));
    // What another tool did not write is not known to be missing.
    if c.announced_is_lower_bound && lacks.is_empty() && !report.job.is_of_other_tool {
        lacks.push(Lack::LastCalls);
    }
    if !c.adds_up && lacks.is_empty() {
        lacks.push(Lack::Sum);
    }
    lacks
}

/// How a call was done, as one text.
fn how(capture: &Capture, shape: &Shape, in_pieces: bool) -> Option<String> {
    let names: Vec<&str> = [shape.algorithm, shape.protocol]
        .into_iter()
        .filter_map(|name| capture.names.get(name))
        .collect();
    let mut text = names.join("/");
    if shape.parts & part::COPY_ENGINE != 0 {
        "copy engines".clone_into(&mut text);
    }
    // Pieces have channels each.
    if !in_pieces && shape.parts & part::ENQUEUED != 0 && shape.nchannels > 0 {
        let comma = if text.is_empty() { "" } else { " " };
        text += &format!("{comma}{}ch", shape.nchannels);
    }
    (!text.is_empty()).then_some(text)
}

/// Numbers the series by communicator, function, datatype and bytes.
#[derive(Default)]
struct Numbers {
    series: HashMap<(Option<u32>, Name, Name, Option<u64>), usize>,
    gathered: Vec<Gathered>,
}

impl Numbers {
    fn of(&mut self, capture: &Capture, shape: &Shape, function: Name) -> usize {
        let bytes = capture.bytes_as(shape, function);
        let key = (shape.communicator, function, shape.datatype, bytes);
        let next = self.gathered.len();
        let number = *self.series.entry(key).or_insert(next);
        if number == next {
            self.gathered.push(Gathered {
                series: vec![Series::default()],
                ..Gathered::default()
            });
        }
        number
    }
}

/// A pass over all calls.
fn gather(capture: &Capture, role_of: &[usize]) -> BTreeMap<KindKey, Gathered> {
    let mut numbers = Numbers::default();
    for process in &capture.processes {
        rows(capture, process, &mut numbers);
        for total in &process.totals {
            let Some(shape) = process.shapes.get(total.shape as usize) else {
                continue;
            };
            if shape.is(flag::CAPTURED) {
                continue;
            }
            let number = numbers.of(capture, shape, shape.function);
            let gathered = &mut numbers.gathered[number];
            let calls = total.folded.saturating_add(total.rowless);
            gathered.calls = gathered.calls.saturating_add(calls);
            let host = total
                .host_ns
                .filter(|_| !shape.is(flag::REPLAY) && !shape.is(flag::LEGACY));
            let sums = [
                (total.timed, total.sum),
                host.map_or((0, 0), |sum| (total.folded, sum)),
            ];
            for (to, (n, sum)) in gathered.summed.iter_mut().zip(sums) {
                // Counters of a damaged live part may be anything.
                *to = (to.0.saturating_add(n), to.1.saturating_add(sum));
            }
            if let Some(how) = how(capture, shape, false) {
                *gathered.how.entry(how).or_insert(0) += calls;
            }
        }
        let mut shown = Shown::default();
        let shapes = process.calls.iter();
        let shapes = shapes.filter_map(|call| process.shapes.get(call.shape as usize));
        shapes
            .filter(|shape| shape.is(flag::REPLAY))
            .for_each(|shape| shown.add(shape));
        for (shape, calls) in without_rows(process, shown) {
            let shape = &process.shapes[shape as usize];
            let number = numbers.of(capture, shape, shape.function);
            let gathered = &mut numbers.gathered[number];
            gathered.calls = gathered.calls.saturating_add(calls);
        }
    }
    let mut kinds: BTreeMap<KindKey, Gathered> = BTreeMap::new();
    let mut ordered: Vec<_> = numbers.series.into_iter().collect();
    // By communicator, so that the order does not hang on the hash map.
    ordered.sort_unstable();
    for ((communicator, function, datatype, bytes), number) in ordered {
        let text = |name: Name| capture.names.get(name).map(str::to_owned);
        let role = communicator.and_then(|c| role_of.get(c as usize).copied());
        let kind = kinds
            .entry((role, text(function), text(datatype), bytes))
            .or_default();
        let gathered = std::mem::take(&mut numbers.gathered[number]);
        kind.calls = kind.calls.saturating_add(gathered.calls);
        for (to, from) in kind.summed.iter_mut().zip(gathered.summed) {
            *to = (to.0.saturating_add(from.0), to.1.saturating_add(from.1));
        }
        for (how, n) in gathered.how {
            *kind.how.entry(how).or_insert(0) += n;
        }
        kind.series.extend(gathered.series);
    }
    kinds
}

/// The rows of one process.
fn rows(capture: &Capture, process: &Process, numbers: &mut Numbers) {
    let walk = Walk::new(process);
    // Where the executions of each place go: a kind, and which of the ranks and communicators of this process
    // counts.
    let mut slots: HashMap<(usize, u32), usize> = HashMap::new();
    let mut of_place: Vec<Option<(usize, usize)>> = vec![None; walk.places().len()];
    let mut executions: Vec<u64> = vec![0; walk.places().len()];
    // The next operation at each slot.
    let mut next: Vec<usize> = Vec::new();
    walk.for_each(&mut Steps::default(), |execution| {
        if execution.captured {
            return;
        }
        let place = &walk.places()[execution.place];
        let (number, slot) = *of_place[execution.place].get_or_insert_with(|| {
            let number = numbers.of(capture, place.shape, place.function);
            let slot = *slots.entry((number, place.local)).or_insert(next.len());
            if slot == next.len() {
                next.push(0);
            }
            (number, slot)
        });
        executions[execution.place] += 1;
        let index = next[slot];
        next[slot] += 1;
        let series = &mut numbers.gathered[number].series[0];
        series.add(
            index,
            execution.warmup,
            execution.gpu.ok(),
            execution.host(),
        );
    });
    for (place, n) in executions.into_iter().enumerate() {
        let Some((number, _)) = of_place[place] else {
            continue;
        };
        let gathered = &mut numbers.gathered[number];
        gathered.calls += n;
        // The places of operations in pieces come after those of the shapes.
        let in_pieces = place >= process.shapes.len();
        if let Some(how) = how(capture, walk.places()[place].shape, in_pieces) {
            *gathered.how.entry(how).or_insert(0) += n;
        }
    }
}

impl Gathered {
    /// Number and sum of the compared calls: without the first of each rank in a series that has more.
    pub(super) fn compared(&self, source: usize) -> (u64, u128) {
        let (mut n, mut sum) = (self.summed[source].0, u128::from(self.summed[source].1));
        for series in &self.series {
            for values in series.parts(source) {
                n += values.len() as u64;
                sum += values.iter().map(|v| u128::from(*v)).sum::<u128>();
            }
        }
        (n, sum)
    }

    pub(super) fn times(&self, source: Option<usize>) -> Times {
        let mut side = Side {
            calls: self.calls,
            compared: 0,
            mean_us: None,
            p50_us: None,
            sum_us: None,
            how: self.how.clone(),
        };
        let Some(source) = source else {
            return Times {
                side,
                mean: None,
                no_interval: Some(NoInterval::TwoSources),
            };
        };
        let (n, sum) = self.compared(source);
        side.compared = n;
        side.mean_us = (n > 0).then(|| Nanos(sum as f64 / n as f64).us());
        if self.summed[source].0 == 0 {
            let values = self.series.iter().flat_map(|s| s.reported(source));
            let mut values: Vec<u64> = values.collect();
            values.sort_unstable();
            let upper = values.get(values.len() / 2);
            let lower = values.get(values.len().saturating_sub(1) / 2);
            let both = lower.zip(upper);
            side.p50_us = both.map(|(lower, upper)| middle(*lower, *upper));
        }
        let all = |values: &Series| -> u128 {
            let both = values.first[source].iter().chain(&values.values[source]);
            both.map(|v| u128::from(*v)).sum()
        };
        let all = self.series.iter().map(all).sum::<u128>() + u128::from(self.summed[source].1);
        side.sum_us = (n > 0).then(|| Nanos(all as f64).us());
        let (mean, no_interval) = match self.mean(source) {
            Ok(mean) => (Some(mean), None),
            Err(why) => (None, Some(why)),
        };
        Times {
            side,
            mean,
            no_interval,
        }
    }

    /// The mean with its error, in ns; or why there is none.
    pub(super) fn mean(&self, source: usize) -> Result<Mean, NoInterval> {
        if self.summed[source].0 > 0 {
            return Err(NoInterval::WithoutRows);
        }
        let longest = self
            .series
            .iter()
            .map(|s| s.operations.len().saturating_sub(1))
            .max();
        let mut batches = Batches::new(longest.unwrap_or(0)).ok_or(NoInterval::Few)?;
        for series in &self.series {
            let length = series.operations.len();
            let warm = usize::from(length > 1);
            for (index, operation) in series.operations.iter().enumerate().skip(warm) {
                let (sum, n) = [operation.gpu, operation.host][source];
                batches.add(index - warm, length - warm, sum as f64, f64::from(n));
            }
        }
        let step = if source == 0 { STAMP_STEP } else { 0.0 };
        batches.mean(step).ok_or(NoInterval::FewWithTime)
    }
}

impl Series {
    /// Adds a rank's part in operation `index`, ns.
    fn add(&mut self, index: usize, warmup: bool, gpu: Option<u64>, host: Option<u64>) {
        if self.operations.len() <= index {
            self.operations.resize(index + 1, Operation::default());
        }
        if index == 0 && !warmup {
            for (to, ns) in self.not_warmup.iter_mut().zip([gpu, host]) {
                to.extend(ns);
            }
        }
        let operation = &mut self.operations[index];
        let values = if index == 0 {
            &mut self.first
        } else {
            &mut self.values
        };
        for ((to, values), ns) in [&mut operation.gpu, &mut operation.host]
            .into_iter()
            .zip(values)
            .zip([gpu, host])
        {
            if let Some(ns) = ns {
                *to = (to.0.saturating_add(ns), to.1 + 1);
                values.push(ns);
            }
        }
    }

    /// The values that a report has percentiles of: without the first of each rank on the communicator.
    fn reported(&self, source: usize) -> impl Iterator<Item = u64> + '_ {
        let all = self.not_warmup[source].iter().chain(&self.values[source]);
        all.copied()
    }

    /// The compared values.
    fn parts(&self, source: usize) -> impl Iterator<Item = &Vec<u64>> {
        let alone = self.operations.len() == 1;
        let first = alone.then_some(&self.first[source]);
        first.into_iter().chain([&self.values[source]])
    }
}

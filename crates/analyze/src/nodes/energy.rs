//! The energy of the job's GPUs: in all, by phase, by step, and by what the time was spent on.
//!
//! Phases are start-up, steps, what lies between steps, and the end. They are those of the rank whose steps
//! the report shows, on the clock of the first host. Without steps, the phases are before, in and after the
//! calls.
//!
//! The split into computing, waiting and transfer is an estimate: the energy of each bucket of the timeline
//! goes by the shares of the time in it. The time in NCCL goes to waiting and transfer as it does in the
//! operations of which both are known. A GPU that waits in an NCCL kernel draws less than one that computes,
//! so the part of waiting is rather too large.
//!
//! Rule: a figure is of all GPUs that were sampled, each for as long as it was. Energy that a node's sampler
//! did not see is not guessed, so the phases add up to the energy of the run.

use crate::clocks::{ClockLine, Clocks};
use crate::series::Meter;
use crate::statistics::{spread, Spread};
use crate::steps::{Step, Steps, StepsRow};
use crate::time::{Moment, Nanos};
use crate::timeline::Timeline;
use schemars::JsonSchema;
use serde::Serialize;
use tables::{Capture, Node};

/// Steps that are shorter have no energy of their own: counters are read ten times a second.
const LEAST_STEP: Nanos = Nanos::SECOND;

/// The energy of the job's GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Energy {
    /// GPUs that were sampled. They may be more than the job used.
    pub gpus: u64,
    /// `counter`, if all GPUs have one, else `power`: their power, integrated.
    pub source: &'static str,
    /// From the first sample to the last, of the node with the longest time.
    pub time_s: f64,
    /// Joules in all, from launch to exit.
    pub energy_j: f64,
    /// Mean power of all GPUs together, watts.
    pub mean_w: f64,
    /// The same energy by the power, integrated, as a check; null if it was not read.
    pub integrated_j: Option<f64>,
    /// How much larger that is, as a share.
    pub gap: Option<f64>,
    /// What the job did when, in order.
    pub phases: Vec<Phase>,
    /// Energy of the steps; null without steps.
    pub step: Option<StepEnergy>,
    /// What the energy from the first call to the last was spent on: an estimate by time. Null without GPU
    /// times.
    pub split: Option<Split>,
    /// From the first call to the last: joules for each GB (1e9 bytes) of calls, over all ranks.
    pub energy_j_per_gb: Option<f64>,
}

/// A part of the run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "EnergyPhase")]
pub struct Phase {
    /// What the job did: `start-up`, `steps`, `between steps`, `end`; or `before calls`, `calls`, `after
    /// calls`.
    pub phase: &'static str,
    /// How long it took.
    pub time_s: f64,
    /// Energy of all GPUs together, joules.
    pub energy_j: f64,
    /// Mean power of all GPUs together, watts.
    pub mean_w: f64,
}

/// The energy of steps.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StepEnergy {
    /// Steps that were sampled.
    pub steps: u64,
    /// Mean of all, joules.
    pub mean_j: f64,
    /// One by one, if they take a second or more; else null.
    pub each_j: Option<Spread>,
}

/// An estimate of what energy was spent on, joules.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "EnergySplit")]
pub struct Split {
    /// No NCCL kernel ran: GPUs computed, copied, or were idle.
    pub computing_or_idle_j: f64,
    /// NCCL kernels waited for the last rank.
    pub waiting_j: f64,
    /// Operations ran after the last rank had arrived.
    pub transfer_j: f64,
    /// `transfer_j` for each GB (1e9 bytes) of calls; null without bytes.
    pub transfer_j_per_gb: Option<f64>,
}

/// The meters of one node, and its clock.
struct OfNode {
    meters: Vec<Meter>,
    line: ClockLine,
}

impl OfNode {
    /// When its GPUs were sampled, on the reference's clock.
    fn span(&self) -> Option<(Moment, Moment)> {
        let spans = self.meters.iter().filter_map(Meter::span);
        let (from, to) = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        let (from, to) = (self.line.on_reference(from), self.line.on_reference(to));
        // A clock's line is exact to some ns. What lies beyond the edges was not sampled.
        Some((from - Nanos::US, to + Nanos::US))
    }

    /// Joules that were sampled between two moments of the reference's clock.
    fn within(&self, from: Moment, to: Moment) -> f64 {
        let (from, to) = (self.line.on_host(from), self.line.on_host(to));
        self.meters.iter().map(|meter| meter.within(from, to)).sum()
    }

    /// Joules between two moments of the reference's clock, if all of its GPUs were sampled all the time.
    fn between(&self, from: Moment, to: Moment) -> Option<f64> {
        let (from, to) = (self.line.on_host(from), self.line.on_host(to));
        let joules: Vec<f64> = self
            .meters
            .iter()
            .filter_map(|meter| meter.between(from, to))
            .collect();
        (joules.len() == self.meters.len() && !joules.is_empty()).then(|| joules.iter().sum())
    }
}

/// The energy of all GPUs that were sampled; `None` if none was.
pub(super) fn energy(
    capture: &Capture,
    timeline: Option<&Timeline>,
    steps: Option<&Steps>,
    clocks: Option<&Clocks>,
) -> Option<Energy> {
    let of = |node: &Node| OfNode {
        meters: node
            .gpus()
            .filter_map(|(uuid, _)| Meter::of(node, uuid))
            .collect(),
        line: ClockLine::of(&node.host, clocks),
    };
    let nodes: Vec<OfNode> = capture.nodes.iter().map(of).collect();
    let nodes: Vec<OfNode> = nodes
        .into_iter()
        .filter(|node| !node.meters.is_empty())
        .collect();
    let meters = || nodes.iter().flat_map(|node| &node.meters);
    let all: Vec<(f64, Nanos)> = meters().filter_map(Meter::all).collect();
    let joules: f64 = all.iter().map(|(joules, _)| joules).sum();
    let seconds = all
        .iter()
        .map(|(_, time)| time.seconds())
        .fold(0.0, f64::max);
    if seconds <= 0.0 {
        return None;
    }
    let is_counter = meters().all(|meter| meter.is_counter);
    let integrated: Option<f64> = meters().map(Meter::integrated).sum();
    let spans = nodes.iter().filter_map(OfNode::span);
    let span = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let within =
        |from: Moment, to: Moment| -> f64 { nodes.iter().map(|node| node.within(from, to)).sum() };
    let between = |from: Moment, to: Moment| {
        nodes
            .iter()
            .map(|node| node.between(from, to))
            .sum::<Option<f64>>()
    };
    let row = steps.and_then(Steps::reference);
    let calls = timeline.map(|timeline| (timeline.edge(0), timeline.edge(timeline.buckets)));
    let parts = row
        .and_then(of_steps)
        .or_else(|| Some(vec![("calls", calls?.0, calls?.1)]));
    let phases = span.zip(parts).map_or(Vec::new(), |(span, parts)| {
        by_phase(span, &parts, row.is_some(), &within)
    });
    let split = timeline.and_then(|timeline| split(timeline, &within));
    let in_calls = calls.map(|(from, to)| within(from, to));
    let gb = timeline.and_then(Timeline::gb);
    Some(Energy {
        gpus: meters().count() as u64,
        source: if is_counter { "counter" } else { "power" },
        time_s: seconds,
        energy_j: joules,
        mean_w: joules / seconds,
        integrated_j: integrated,
        gap: integrated
            .filter(|_| is_counter && joules > 0.0)
            .map(|of| of / joules - 1.0),
        phases,
        step: row.and_then(|row| step_energy(row, &between)),
        split,
        energy_j_per_gb: in_calls
            .zip(gb)
            .filter(|(joules, gb)| *gb > 0.0 && *joules > 0.0)
            .map(|(joules, gb)| joules / gb),
    })
}

/// From the first call of steps that the GPU paces until the GPU has done them. A host that runs ahead makes
/// many steps at once, so its bounds of a step hold a part of the step's work, or the work of many.
fn on_gpu(row: &StepsRow) -> Option<(Moment, Moment)> {
    let first = Moment(row.each.iter().find_map(|step| step.start_ns)?);
    let length: Nanos = row.times_ns.iter().map(|ns| Nanos::from(*ns)).sum();
    (row.on_gpu && length > Nanos::ZERO).then(|| (first, first + length))
}

/// When a step began, and how long it took.
fn of_step(step: &Step) -> Option<(Moment, Nanos)> {
    Some((Moment(step.start_ns?), Nanos::from(step.time_ns?)))
}

/// The stretches of steps that follow each other, by name.
fn of_steps(row: &StepsRow) -> Option<Vec<(&'static str, Moment, Moment)>> {
    if let Some((start, end)) = on_gpu(row) {
        return Some(vec![("steps", start, end)]);
    }
    let mut parts: Vec<(&'static str, Moment, Moment)> = Vec::new();
    for step in &row.each {
        let Some((start, time)) = of_step(step) else {
            continue;
        };
        let end = start + time;
        match parts.last_mut() {
            Some(last) if (start - last.2).abs() < Nanos::MS => last.2 = end,
            Some(last) if start < last.2 => {}
            _ => parts.push(("steps", start, end)),
        }
    }
    (!parts.is_empty()).then_some(parts)
}

/// The phases of a run from `span.0` to `span.1`, of which `parts` are the main one.
fn by_phase(
    span: (Moment, Moment),
    parts: &[(&'static str, Moment, Moment)],
    has_steps: bool,
    within: &impl Fn(Moment, Moment) -> f64,
) -> Vec<Phase> {
    let [before, middle, after] = if has_steps {
        ["start-up", "between steps", "end"]
    } else {
        ["before calls", "between calls", "after calls"]
    };
    let name = parts.first().map_or("", |part| part.0);
    let mut sums = [before, name, middle, after].map(|phase| (phase, 0.0, 0.0));
    let mut add = |place: usize, from: Moment, to: Moment| {
        let (from, to) = (from.clamp(span.0, span.1), to.clamp(span.0, span.1));
        if to > from {
            sums[place].1 += (to - from).seconds();
            sums[place].2 += within(from, to);
        }
    };
    let mut at = span.0;
    for (index, (_, from, to)) in parts.iter().enumerate() {
        add(if index == 0 { 0 } else { 2 }, at, *from);
        add(1, *from, *to);
        at = *to;
    }
    add(3, at, span.1);
    let phase = |(phase, seconds, joules): (&'static str, f64, f64)| Phase {
        phase,
        time_s: seconds,
        energy_j: joules,
        mean_w: joules / seconds,
    };
    sums.into_iter()
        .filter(|sum| sum.1 > 0.0)
        .map(phase)
        .collect()
}

fn step_energy(
    row: &StepsRow,
    between: &impl Fn(Moment, Moment) -> Option<f64>,
) -> Option<StepEnergy> {
    if let Some((start, end)) = on_gpu(row) {
        let steps = row.times_ns.len();
        return Some(StepEnergy {
            steps: steps as u64,
            mean_j: between(start, end)? / steps as f64,
            each_j: None,
        });
    }
    let steps = row.each.iter().filter_map(|step| {
        let (start, time) = of_step(step)?;
        between(start, start + time).map(|joules| (joules, time))
    });
    let steps: Vec<(f64, Nanos)> = steps.collect();
    let long = steps.iter().all(|(_, time)| *time >= LEAST_STEP);
    let joules = || steps.iter().map(|(joules, _)| *joules);
    (!steps.is_empty()).then(|| StepEnergy {
        steps: steps.len() as u64,
        mean_j: joules().sum::<f64>() / steps.len() as f64,
        each_j: long
            .then(|| spread(&joules().map(Some).collect::<Vec<_>>()))
            .flatten(),
    })
}

/// The energy of each bucket by the shares of the time in it.
fn split(timeline: &Timeline, within: &impl Fn(Moment, Moment) -> f64) -> Option<Split> {
    let (waiting, transfer) = timeline.waiting.as_ref().zip(timeline.transfer.as_ref())?;
    let in_nccl = timeline.nccl.as_ref()?;
    let in_all = timeline.ranks as f64 * timeline.bucket_us;
    let waits = |waiting: f64, transfer: f64| {
        let both = waiting + transfer;
        (both > 0.0).then(|| waiting / both)
    };
    let usual = waits(waiting.sum.iter().sum(), transfer.sum.iter().sum())?;
    let mut parts = [0.0; 3];
    for bucket in 0..timeline.buckets as usize {
        let [begin, end] = [bucket, bucket + 1].map(|bucket| timeline.edge(bucket as u64));
        let joules = within(begin, end);
        let nccl = (in_nccl.sum[bucket] / in_all).clamp(0.0, 1.0);
        let waits = waits(waiting.sum[bucket], transfer.sum[bucket]).unwrap_or(usual);
        let shares = [1.0 - nccl, nccl * waits, nccl * (1.0 - waits)];
        for (part, share) in parts.iter_mut().zip(shares) {
            *part += share * joules;
        }
    }
    let [computing_or_idle_j, waiting_j, transfer_j] = parts;
    (parts.iter().sum::<f64>() > 0.0).then(|| Split {
        computing_or_idle_j,
        waiting_j,
        transfer_j,
        transfer_j_per_gb: timeline
            .gb()
            .filter(|gb| *gb > 0.0)
            .map(|gb| transfer_j / gb),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::ProcessId;
    use crate::timeline::Curve;

    const S: i64 = 1_000_000_000;

    /// So many seconds after 1970 began.
    fn at(seconds: i64) -> Moment {
        Moment(seconds * S)
    }

    /// Joules of a GPU that always draws 100 W.
    fn hundred_watts(from: Moment, to: Moment) -> f64 {
        (to - from).seconds() * 100.0
    }

    /// A host with GPUs that draw 100 W each, and were sampled every 100 ms in these spans.
    fn node(host: &str, gpus: &[(i64, i64)]) -> Node {
        let mut node = Node {
            host: host.to_owned(),
            ..Node::default()
        };
        for (index, (from, to)) in gpus.iter().enumerate() {
            let uuid = format!("GPU-{host}-{index}");
            let points = (*from..=*to).step_by(S as usize / 10);
            node.facts.insert(format!("gpu.{index}"), uuid.clone());
            node.series.push(tables::nodes::Series {
                name: capture::samples::GPU_ENERGY.to_owned(),
                of: uuid,
                points: points.map(|at| (at, (at / 10_000) as u64)).collect(),
            });
        }
        node
    }

    #[test]
    fn phases_add_up_to_the_run_whatever_was_sampled_for_how_long() {
        // Samplers begin at other times, a GPU falls off its bus, and another is seen again later.
        let capture = Capture {
            nodes: vec![
                node("a", &[(0, 20 * S), (0, 7 * S)]),
                node("b", &[(3 * S, 25 * S), (12 * S, 25 * S)]),
            ],
            ..Capture::default()
        };
        let timeline = Timeline {
            begin_ns: 2 * S,
            buckets: 16,
            bucket_us: 1e6,
            ranks: 4,
            nccl: Some(Curve {
                sum: vec![1e6; 16],
                ..Curve::default()
            }),
            waiting: Some(Curve {
                sum: vec![1e6; 16],
                ..Curve::default()
            }),
            transfer: Some(Curve {
                sum: vec![1e6; 16],
                ..Curve::default()
            }),
            bytes: Some(Curve {
                sum: vec![1e9; 16],
                ..Curve::default()
            }),
            ..crate::timeline::empty()
        };
        let energy = energy(&capture, Some(&timeline), None, None).expect("counters");
        let near = |a: f64, b: f64| (a - b).abs() < 1e-3;
        let all = 100.0 * (20.0 + 7.0 + 22.0 + 13.0);
        assert!(near(energy.energy_j, all), "{energy:#?}");
        let sum: f64 = energy.phases.iter().map(|phase| phase.energy_j).sum();
        assert!(near(sum, all), "{energy:#?}");
        // From 2 s to 18 s.
        let in_calls = 100.0 * (16.0 + 5.0 + 15.0 + 6.0);
        let split = energy.split.expect("GPU times");
        let parts = split.computing_or_idle_j + split.waiting_j + split.transfer_j;
        assert!(near(parts, in_calls), "{split:?}");
        assert!(near(energy.energy_j_per_gb.unwrap_or(0.0), in_calls / 16.0));
    }

    #[test]
    fn phases_are_all_of_the_run() {
        let parts = [("steps", at(2), at(5)), ("steps", at(6), at(8))];
        let phases = by_phase((at(0), at(10)), &parts, true, &hundred_watts);
        let found: Vec<_> = phases
            .iter()
            .map(|p| (p.phase, p.time_s, p.energy_j))
            .collect();
        let expected = [
            ("start-up", 2.0, 200.0),
            ("steps", 5.0, 500.0),
            ("between steps", 1.0, 100.0),
            ("end", 2.0, 200.0),
        ];
        assert_eq!(found, expected);
        // The sampler began after the first steps.
        let phases = by_phase((at(3), at(7)), &parts, true, &hundred_watts);
        let seconds: f64 = phases.iter().map(|phase| phase.time_s).sum();
        assert_eq!((phases[0].phase, seconds), ("steps", 4.0));
    }

    #[test]
    fn a_step_that_the_gpu_paces_has_the_energy_of_its_work() {
        // The host makes 101 steps within 1 ms, and the GPU works on them for 10 s.
        let step = |n: i64| crate::steps::Step {
            start_ns: Some(2 * S + n * 10_000),
            time_ns: Some(10_000),
            communication_ns: None,
            end_ns: None,
        };
        let row = StepsRow {
            process: ProcessId {
                rank: Some(0),
                host: "a".to_owned(),
                pid: 1,
            },

            source: Default::default(),
            steps: 101,
            calls: 1,
            equal_parts: 1,
            times_repeat: 1,
            calls_beyond: 0,
            step_us: None,
            communication_us: None,
            startup_us: None,
            between_us: None,
            each: (0..101).map(step).collect(),
            times_ns: vec![S as u64 / 10; 100],
            on_gpu: true,
        };
        let between = |from, to| Some(hundred_watts(from, to));
        let found = step_energy(&row, &between).expect("sampled");
        assert_eq!((found.steps, found.mean_j), (100, 10.0));
        assert_eq!(of_steps(&row), Some(vec![("steps", at(2), at(12))]));
    }

    #[test]
    fn energy_goes_by_the_shares_of_the_time() {
        let curve = |sum: [f64; 2]| Curve {
            sum: sum.to_vec(),
            ..Curve::default()
        };
        // Two ranks, two buckets of 1 s: in the first half of the time is NCCL.
        let timeline = Timeline {
            buckets: 2,
            bucket_us: 1e6,
            ranks: 2,
            nccl: Some(curve([1e6, 0.0])),
            waiting: Some(curve([0.75e6, 0.0])),
            transfer: Some(curve([0.25e6, 0.0])),
            bytes: Some(curve([5e8, 5e8])),
            ..crate::timeline::empty()
        };
        let split = split(&timeline, &hundred_watts).expect("GPU times");
        let parts = [split.computing_or_idle_j, split.waiting_j, split.transfer_j];
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(
            parts
                .iter()
                .zip([150.0, 37.5, 12.5])
                .all(|(a, b)| near(*a, b)),
            "{parts:?}"
        );
        assert!(near(split.transfer_j_per_gb.unwrap_or(0.0), 12.5));
    }
}

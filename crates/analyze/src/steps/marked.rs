//! Steps and phases that the program marked itself.
//!
//! [`Gatherer::marked`] puts the calls of a process into its steps, by the time at which the host made them;
//! [`Gatherer::phases`] into its phases. Nothing is inferred: a step is what the program says.
//!
//! Rule: a step lasts until the next one begins, as a program's own log counts, unless a phase lies between
//! the two. Then it lasts until its own end.

use super::{busy, steps_apart, Gatherer, Item, Step, StepSource, StepsRow, Times};
use crate::statistics::Sample;
use crate::statistics::{spread, Spread};
use crate::subject::ProcessId;
use crate::time::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use tables::marks::{MarkedPhase, MarkedStep};
use tables::Process;

/// A phase that the program marked, over all ranks.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Phase")]
pub struct PhaseRow {
    /// The program's name.
    pub name: String,
    /// How often a rank was in the phase.
    pub visits: Option<Spread>,
    /// Time that a rank spent in the phase, in all, µs.
    pub time_us: Option<Spread>,
    /// NCCL calls of a rank in it.
    pub calls: Option<Spread>,
    /// Time of a rank's GPU in NCCL kernels in the phase, waiting included, µs. Null if a call in it has no
    /// GPU time.
    pub communication_us: Option<Spread>,
    /// The rank that spent most time in the phase.
    pub longest_rank: Option<u32>,
}

/// A phase of one process.
#[derive(Clone, Debug)]
pub struct OfProcess {
    rank: Option<u32>,
    name: String,
    visits: u64,
    ns: u64,
    calls: u64,
    communication_ns: Option<u64>,
}

impl Gatherer {
    /// When the host first and last did something here that is known; `None` if no time is known.
    fn span(&self, process: &Process) -> Option<(i64, i64)> {
        let launches = process.graphs.launches.iter().map(|launch| launch.at);
        let items = self.items.iter().map(|item| item.time).filter(|t| *t != 0);
        let all = || launches.clone().chain(items.clone());
        Some((all().min()?, all().max()?))
    }

    /// The steps that the program of `process` marked, as far as they lie where calls are known; `None` if
    /// there are not two.
    pub(super) fn marked(&self, process: &Process) -> Option<StepsRow> {
        let (first, last) = self.span(process)?;
        let marks = &process.marks;
        let steps = marks.steps.iter();
        let steps = steps.filter(|step| step.to >= first && step.from <= last);
        let steps: Vec<MarkedStep> = steps.copied().collect();
        if steps.len() < 2 {
            return None;
        }
        let is_parted = |step: &MarkedStep, next: &MarkedStep| {
            let after = marks.phases.partition_point(|phase| phase.from < step.to);
            marks
                .phases
                .get(after)
                .is_some_and(|phase| phase.from < next.from)
        };
        let ends: Vec<(i64, bool)> = (0..steps.len())
            .map(|at| match steps.get(at + 1) {
                Some(next) if !is_parted(&steps[at], next) => (next.from, true),
                _ => (steps[at].to, false),
            })
            .collect();
        let mut within: Vec<Vec<Item>> = vec![Vec::new(); steps.len()];
        for item in self.items.iter().filter(|item| item.time != 0) {
            let after = steps.partition_point(|step| step.from <= item.time);
            let Some(at) = after.checked_sub(1) else {
                continue;
            };
            if item.time < ends[at].0 {
                within[at].push(*item);
            }
        }
        let mut communication = Sample::default();
        let (mut times, mut each) = (Times::default(), Vec::new());
        for (at, step) in steps.iter().enumerate() {
            let (end, follows) = ends[at];
            let ns = end.abs_diff(step.from);
            let of_step = &within[at];
            let busy = busy(of_step).filter(|_| !of_step.is_empty());
            if let Some(ns) = busy {
                communication.push(ns);
            }
            let stop = of_step.iter().map(|item| item.kernel.1).max();
            if follows && within[at + 1].len() == of_step.len() {
                times.add(ns, steps_apart(of_step, &within[at + 1]));
            } else {
                times.add(ns, None);
                times.begin_anew();
            }
            each.push(Step {
                start_ns: Some(step.from),
                time_ns: Some(ns),
                communication_ns: busy,
                end_ns: stop.filter(|_| busy.is_some()),
            });
        }
        let mut calls: Vec<u64> = within.iter().map(|items| items.len() as u64).collect();
        calls.sort_unstable();
        let between = steps.windows(2).zip(&ends);
        let between = between.map(|(pair, (end, _))| Nanos::from(pair[1].from.abs_diff(*end)).us());
        let (times_ns, step_us, on_gpu) = times.finish();
        Some(StepsRow {
            process: ProcessId::of(process),
            source: StepSource::Program,
            steps: steps.len() as u64,
            calls: calls[calls.len() / 2],
            equal_parts: 1,
            times_repeat: 1,
            calls_beyond: self.beyond,
            step_us,
            communication_us: communication.statistics(),
            startup_us: Some(Nanos::from((steps[0].from - first).max(0)).us()),
            between_us: Some(between.fold(0.0, |a, b| a + b)),
            each,
            times_ns,
            on_gpu,
        })
    }

    /// The phases that the program of `process` marked.
    pub fn phases(&self, process: &Process) -> Vec<OfProcess> {
        let marks = &process.marks;
        let all = marks.names.iter().enumerate().map(|(number, name)| {
            let of = marks
                .phases
                .iter()
                .filter(|phase| usize::from(phase.name) == number);
            let of = united(of);
            let is_in = |item: &&Item| {
                let after = of.partition_point(|(from, _)| *from <= item.time);
                after.checked_sub(1).is_some_and(|at| item.time < of[at].1)
            };
            let items: Vec<Item> = self.items.iter().filter(is_in).copied().collect();
            let visits = marks
                .phases
                .iter()
                .filter(|p| usize::from(p.name) == number);
            OfProcess {
                rank: process.rank,
                name: name.clone(),
                visits: visits.count() as u64,
                ns: of.iter().map(|(from, to)| to.abs_diff(*from)).sum(),
                calls: items.len() as u64,
                communication_ns: busy(&items).filter(|_| !items.is_empty()),
            }
        });
        all.collect()
    }
}

/// What these phases cover, in order; phases of one name may nest.
fn united<'a>(phases: impl Iterator<Item = &'a MarkedPhase>) -> Vec<(i64, i64)> {
    let mut all: Vec<(i64, i64)> = Vec::new();
    for phase in phases {
        match all.last_mut() {
            Some((_, to)) if phase.from <= *to => *to = (*to).max(phase.to),
            _ => all.push((phase.from, phase.to)),
        }
    }
    all
}

/// Puts the phases of all processes together, those with the largest median time first.
pub fn finish(all: Vec<OfProcess>) -> Vec<PhaseRow> {
    let mut by_name: BTreeMap<String, Vec<OfProcess>> = BTreeMap::new();
    for of in all {
        by_name.entry(of.name.clone()).or_default().push(of);
    }
    let rows = by_name.into_iter().map(|(name, of)| {
        let over = |figure: fn(&OfProcess) -> Option<f64>| {
            let figures: Vec<Option<f64>> = of.iter().map(figure).collect();
            spread(&figures)
        };
        // Of equals the first.
        let longest = of.iter().rev().max_by_key(|of| of.ns);
        PhaseRow {
            visits: over(|of| Some(of.visits as f64)),
            time_us: over(|of| Some(Nanos::from(of.ns).us())),
            calls: over(|of| Some(of.calls as f64)),
            communication_us: over(|of| Some(Nanos::from(of.communication_ns?).us())),
            longest_rank: longest.and_then(|of| of.rank),
            name,
        }
    });
    let mut rows: Vec<PhaseRow> = rows.collect();
    let median = |row: &PhaseRow| row.time_us.map_or(0.0, |of| of.median);
    rows.sort_by(|a, b| median(b).total_cmp(&median(a)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use tables::marks::Marks;

    const MS: i64 = 1_000_000;

    /// A process with calls at these times, and these marks.
    fn steps(calls: &[i64], steps: &[(i64, i64)], phases: &[(i64, i64)]) -> (Gatherer, Process) {
        let item = |at: &i64| Item {
            symbol: 0,
            kind: 0,
            time: at * MS,
            kernel: (*at as u64 * 1_000_000, *at as u64 * 1_000_000 + 250_000),
        };
        let gatherer = Gatherer {
            items: calls.iter().map(item).collect(),
            ..Gatherer::default()
        };
        let marks = Marks {
            steps: steps
                .iter()
                .enumerate()
                .map(|(number, (from, to))| MarkedStep {
                    from: from * MS,
                    to: to * MS,
                    number: number as i64,
                })
                .collect(),
            phases: phases
                .iter()
                .map(|(from, to)| MarkedPhase {
                    from: from * MS,
                    to: to * MS,
                    name: 0,
                })
                .collect(),
            names: vec!["eval".into()],
            dropped: 0,
            origin: None,
        };
        let process = Process {
            marks,
            rank: Some(3),
            ..Process::default()
        };
        (gatherer, process)
    }

    #[test]
    fn a_step_lasts_until_the_next_or_a_phase() {
        // Ten for each step: three calls, and then a loader; between the second and third is an evaluation.
        let (gatherer, process) = steps(
            &[100, 103, 104, 110, 112, 121, 130, 131],
            &[(100, 107), (110, 117), (130, 139)],
            &[(118, 128)],
        );
        let row = gatherer.marked(&process).expect("marked");
        assert_eq!(row.source, StepSource::Program);
        assert_eq!(row.times_ns, [10, 7, 9].map(|ms| ms * 1_000_000));
        assert_eq!((row.steps, row.calls), (3, 2));
        assert_eq!(row.each[0].communication_ns, Some(750_000));
        assert_eq!(row.between_us, Some(13_000.0));
        let phases = finish(gatherer.phases(&process));
        let only = |of: Option<Spread>| of.map(|of| (of.n, of.median));
        assert_eq!(phases.len(), 1);
        assert_eq!(only(phases[0].time_us), Some((1, 10_000.0)));
        assert_eq!(only(phases[0].calls), Some((1, 1.0)));
        assert_eq!(only(phases[0].communication_us), Some((1, 250.0)));
        assert_eq!(phases[0].longest_rank, Some(3));
    }

    #[test]
    fn steps_where_no_call_is_known_are_left_out() {
        // The older half of the calls is not read.
        let (gatherer, process) = steps(
            &[130, 140],
            &[(100, 110), (110, 120), (125, 135), (135, 145)],
            &[],
        );
        let row = gatherer.marked(&process).expect("marked");
        assert_eq!(row.steps, 2);
        let (gatherer, process) = steps(&[130, 140], &[(125, 135)], &[]);
        assert!(gatherer.marked(&process).is_none());
        let (gatherer, process) = steps(&[], &[(125, 135), (135, 140)], &[]);
        assert!(gatherer.marked(&process).is_none());
    }
}

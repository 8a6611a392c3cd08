//! The waits that the viewer goes to, longest first.
//!
//! If the first finding blames ranks, these are the waits for them; if the job stood still, the calls that
//! did not end. Kernels in graphs have no calls: there it is the wait of the typical step.
//!
//! Rule: nothing of the start-up is among them, and nothing after the last step, unless there is nothing
//! else. Connections are made and kernels loaded in the first, and what ends a run is no sign of it.

use super::{Slice, SliceKind};
use crate::timeline::{Span, Timeline};
use analyze::findings::{Finding, Kind};
use analyze::steps::StepsRow;
use analyze::Report;
use std::cmp::Reverse;
use std::collections::HashSet;

/// Waits are gone through up to this many.
const MOST_WORST: usize = 1000;
/// A wait that is longer than so many median steps is a stall, and no sign of what happens in each step.
const STALL: f64 = 1.5;

/// Indexes of slices that waited. `typical` is the longest wait of a typical step, and its process.
pub(super) fn worst(
    timeline: &Timeline<'_>,
    report: &Report,
    seen: &[Slice],
    by_operation: &[u32],
    typical: Option<(usize, Span)>,
) -> Vec<u32> {
    let longest = |mut of: Vec<u32>, length: &dyn Fn(&Slice) -> i64| {
        of.sort_by_key(|index| Reverse(length(&seen[*index as usize])));
        of.truncate(MOST_WORST);
        of
    };
    let indexes = || 0..seen.len() as u32;
    let of = |index: &u32| &seen[*index as usize];
    let first = report.findings.first();
    let blamed = blamed(timeline, first);
    let open: Vec<u32> = indexes()
        .filter(|index| of(index).kind == SliceKind::Open)
        .collect();
    let waits_for_blamed = |index: &u32| !blamed.contains(&(of(index).process as usize));
    if first.is_some_and(|first| first.kind().is_broken()) {
        let waiting: Vec<u32> = open.iter().copied().filter(waits_for_blamed).collect();
        if !waiting.is_empty() {
            return longest(waiting, &Slice::length_ns);
        }
    }
    // A kernel waits in its call.
    let all: Vec<u32> = indexes()
        .filter(|index| of(index).kind.is_call() && of(index).waited_ns() > 0)
        .collect();
    let steps = Steps::of(timeline, report);
    let within: Vec<u32> = all
        .iter()
        .copied()
        .filter(|index| steps.have(of(index)))
        .collect();
    let habit = first.is_some_and(|of| of.kind() == Kind::LateRank);
    if !blamed.is_empty() {
        let held_up = held_up(seen, by_operation, &blamed);
        let of_finding: Vec<u32> = within
            .iter()
            .copied()
            .filter(|index| held_up.contains(&of(index).operation))
            .collect();
        let usual: Vec<u32> = of_finding
            .iter()
            .copied()
            .filter(|index| habit && !steps.is_stall(of(index).waited_ns()))
            .collect();
        // Kernels in graphs have no calls: what calls show of such a job is the smaller part.
        let in_step = typical.filter(|(_, wait)| {
            let longest = [&usual, &of_finding].into_iter().find(|of| !of.is_empty());
            let longest = longest.and_then(|all| all.iter().map(|i| of(i).waited_ns()).max());
            longest.is_none_or(|longest| wait.end - wait.begin > longest)
        });
        let in_step = in_step.and_then(|wait| kernel(seen, wait));
        for found in [usual, of_finding] {
            if !found.is_empty() {
                let calls = longest(found, &Slice::waited_ns);
                let calls = calls.into_iter().filter(|call| Some(*call) != in_step);
                return in_step.into_iter().chain(calls).collect();
            }
        }
        if let Some(kernel) = in_step {
            return vec![kernel];
        }
    }
    for found in [within, all] {
        if !found.is_empty() {
            return longest(found, &Slice::waited_ns);
        }
    }
    match typical.and_then(|wait| kernel(seen, wait)) {
        Some(kernel) => vec![kernel],
        None => longest(open, &Slice::length_ns),
    }
}

/// The processes that the first finding blames for what others wait for.
fn blamed(timeline: &Timeline<'_>, first: Option<&Finding>) -> HashSet<usize> {
    let first = first.filter(|first| {
        matches!(first.kind(), Kind::LateRank | Kind::Stall) || first.kind().is_broken()
    });
    let ranks = first.map_or(&[][..], |first| &first.subject.ranks);
    let processes = timeline.capture().processes.iter().enumerate();
    let is_blamed = |process: &tables::Process| {
        let mut ranks = ranks.iter();
        ranks.any(|id| (id.process.pid, &id.process.host) == (process.pid, &process.host))
    };
    processes
        .filter(|(_, process)| is_blamed(process))
        .map(|(index, _)| index)
        .collect()
}

/// Operations in which one of these came last.
fn held_up(seen: &[Slice], by_operation: &[u32], blamed: &HashSet<usize>) -> HashSet<u32> {
    let of = |index: &u32| &seen[*index as usize];
    let operations = by_operation.chunk_by(|a, b| of(a).operation == of(b).operation);
    let last = operations.filter_map(|parts| {
        // All ranks end together, so the shortest came last.
        let last = parts.iter().map(of).min_by_key(|part| part.length_ns())?;
        blamed
            .contains(&(last.process as usize))
            .then_some(last.operation)
    });
    last.collect()
}

/// The kernel of NCCL in which a process waited then.
fn kernel(seen: &[Slice], (process, wait): (usize, Span)) -> Option<u32> {
    let until = seen.partition_point(|seen| seen.span.begin < wait.end);
    let mut before = (0..until as u32).rev();
    before.find(|index| {
        let seen = &seen[*index as usize];
        let communicates = matches!(seen.kind, SliceKind::Communicates | SliceKind::Timed);
        communicates && seen.process as usize == process && seen.span.end >= wait.end
    })
}

/// When the steps of the processes are.
struct Steps<'a> {
    timeline: &'a Timeline<'a>,
    /// By process, from when to when on its host's clock; `None` if its steps are not known.
    of: Vec<Option<Span>>,
    /// A median step, ns.
    usual_ns: Option<f64>,
}

impl<'a> Steps<'a> {
    fn of(timeline: &'a Timeline<'a>, report: &Report) -> Steps<'a> {
        let skipped = report.account.as_ref().map_or(0, |account| account.skipped) as usize;
        let usual_ns = |row: &StepsRow| Some(1e3 * row.step_us.as_ref()?.p50?);
        let span = |process: &tables::Process| {
            let row = report.steps.as_ref()?.row_of(&process.host, process.pid)?;
            let begin = row.each.get(skipped)?.start_ns?;
            let last = row.each.last()?;
            let length = last.time_ns.map(|ns| ns as i64);
            let length = length.or_else(|| Some(usual_ns(row)? as i64));
            Some(Span {
                begin,
                end: last.start_ns?.saturating_add(length?),
            })
        };
        let reference = report.steps.as_ref().and_then(|steps| steps.reference());
        Steps {
            timeline,
            of: timeline.capture().processes.iter().map(span).collect(),
            usual_ns: reference.and_then(usual_ns),
        }
    }

    /// Whether a call was made in a step. Of a process without steps, all are.
    fn have(&self, seen: &Slice) -> bool {
        let process = seen.process as usize;
        let Some(steps) = self.of[process] else {
            return true;
        };
        let calls = &self.timeline.capture().processes[process].calls;
        let call = calls.binary_search_by_key(&seen.number, |call| call.ticket);
        // GPUs come to it later.
        let made = call.map_or(0, |at| calls[at].api_ns);
        made != 0 && (steps.begin..steps.end).contains(&made)
    }

    fn is_stall(&self, waited_ns: i64) -> bool {
        self.usual_ns
            .is_some_and(|usual| waited_ns as f64 > STALL * usual)
    }
}

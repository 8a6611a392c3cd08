//! Parts of a run: a capture of which only some spans of time are kept.
//!
//! All that is asked of a whole capture can be asked of such a one. Calls that are left out stay counted
//! ([`Process::forgotten`]), so whether the recording is complete is still said of all of the run.
//!
//! Rule: what is kept began in a span. What has no time of its own (totals of calls without rows) is left
//! out.
//!
//! [`Process::forgotten`]: crate::Process::forgotten

use crate::tail;
use crate::windows::Window;
use crate::{Call, Capture, Process};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Spans of time, ns since 1970.
pub type Spans = Vec<Range<i64>>;

/// Leaves out what is in none of these spans, by process.
pub fn keep(capture: &mut Capture, spans: &[Spans]) {
    let spans: Vec<Spans> = spans.iter().map(|spans| united(spans)).collect();
    for (process, spans) in capture.processes.iter_mut().zip(&spans) {
        let is_in = |at: i64| around(spans, at).is_some();
        calls(process, &is_in);
        graphs(process, &is_in);
        process
            .windows
            .list
            .retain_mut(|window| clip(window, spans));
        mpi(process, &is_in);
        process.marks.steps.retain(|step| is_in(step.from));
        process.marks.phases.retain(|phase| is_in(phase.from));
    }
    let all = || spans.iter().flatten();
    let first = capture.processes.iter().filter_map(|of| of.calls.first());
    // No communicator is seen before the first call.
    let seen = first.map(began).min();
    for of in &mut capture.communicators {
        of.created_ns = of.created_ns.zip(seen).map(|(at, seen)| at.max(seen));
    }
    let begins = all().map(|span| span.start).min();
    let ends = all().map(|span| span.end).max();
    let whole = begins.unwrap_or(i64::MIN)..ends.unwrap_or(i64::MAX);
    for node in &mut capture.nodes {
        node.keep(&whole);
    }
    let seen = &mut capture.sightings;
    seen.retain(|sighting| whole.contains(&sighting.at_ns));
}

/// These spans in order, those that overlap as one, and without empty ones.
fn united(spans: &[Range<i64>]) -> Spans {
    let mut sorted: Vec<&Range<i64>> = spans.iter().filter(|span| !span.is_empty()).collect();
    sorted.sort_unstable_by_key(|span| span.start);
    let mut united: Spans = Vec::new();
    for span in sorted {
        match united.last_mut().filter(|last| span.start <= last.end) {
            Some(last) => last.end = last.end.max(span.end),
            None => united.push(span.clone()),
        }
    }
    united
}

/// The one of these spans, which are in order, that a moment is in.
fn around(spans: &[Range<i64>], at: i64) -> Option<&Range<i64>> {
    let next = spans.partition_point(|span| span.start <= at);
    let span = spans.get(next.checked_sub(1)?)?;
    span.contains(&at).then_some(span)
}

/// When each process made the first collective of the largest communicator that `process` made at or after a
/// moment, and the ranks that are not in it when the first of the others did. `None` if there is no such
/// collective, or if some rank did not make it.
pub fn together(capture: &Capture, process: usize, from_ns: i64) -> Option<Vec<i64>> {
    let communicator = tail::largest(capture)?;
    let of = capture.processes.get(process)?;
    let key = |process: &Process, call: &Call| {
        Some((tail::counted(process, call, communicator)?, call.seq))
    };
    let later = of.calls.iter().filter(|call| call.api_ns >= from_ns);
    let first = later.filter_map(|call| key(of, call)).next()?;
    let made = |process: &Process| {
        let mut calls = process.calls.iter();
        let found = calls.find(|call| key(process, call) == Some(first));
        found.map(|call| call.api_ns)
    };
    let members = &capture.communicators.get(communicator as usize)?.members;
    let members: BTreeSet<usize> = members.iter().map(|member| member.process).collect();
    let all = capture.processes.iter().enumerate();
    let all: Vec<(bool, Option<i64>)> = all
        .map(|(at, process)| (members.contains(&at), made(process)))
        .collect();
    if all.iter().any(|(is_member, at)| *is_member && at.is_none()) {
        return None;
    }
    let first = all.iter().filter_map(|(_, at)| *at).min()?;
    Some(all.into_iter().map(|(_, at)| at.unwrap_or(first)).collect())
}

/// Leaves out the calls of collectives that some rank made before what is kept, so that all ranks begin with
/// the same one on each communicator.
pub fn begin_together(capture: &mut Capture) {
    let key = |process: &Process, call: &Call| {
        let communicator = process.shapes.get(call.shape as usize)?.communicator?;
        Some((communicator, tail::counted(process, call, communicator)?))
    };
    // By communicator and function: the highest of the numbers with which ranks begin.
    let mut first = BTreeMap::new();
    for process in &capture.processes {
        let mut own = BTreeMap::new();
        for call in &process.calls {
            if let Some(key) = key(process, call) {
                let least = own.entry(key).or_insert(call.seq);
                *least = call.seq.min(*least);
            }
        }
        for (key, number) in own {
            let highest = first.entry(key).or_insert(number);
            *highest = number.max(*highest);
        }
    }
    for process in &mut capture.processes {
        let is_kept = |call: &Call| {
            let key = key(process, call);
            key.is_none_or(|key| first.get(&key).is_none_or(|first| call.seq >= *first))
        };
        let kept: Vec<bool> = process.calls.iter().map(is_kept).collect();
        if kept.contains(&false) {
            keep_calls(process, |at, _| kept[at]);
        }
    }
}

/// When a call was made, or else the first time that is known of it.
fn began(call: &Call) -> i64 {
    let times = [call.api_ns, call.launch_start_ns, call.enqueue_ns];
    times.into_iter().find(|at| *at != 0).unwrap_or(0)
}

/// Leaves out calls by their place, and composites that are cut apart. They stay counted.
pub fn keep_calls(process: &mut Process, is_kept: impl Fn(usize, &Call) -> bool) {
    // By call: its place among those that are kept.
    let mut place = 0;
    let all = process.calls.iter().enumerate();
    let places: Vec<Option<u32>> = all
        .map(|(at, call)| {
            let kept = is_kept(at, call).then_some(place);
            place += u32::from(kept.is_some());
            kept
        })
        .collect();
    let kept = |call: &u32| places.get(*call as usize).copied().flatten();
    // By composite: its number among those that are kept, from 1.
    let mut number = 0;
    let numbers: Vec<u32> = process
        .composites
        .iter()
        .map(|composite| {
            let whole = composite.calls.iter().all(|call| kept(call).is_some());
            number += u32::from(whole);
            if whole {
                number
            } else {
                0
            }
        })
        .collect();
    let mut whole = numbers.iter().map(|number| *number != 0);
    process.composites.retain(|_| whole.next() == Some(true));
    for call in process.composites.iter_mut().flat_map(|of| &mut of.calls) {
        *call = kept(call).unwrap_or(*call);
    }
    let (mut left_out, mut sealed) = (0, 0);
    let mut all = places.iter();
    process.calls.retain_mut(|call| {
        if let Some(at) = (call.composite as usize).checked_sub(1) {
            call.composite = numbers.get(at).copied().unwrap_or(0);
        }
        let is_kept = all.next().is_some_and(Option::is_some);
        left_out += u64::from(!is_kept);
        sealed += u64::from(!is_kept && call.sealed);
        is_kept
    });
    process.forgotten += left_out;
    process.sealed = process.sealed.saturating_sub(sealed);
}

fn calls(process: &mut Process, is_in: &dyn Fn(i64) -> bool) {
    keep_calls(process, |_, call| is_in(began(call)));
    let totals = process.totals.drain(..);
    let folded: u64 = totals.map(|total| total.folded).sum();
    process.net_totals.clear();
    process.forgotten += folded;
    let tickets: BTreeSet<u64> = process.calls.iter().map(|call| call.ticket).collect();
    process.net_ops.retain(|of| tickets.contains(&of.ticket));
    process.on_gpu.retain(|of| tickets.contains(&of.ticket));
    // What is said of the run is said of the spans: no rank is seen before they begin, or after them.
    if let Some(begins) = process.calls.first().map(began) {
        let returned = |call: &Call| call.return_ns.max(began(call));
        let ends = process.calls.iter().map(returned).max();
        let ends = ends.unwrap_or(begins).max(begins);
        for local in &mut process.communicators {
            local.created_ns = local.created_ns.map(|at| at.clamp(begins, ends));
            local.ended_ns = local.ended_ns.map(|at| at.clamp(begins, ends));
        }
    }
}

fn graphs(process: &mut Process, is_in: &dyn Fn(i64) -> bool) {
    let graphs = &mut process.graphs;
    graphs.launches.retain(|launch| is_in(launch.at));
    graphs.folded.clear();
    graphs.untimed = 0;
    let mut launches: BTreeMap<u32, (u64, i64)> = BTreeMap::new();
    for launch in &graphs.launches {
        let of = launches.entry(launch.graph).or_default();
        *of = (of.0 + 1, of.1.max(launch.at));
    }
    for graph in &mut graphs.executables {
        let found = launches.get(&graph.number);
        graph.launches = found.map_or(0, |of| of.0);
        graph.newest = found.map(|of| of.1);
        graph.launching &= graph.newest.is_some();
    }
}

/// A window without what is outside of the first span that it overlaps; false if there is none.
fn clip(window: &mut Window, spans: &[Range<i64>]) -> bool {
    let next = spans.partition_point(|span| span.end <= window.open);
    let Some(span) = spans.get(next).filter(|span| span.start < window.closing) else {
        return false;
    };
    let is_in = |at: i64| span.contains(&at);
    window.ran.retain(|ran| is_in(ran.start));
    window.asked.retain(|asked| is_in(asked.at));
    for at in [
        &mut window.opening,
        &mut window.open,
        &mut window.closing,
        &mut window.closed,
    ] {
        *at = (*at).clamp(span.start, span.end);
    }
    true
}

fn mpi(process: &mut Process, is_in: &dyn Fn(i64) -> bool) {
    let mpi = &mut process.mpi;
    mpi.spans.retain(|span| is_in(span.from));
    for function in &mut mpi.functions {
        (function.calls, function.ns) = (0, 0);
    }
    for span in &mpi.spans {
        let name = mpi.names.get(usize::from(span.function));
        let mut functions = mpi.functions.iter_mut();
        if let Some(function) = functions.find(|of| Some(&of.name) == name) {
            function.calls += u64::from(span.calls) - u64::from(span.open && span.calls > 0);
            function.ns += span.inside.unsigned_abs();
        }
    }
    mpi.functions.retain(|function| function.calls > 0);
    (mpi.lost, mpi.untimed) = (0, 0);
    let seen = mpi.spans.iter().map(|span| (span.from, span.to));
    let seen = seen.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    mpi.seen = mpi.seen.and(seen);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::windows::GpuActivity;
    use capture::windows::ActivityKind;

    #[test]
    fn spans_are_united_and_searched() {
        let turned = Range { start: 7, end: 2 };
        let spans = united(&[8..9, 3..5, turned, 4..6, 6..7, 1..1]);
        assert_eq!(spans, [3..7, 8..9]);
        let is_in: Vec<i64> = (0..11).filter(|at| around(&spans, *at).is_some()).collect();
        assert_eq!(is_in, [3, 4, 5, 6, 8]);
        assert_eq!(around(&[], 3), None);
    }

    #[test]
    fn a_window_is_cut_to_the_first_span_that_it_overlaps() {
        let ran = |start: i64| GpuActivity {
            device: 0,
            start,
            end: start + 1,
            name: 1,
            stream: 7,
            correlation: 0,
            graph: 0,
            node: 0,
            kind: ActivityKind::Kernel,
            size: 1,
        };
        let window = |open: i64, closing: i64| Window {
            opening: open - 1,
            open,
            closing,
            closed: closing + 1,
            ran: (open..closing).map(ran).collect(),
            ..Window::default()
        };
        let spans = united(&[10..20, 30..40]);
        let mut cut = window(15, 35);
        assert!(clip(&mut cut, &spans));
        let times = (cut.opening, cut.open, cut.closing, cut.closed);
        assert_eq!(times, (14, 15, 20, 20));
        assert_eq!(cut.ran.len(), 5);
        assert!(!clip(&mut window(20, 30), &spans));
        assert!(!clip(&mut window(40, 50), &spans));
        // Damaged times.
        assert!(!clip(&mut window(i64::MAX - 1, i64::MAX - 1), &spans));
        assert!(!clip(&mut window(0, 5), &[]));
    }
}

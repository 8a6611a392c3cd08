//! The critical path of one step on the viewer's lanes, and that of start-up in words.
//!
//! The path is in times of its own. The call that ends the step says where in the run that is, because its
//! kernel's end is known on the clock of the GPU and on the time line. Segments follow each other without a
//! gap, so all others lie before it.
//!
//! Rule: a segment lies on a lane of its own rank. Lanes of different hosts are as exact as their clocks.

use super::{Slice, SliceKind, View};
use analyze::critical_path::{CriticalPath, Segment};
use serde_json::{json, Value};

/// An operation is looked for so far from where the path has it, ns: ranks do not end together to the
/// microsecond.
const NEAR_NS: i64 = 200_000;
/// A call that began longer ago is not looked at, ns.
const LONGEST_NS: i64 = 1_000_000_000;

/// The step and its segments, each on a lane; `None` if its end is not found among the calls.
pub(super) fn of(view: &View<'_>) -> Option<Value> {
    let path = view.report.critical_path.as_ref()?;
    let end = end_ns(view, path)?;
    let begin = end - (1e3 * path.step.time_us) as i64;
    let segments = path.step.segments.iter().filter_map(|segment| {
        let from = begin + (1e3 * segment.at_us) as i64;
        let to = from + (1e3 * segment.time_us) as i64;
        Some(json!({
            "lane": lane(view, segment, from, to)?,
            "what": crate::critical_path::what(&segment.on),
            "kind": segment.on.kind,
            "rank": segment.on.process.rank,
            "why": segment.on.why.map(crate::critical_path::why),
            "from_us": view.us(from),
            "to_us": view.us(to),
        }))
    });
    let segments: Vec<Value> = segments.collect();
    (!segments.is_empty()).then(|| json!({ "step": path.step.number, "segments": segments }))
}

/// The critical path of the slowest communicator's init, in order. It lies before the time line.
pub(super) fn of_start_up(report: &analyze::Report) -> Option<Value> {
    let slowest = report.startup.communicators.first()?;
    let legs = slowest.critical_path.iter().filter(|leg| leg.time_s > 0.0);
    let leg = |leg: &setup::startup::Leg| {
        json!({
            "what": crate::startup::named(leg.phase),
            "rank": leg.rank,
            "time_us": 1e6 * leg.time_s,
        })
    };
    let legs: Vec<Value> = legs.map(leg).collect();
    (!legs.is_empty()).then(|| {
        json!({
            "nranks": slowest.nranks,
            "time_us": 1e6 * slowest.critical_path_s,
            "legs": legs,
        })
    })
}

/// When the step ended, on the time line.
fn end_ns(view: &View<'_>, path: &CriticalPath) -> Option<i64> {
    let steps = view.report.steps.as_ref()?.reference()?;
    let number = usize::try_from(path.step.number).ok()?.checked_sub(1)?;
    let end_ns = steps.each.get(number)?.end_ns?;
    let ended = view.timeline.calls().find(|placed| {
        let process = placed.row.process;
        (process.rank, process.pid, &process.host)
            == (steps.process.rank, steps.process.pid, &steps.process.host)
            && placed.row.call.gpu.stop() == Some(end_ns)
    });
    ended?.gpu.map(|(slice, _)| slice.span.end)
}

/// The lane of the operation that a segment is, or that its work led to.
fn lane(view: &View<'_>, segment: &Segment, from: i64, to: i64) -> Option<u32> {
    let processes = view.timeline.capture().processes.iter();
    let mut own = (0u32..).zip(processes).filter(|(_, process)| {
        (process.rank, process.pid, &process.host)
            == (
                segment.on.process.rank,
                segment.on.process.pid,
                &segment.on.process.host,
            )
    });
    let (process, _) = own.next()?;
    let is_near = |seen: &&Slice| {
        // Work ends with the operation's begin.
        let (at, of) = match segment.on.kind {
            "operation" => (to, seen.span.end),
            _ => (to, seen.span.begin),
        };
        seen.process == process && seen.kind == SliceKind::Timed && (at - of).abs() <= NEAR_NS
    };
    // Calls are ordered by begin; those of hours ago are not near.
    let after = view
        .seen
        .partition_point(|seen| seen.span.begin <= to + NEAR_NS);
    let before = view.seen[..after]
        .iter()
        .rev()
        .take_while(|seen| seen.span.begin >= from - LONGEST_NS);
    let nearest = before
        .filter(is_near)
        .min_by_key(|seen| (to - seen.span.end).abs());
    let first = || {
        let mut lanes = (0u32..).zip(&view.lanes);
        lanes.find(|(_, lane)| {
            lane.process == process as usize && !lane.is_kernels && !lane.is_events
        })
    };
    nearest
        .map(|seen| seen.lane)
        .or_else(|| first().map(|(at, _)| at))
}

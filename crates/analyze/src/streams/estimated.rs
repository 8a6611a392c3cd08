//! Who was waited for in a job without a single kernel window that passes data on.
//!
//! CUDA events time sends and receives, and stream waits say for how long a stream stood still for them. So
//! the whole run is looked at as one window in which a GPU computes unless one of its streams stands still
//! ([`super::timed`]). What is lost is found in it as in windows.
//!
//! Rule: it is an estimate. How fast the others' hosts could be is not known, so the bound is the time in
//! which the streams of the rank that lost least stood still.

use super::losses::waited_for;
use super::rows::LEAST_MATCHED;
use super::waiting::{waits, Waits};
use super::{Lane, LaneWindow, Seen, Share, WaitedFor};
use crate::interval::MOST_BATCHES;

/// The run is cut into so many pieces.
const PIECES: i64 = MOST_BATCHES as i64;

/// The waits of these lanes, and who was waited for; `None` if they pass no data on. `members` is as in
/// [`waits`].
pub fn estimate(lanes: &mut [Lane], members: &[usize]) -> Option<(Waits, Vec<WaitedFor>)> {
    let known = lanes
        .iter()
        .map(|lane| Some(lane.timed.as_ref()?.seen.known));
    let known: Option<Vec<(i64, i64)>> = known.collect();
    let known = known.filter(|known| !known.is_empty())?;
    let from = known.iter().map(|span| span.0).max()?;
    let to = known.iter().map(|span| span.1).min()?;
    if from >= to {
        return None;
    }
    for lane in lanes.iter_mut() {
        lane.windows = lane.timed.take().into_iter().collect();
        for LaneWindow { seen, .. } in &mut lane.windows {
            seen.marks = (0..=PIECES)
                .map(|n| from + (to - from) / PIECES * n)
                .collect();
        }
    }
    let waits = waits(lanes, members);
    if waits.passed_on < LEAST_MATCHED {
        return None;
    }
    let part = |lane: &Lane, of: &dyn Fn(&Seen) -> i64| {
        let windows = lane.windows.iter().map(|window| &window.seen);
        let sum = windows.fold((0, 0), |sum, seen| {
            (sum.0 + of(seen), sum.1 + seen.length())
        });
        sum.0 as f64 / sum.1.max(1) as f64
    };
    // A stream that had nothing to do before the call began for which it waits: its host was late.
    let idle = |seen: &Seen| seen.length() - seen.computes.or(seen.communicates()).length();
    let idle: Vec<Option<f64>> = lanes.iter().map(|lane| Some(part(lane, &idle))).collect();
    let alone = vec![Default::default(); lanes.len()];
    let mut found = waited_for(lanes, &idle, &waits, &alone, &Default::default());
    for of in &mut found {
        let place = (&of.other.0, of.other.1, of.other.2);
        let is_other = |lane: &&Lane| (&lane.host, lane.pid, lane.device) == place;
        let other = lanes.iter().find(is_other)?;
        // No windows, and no cycles that could be steps.
        (of.by_events, of.cycle_ns) = (true, 0.0);
        of.host_most = Some(Share {
            share: part(other, &|seen| seen.length() - seen.computes.length()),
            interval: None,
        });
        if !of.host_late {
            // Where in a step a GPU has more to do is not known, and so not what the schedule hides of it.
            let interval = &mut of.in_windows.interval;
            *interval = interval.map(|(_, high)| (0.0, high));
        }
        of.scale(1.0, None, false);
    }
    Some((waits, found))
}

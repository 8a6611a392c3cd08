//! For how long a lane's computing stream stood still in each launch.
//!
//! The computing stream is the one that waits for most launches. A launch on the default stream keeps that
//! stream from computing for all of its time.
//!
//! Waits for some launches are not seen. Then windows show which part of the time of such launches is
//! exposed, and that part holds for the others of their kind. Who waits for the last of several launches
//! waits for all of them: that time is the last one's.
//!
//! Rule: a stream can't stand still twice at a time, so intervals that overlap count once.

use super::launches::{Lane, Launch};
use std::collections::HashMap;

/// What windows show of a launch of which no wait was seen holds for the others of its kind: which part of
/// their time is exposed.
fn extend(lane: &mut Lane) {
    let is_unseen = |launch: &Launch| {
        launch.stop > launch.start && launch.stream == 0 && !launch.ended && !launch.on_default
    };
    let mut shown: HashMap<u32, (f64, f64)> = HashMap::new();
    for launch in lane
        .launches
        .iter()
        .filter(|l| is_unseen(l) && l.shown != 0)
    {
        let sum = shown.entry(launch.kind).or_default();
        *sum = (
            sum.0 + launch.still,
            sum.1 + (launch.stop - launch.start) as f64,
        );
    }
    let others = lane.launches.iter_mut();
    for launch in others.filter(|l| is_unseen(l) && l.shown == 0) {
        if let Some((exposed, length)) = shown.get(&launch.kind) {
            let part = exposed / length * (launch.stop - launch.start) as f64;
            launch.shown = launch.stop - part.round() as i64;
        }
    }
}

/// Sets it of the launches that windows show, beside those for which a stream was seen to wait: `waited` is
/// when, ascending, and `order` has the launches by their ends.
fn by_windows(lane: &mut Lane, order: &[usize], waited: &[(i64, i64)]) {
    let known = |from: i64, to: i64| -> i64 {
        let first = waited.partition_point(|span| span.1 <= from);
        let spans = waited[first..].iter().take_while(|span| span.0 < to);
        spans.map(|span| span.1.min(to) - span.0.max(from)).sum()
    };
    let mut until = i64::MIN;
    for index in order {
        let launch = &mut lane.launches[*index];
        if !is_shown(launch) {
            continue;
        }
        let from = launch.shown.clamp(launch.start, launch.stop);
        let begin = from.max(until).min(launch.stop);
        let still = launch.stop - begin - known(begin, launch.stop);
        launch.still = still as f64;
        // What windows show to be hidden may not be needed for long.
        launch.stands = if still > 0 { from } else { 0 };
        if from < launch.stop {
            until = until.max(launch.stop);
        }
    }
}

/// Whether only windows say for how long the computing stream stood still for it.
fn is_shown(launch: &Launch) -> bool {
    launch.shown != 0 && launch.from == 0 && !launch.ended
}

/// Sets [`Launch::still`] of all launches of a lane, where that is known.
pub fn of_lane(lane: &mut Lane) {
    let mut streams: HashMap<u32, u64> = HashMap::new();
    for launch in lane.launches.iter().filter(|l| l.stream != 0) {
        *streams.entry(launch.stream).or_default() += 1;
    }
    let most = streams
        .into_iter()
        .max_by_key(|(id, n)| (*n, std::cmp::Reverse(*id)));
    let computing = most.map_or(0, |(id, _)| id);
    let mut order: Vec<usize> = (0..lane.launches.len())
        .filter(|i| lane.launches[*i].stop != 0)
        .collect();
    order.sort_by_key(|i| (lane.launches[*i].stop, lane.launches[*i].api));
    let mut until = i64::MIN;
    // When it stood still for launches for which a stream was seen to wait, ascending.
    let mut waited: Vec<(i64, i64)> = Vec::new();
    for index in &order {
        let launch = &mut lane.launches[*index];
        let is_seen = launch.stream != 0 || is_shown(launch);
        launch.is_alone = computing != 0 && !is_seen && !launch.on_default;
        if is_shown(launch) {
            continue;
        }
        if let Some(from) = stands_from(launch, computing) {
            launch.stands = if launch.ended { 0 } else { from };
            let begin = from.max(until);
            launch.still = (launch.stop - begin).max(0) as f64;
            if begin < launch.stop {
                waited.push((begin, launch.stop));
            }
            if from < launch.stop {
                until = until.max(launch.stop);
            }
        }
    }
    by_windows(lane, &order, &waited);
    extend(lane);
    by_windows(lane, &order, &waited);
}

/// From when the computing stream had nothing to do but to wait for a launch; `None` if that is not known.
fn stands_from(launch: &Launch, computing: u32) -> Option<i64> {
    if launch.stream == 0 {
        return launch.on_default.then_some(launch.start);
    }
    if launch.from == 0 {
        return launch.ended.then_some(launch.stop);
    }
    let from = launch.from.min(launch.stop);
    // Another stream may have been idle for long.
    Some(if launch.stream == computing {
        from
    } else {
        from.max(launch.start)
    })
}

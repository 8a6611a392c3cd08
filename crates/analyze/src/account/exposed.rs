//! For how long a lane's computing stream stood still in each launch.
//!
//! The computing stream is the one that waits for most launches. A launch on the default stream keeps that
//! stream from computing for all of its time.
//!
//! Rule: a stream can't stand still twice at a time, so intervals that overlap count once.

use super::launches::{Lane, Launch};
use std::collections::HashMap;

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
    for index in order {
        let launch = &mut lane.launches[index];
        let is_shown = launch.shown != 0 && launch.from == 0;
        let is_seen = launch.stream != 0 || is_shown;
        launch.is_alone = computing != 0 && !is_seen && !launch.on_default;
        if let Some(from) = stands_from(launch, computing) {
            // What windows show to be hidden may not be needed for long.
            let is_hidden = launch.ended || is_shown && from >= launch.stop;
            launch.stands = if is_hidden { 0 } else { from };
            launch.still = (launch.stop - from.max(until)).max(0) as f64;
            if from < launch.stop {
                until = until.max(launch.stop);
            }
        }
    }
}

/// From when the computing stream had nothing to do but to wait for a launch; `None` if that is not known.
fn stands_from(launch: &Launch, computing: u32) -> Option<i64> {
    let is_measured = launch.from != 0 || launch.ended;
    if launch.shown != 0 && !is_measured {
        return Some(launch.shown.clamp(launch.start, launch.stop));
    }
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

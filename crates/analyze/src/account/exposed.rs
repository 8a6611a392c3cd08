//! For how long a lane's computing stream stood still in each launch.
//!
//! The computing stream is the one that waits for most launches. A launch on the default stream keeps that
//! stream from computing for all of its time.
//!
//! Waits for some launches are not seen. Then windows show which part of the time of such launches is
//! exposed, and that part holds for the others of their kind. Who waits for the last of several launches
//! waits for all of them: that time is the last one's.
//!
//! A host that waits in the driver until a launch ends gives its GPU nothing to do meanwhile. No stream waits
//! for the launch then, or only after its end. So the computing stream stood still from the time at which the
//! host had launched it.
//!
//! Rule: a stream can't stand still twice at a time, so intervals that overlap count once.

use super::launches::{Lane, Launch};
use std::collections::HashMap;

/// Within this time after a launch has ended, a host that waited for it goes on: the system wakes it up. On
/// a busy machine that may take longer, up to [`LATE_WAKING`] of its wait. Then it is not known for what else
/// it waited.
const WAKING_NS: i64 = 50_000;
const LATE_WAKING: f32 = 0.1;

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
    by_hosts(lane);
}

/// Sets it of launches for which the host waited, and no stream did. The host's wait ends when the launch
/// does. If it ends later, the host waited for other work, which the launch may have been beside.
fn by_hosts(lane: &mut Lane) {
    for index in 1..lane.launches.len() {
        let next = lane.launches[index];
        let launch = &mut lane.launches[index - 1];
        let is_hidden = launch.still == 0.0 || launch.is_alone;
        if next.driver_waited <= 0.0 || !is_hidden || launch.stop == 0 || is_shown(launch) {
            continue;
        }
        let (since, until) = (launch.launched, launch.stop);
        let waited_until = since + next.driver_waited as i64;
        let late = waited_until - until;
        let most = WAKING_NS.max((LATE_WAKING * next.driver_waited) as i64);
        if since < until && next.api >= until - WAKING_NS && late <= most {
            launch.is_alone = false;
            launch.still = f64::NAN;
            if late <= WAKING_NS {
                launch.stands = since.max(launch.start);
                launch.still = (until - launch.stands) as f64;
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const US: i64 = 1_000;

    /// For how long the stream stood still for a launch of 3 ms. It began 100 µs after the host had made it.
    /// Then the host waits in the driver for `driver_waited`, and the stream's wait begins `came` after the
    /// launch has ended.
    fn still(driver_waited: i64, came: i64) -> f64 {
        let launch = |at: i64| Launch {
            api: at,
            launched: at + 10 * US,
            start: at + 110 * US,
            stop: at + 3110 * US,
            stream: 7,
            from: at + 3110 * US + came,
            ..Launch::default()
        };
        let mut next = launch(9000 * US);
        next.driver_waited = driver_waited as f32;
        let mut lane = Lane {
            launches: vec![launch(0), next],
            ..Lane::default()
        };
        of_lane(&mut lane);
        lane.launches[0].still
    }

    #[test]
    fn a_gpu_stands_still_for_a_launch_for_which_its_host_waits() {
        // The stream comes to wait when the launch has ended, because only then the host goes on.
        assert_eq!(still(3100 * US, 20 * US), 3e6);
        assert_eq!(still(3140 * US, 20 * US), 3e6);
        // The host was launching for a while before it waited.
        assert_eq!(still(2500 * US, 20 * US), 3e6);
        // The host did not wait.
        assert_eq!(still(0, 20 * US), 0.0);
        // It waits for work that ends much later.
        assert_eq!(still(3600 * US, 20 * US), 0.0);
        // A little later: it may have been woken up late, or not.
        assert!(still(3300 * US, 20 * US).is_nan());
        // A stream was seen to wait for it, for as long as that.
        assert_eq!(still(3100 * US, -50 * US), 50_000.0);
    }
}

//! Why a lane is late: its host launched late, or its GPU had other work.
//!
//! If it is known how long programs were in the CUDA driver, the work of two hosts is compared: a step
//! without that time. A late host works for longer than the one that waits. A program that launches more
//! kernels works for longer, too, and its GPU has more to do: work counts by the kernels that it launched.
//! Without that, a launch tells: it is the host if over half of what the others waited had passed when the lane's
//! host launched. Then a host that was late at the beginning of a step, and caught up before the first
//! operation, is taken for its GPU.
//!
//! Rule: it is the host if that explains over half of the waiting. Of each step, the operation with the
//! longest wait counts: behind it, others are late too.

use super::frame::Frame;
use super::launches::Lane;
use super::places::Places;
use crate::findings::Cause;
use std::collections::BTreeMap;

/// A difference between GPU times that is no wait, ns.
const LEAST_WAIT: f64 = 20e3;

/// What is known of a lane's lateness.
#[derive(Clone, Copy, Debug)]
pub struct Late {
    /// Why.
    pub cause: Cause,
    /// Operations in which it came last, and operations that were timed on it and another lane.
    pub last: (u64, u64),
}

/// The longest wait of a step.
#[derive(Clone, Copy, Default)]
struct Wait {
    /// How long it was, ns.
    ns: f64,
    /// What of it had passed when the late lane's host launched.
    launched: f64,
    /// Who waited.
    lane: usize,
}

/// Of a lane.
pub fn of(lanes: &[Lane], places: &Places, frame: &Frame, lane: usize) -> Late {
    let mut waits: BTreeMap<u32, Wait> = BTreeMap::new();
    let mut late = Late {
        cause: Cause::Unknown,
        last: (0, 0),
    };
    for operation in places.operations() {
        let Some(own) = operation.iter().find(|cell| cell.lane as usize == lane) else {
            continue;
        };
        let others = operation
            .iter()
            .filter(|cell| cell.lane as usize != lane && cell.launch.start != 0);
        let longest = others.max_by_key(|cell| cell.launch.ns);
        let (Some(other), Some(own_ns)) = (longest, own.launch.length()) else {
            continue;
        };
        let Some(wait) = other.launch.length().map(|ns| ns - own_ns) else {
            continue;
        };
        late.last = (late.last.0 + u64::from(wait > 0.0), late.last.1 + 1);
        if wait > LEAST_WAIT {
            // All ranks leave an operation together, whatever their hosts' clocks say.
            let apart = match own.host == other.host {
                true => 0,
                false => own.launch.stop - other.launch.stop,
            };
            let launched = own.launched() - other.launch.start - apart;
            let longest = waits.entry(own.step).or_default();
            if wait > longest.ns {
                *longest = Wait {
                    ns: wait,
                    launched: (launched as f64).clamp(0.0, wait),
                    lane: other.lane as usize,
                };
            }
        }
    }
    let waited: f64 = waits.values().map(|wait| wait.ns).sum();
    let by_host = by_work(lanes, places, frame, lane, &waits)
        .unwrap_or_else(|| waits.values().map(|wait| wait.launched).sum());
    late.cause = match 2.0 * by_host > waited {
        _ if waited <= 0.0 => Cause::Unknown,
        true => Cause::Host,
        false => Cause::Gpu,
    };
    late
}

/// By how much more a lane's host worked than those that waited for it, for the kernels that they launched,
/// ns; `None` if that is not known.
fn by_work(
    lanes: &[Lane],
    places: &Places,
    frame: &Frame,
    lane: usize,
    waits: &BTreeMap<u32, Wait>,
) -> Option<f64> {
    let mut driver = vec![vec![0.0; frame.wall.len()]; places.lanes];
    for cell in places.operations().flatten() {
        let launch = &cell.launch;
        let both = launch.driver + launch.in_call();
        driver[cell.lane as usize][cell.step as usize] += both as f64;
    }
    let is_known = |lane: usize| lanes[lane].launches.iter().any(|launch| launch.driver > 0);
    let work = |lane: usize, step: usize| {
        let begins = &frame.begins[lane];
        (begins[step + 1] - begins[step]) as f64 - driver[lane][step]
    };
    let more = waits.iter().map(|(step, wait)| {
        let step = *step as usize;
        let both = is_known(lane) && is_known(wait.lane);
        let like = match (lanes[wait.lane].kernels, lanes[lane].kernels) {
            (0, _) | (_, 0) => 1.0,
            (other, own) => other as f64 / own as f64,
        };
        both.then(|| like * work(lane, step) - work(wait.lane, step))
    });
    more.sum()
}

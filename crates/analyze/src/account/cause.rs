//! Why a lane is late: its host launched late, or its GPU had other work.
//!
//! Rule: it is the host if over half of what the others waited had passed when the lane's host launched. Of
//! each step, the operation with the longest wait counts: behind it, others are late too.

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

/// Of a lane.
pub fn of(places: &Places, lane: usize) -> Late {
    // By step: the longest wait, and what of it had passed at the launch.
    let mut waits: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
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
            let of = waits.entry(own.step).or_default();
            if wait > of.0 {
                *of = (wait, (launched as f64).clamp(0.0, wait));
            }
        }
    }
    let (waited, by_host) = waits
        .values()
        .fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
    late.cause = match 2.0 * by_host > waited {
        _ if waited <= 0.0 => Cause::Unknown,
        true => Cause::Host,
        false => Cause::Gpu,
    };
    late
}

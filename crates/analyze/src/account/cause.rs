//! Why a lane is late: its host launched late, or its GPU had other work.
//!
//! A launch tells: what the others waited before a lane's host launched is its host's. But a host that waits
//! for its own GPU launches late, too. If it is known how long programs were in the CUDA driver, the work of
//! two hosts is compared: a step without that time. Only what a host works longer than the one that waits
//! can make it late. If it is known to work longer by all that the other waits, that is why, also if it had
//! caught up before the operation. A GPU with more to do makes its host launch more, but not for as long as
//! that takes.
//!
//! Rule: it is the host if that explains over half of the waiting, or of what steps could be shorter, and no
//! less than what the others waited after its launch: that is its GPU's. GPUs that wait for all hosts wait
//! longer than for this one. Of each step, the operation with the longest wait counts: behind it, others are
//! late too.

use super::frame::Frame;
use super::places::{Cell, Places};
use super::work::Work;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Why a rank is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Its host launches late.
    Host,
    /// Its GPU is busy with other work.
    Gpu,
    /// That is not known.
    Unknown,
}

impl Cause {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Host => "host",
            Cause::Gpu => "gpu",
            Cause::Unknown => "unknown",
        }
    }
}

/// A difference between GPU times that is no wait, ns.
const LEAST_WAIT: f64 = 20e3;

/// What is known of a lane's lateness.
#[derive(Clone, Copy, Debug)]
pub struct Late {
    /// Which lane.
    pub lane: usize,
    /// Why.
    pub cause: Cause,
    /// Operations in which it came last, and operations that were timed on it and another lane.
    pub last: (u64, u64),
    /// How many of these are sends and receives.
    pub sends: u64,
    /// Which part of what others waited had passed when its host launched; `None` if nobody waited.
    pub launched: Option<f64>,
    /// How much longer its host works in a step than that of who waits, ns on average, if that is known.
    pub host_longer: Option<f64>,
}

/// The longest wait of a step; 0 if nobody waited.
#[derive(Clone, Copy, Default)]
struct Wait {
    /// How long it was, ns.
    ns: f64,
    /// What of it had passed when the late lane's host launched.
    launched: f64,
    /// Who waited.
    lane: usize,
}

/// Of a lane, or of the one of a group that the others of it wait for: it stands still least. `None` of none.
pub fn of(places: &Places, work: &Work, frame: &Frame, lanes: &[usize]) -> Option<Late> {
    let still = places.scaled(&vec![true; frame.wall.len()], Cell::still);
    let by_still = |a: &usize, b: &usize| still[*a].sum.total_cmp(&still[*b].sum);
    let lane = lanes.iter().copied().min_by(by_still)?;
    let mut waits: BTreeMap<u32, Wait> = BTreeMap::new();
    let mut late = Late {
        lane,
        cause: Cause::Unknown,
        last: (0, 0),
        sends: 0,
        launched: None,
        host_longer: None,
    };
    for operation in places.operations() {
        let Some(own) = operation.iter().find(|cell| cell.lane as usize == lane) else {
            continue;
        };
        let others = operation
            .iter()
            .filter(|cell| cell.lane as usize != lane && cell.launch.start != 0);
        let longest = others.max_by(|a, b| a.launch.ns.total_cmp(&b.launch.ns));
        let (Some(other), Some(own_ns)) = (longest, own.launch.length()) else {
            continue;
        };
        let Some(wait) = other.launch.length().map(|ns| ns - own_ns) else {
            continue;
        };
        late.last = (late.last.0 + u64::from(wait > 0.0), late.last.1 + 1);
        late.sends += u64::from(own.launch.sends || own.launch.receives);
        let of_step = waits.entry(own.step).or_insert(Wait {
            lane: other.lane as usize,
            ..Wait::default()
        });
        if wait > LEAST_WAIT.max(of_step.ns) {
            // All ranks leave an operation together, whatever their hosts' clocks say.
            let apart = if own.host == other.host {
                0
            } else {
                own.launch.stop - other.launch.stop
            };
            let launched = own.launched() - other.launch.start - apart;
            *of_step = Wait {
                ns: wait,
                launched: (launched as f64).clamp(0.0, wait),
                lane: other.lane as usize,
            };
        }
    }
    let sum = |of: fn(&Wait) -> f64| waits.values().map(of).sum::<f64>();
    let (waited, launched) = (sum(|wait| wait.ns), sum(|wait| wait.launched));
    let longer = |(step, wait): (&u32, &Wait)| work.longer(lane, wait.lane, *step as usize);
    // The longest wait of a step may be one of many, and steps of which nothing was timed have others.
    let seen = waits.len() as f64 / frame.wall.len().max(1) as f64;
    let stood = |wait: &Wait| seen * (still[wait.lane].sum - still[lane].sum);
    let all = waits.values().map(stood).fold(waited, f64::max);
    let all_longer = waits.iter().map(longer).sum::<Option<f64>>();
    late.launched = (waited > 0.0).then(|| launched / waited);
    late.host_longer = all_longer.map(|ns| ns / waits.len().max(1) as f64);
    let by_host = match all_longer {
        Some(longer) if !work.is_bound(lane) && longer >= waited && 2.0 * longer >= all => waited,
        Some(longer) => longer.min(launched),
        None => launched,
    };
    let others = work.shorter_without(&[lane], frame);
    let most = others.map_or(waited, |of| seen * of.share.max(0.0) * frame.total());
    late.cause = if waited <= 0.0 {
        Cause::Unknown
    } else if 2.0 * by_host > waited.min(most) && by_host >= waited - launched {
        Cause::Host
    } else {
        Cause::Gpu
    };
    Some(late)
}

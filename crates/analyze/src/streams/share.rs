//! Shares of the time of windows, and how sure they are.

use crate::interval::{Batches, LEAST_STRETCHES};
use crate::time::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

/// With fewer operations on all ranks, windows don't say who was waited for.
pub(super) const LEAST_MATCHED: u64 = 16;

/// A share of the time, or a ratio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Share {
    /// The share, 0 to 1.
    pub share: f64,
    /// 95 % interval; null for fewer than three windows.
    pub interval: Option<(f64, f64)>,
}

impl Share {
    /// As a part of something: neither it nor its interval is under 0 or over all of that.
    pub(crate) fn at_most(self, all: f64) -> Share {
        let within = |share: f64| share.clamp(0.0, all);
        Share {
            share: within(self.share),
            interval: self.interval.map(|(low, high)| (within(low), within(high))),
        }
    }

    /// As a part of the time.
    pub(crate) fn of_time(self) -> Share {
        self.at_most(1.0)
    }
}

/// A share of the time, from windows: what of it, and how long it is, each.
pub(super) fn share(windows: impl Iterator<Item = (Nanos, Nanos)>) -> Share {
    ratio(windows.map(|(of, length)| (of.0, length.0)))
}

/// A ratio of two sums, from windows.
pub(super) fn ratio(windows: impl Iterator<Item = (f64, f64)>) -> Share {
    let windows: Vec<(f64, f64)> = windows.filter(|(_, length)| *length > 0.0).collect();
    let (of, length) = windows
        .iter()
        .fold((0.0, 0.0), |(a, b), w| (a + w.0, b + w.1));
    let enough = windows.len() >= LEAST_STRETCHES;
    let interval = if enough && windows.iter().all(|(of, _)| *of == 0.0) {
        Some((0.0, 0.0))
    } else {
        let mean = enough.then(|| Batches::of_stretches(&windows)).flatten();
        mean.and_then(|batches| batches.mean(0.0)?.interval())
    };
    Share {
        share: if length > 0.0 { of / length } else { 0.0 },
        interval,
    }
}

//! A phase of NCCL's init that takes long.

use super::{advice, Action, Grounds, Level, Recommendation};
use crate::findings::{Gain, GainSource};
use crate::time::{seconds_of_us, us_of_seconds};
use crate::Report;

/// A phase that takes less time is left alone, s;
const LEAST_S: f64 = 1.0;
/// and so is one that is a smaller part of its init,
const LEAST_PART: f64 = 0.2;
/// or of init and run together.
const LEAST_SHARE: f64 = 0.01;

/// The longest phase on the critical path of the slowest communicator's init.
pub(super) fn recommendation(report: &Report) -> Option<Recommendation> {
    let slowest = report.startup.communicators.first()?;
    let legs = slowest.critical_path.iter();
    let longest = legs.reduce(|a, b| if b.time_s > a.time_s { b } else { a })?;
    // Who began late is the reason, and no phase.
    if slowest
        .late
        .as_ref()
        .is_some_and(|late| late.by_s > longest.time_s)
    {
        return None;
    }
    let wall_us = report.ranks.wall_us;
    let run_s = wall_us.map_or(0.0, |wall| seconds_of_us(wall.max));
    let all_s = slowest.critical_path_s;
    let least_s = LEAST_S
        .max(LEAST_PART * all_s)
        .max(LEAST_SHARE * (run_s + all_s));
    let us = us_of_seconds(longest.time_s);
    (longest.time_s >= least_s).then(|| Recommendation {
        gain: Gain {
            us: None,
            interval_us: None,
            at_most_us: Some(us),
            source: Some(GainSource::Measured),
        },
        effort: Level::Medium,
        risk: Level::Low,
        ..advice(
            longest.phase,
            Action::ShortenPhase {
                phase: longest.phase,
            },
            Grounds::Phase {
                us,
                rank: longest.rank.into(),
                nranks: slowest.nranks.into(),
                init_us: us_of_seconds(all_s),
            },
        )
    })
}

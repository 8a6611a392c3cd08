//! The rank for which the others waited before the making of a communicator really began.
//!
//! No clocks are compared. NCCL's init loads kernels and allocates, and then all ranks meet in `bootstrap`,
//! which they leave together. So a rank that needed less time up to there began later, by the difference. In
//! a split, ranks meet before that, too, while they exchange colours; NCCL counts that in `rest`.
//!
//! Rule: without the phases of two ranks or more, times of day decide; without these, nobody is called late.

use crate::log::{Init, Timings};
use serde::Serialize;

/// The rank for which the others waited in bootstrap, if it began late.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Late {
    /// The rank.
    pub rank: u32,
    /// Its host.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// How much later than the first rank it began.
    pub by_s: f64,
    /// How long its own init took; null if NCCL did not say so.
    pub own_s: Option<f64>,
}

/// Shorter differences are no lateness: a phase has 10 ms, and three of them are added.
const LEAST_S: f64 = 0.05;
/// The same for times of day, which NCCL prints in whole seconds.
const LEAST_OF_DATES_S: f64 = 2.0;

/// Who was late in a communicator of these ranks.
pub fn late(members: &[&Init]) -> Option<Late> {
    let timed: Vec<(&Init, Timings)> = members
        .iter()
        .filter_map(|init| Some((*init, init.timings?)))
        .collect();
    let found = match timed.len() {
        0 | 1 => by_times_of_day(members),
        _ => by_phases(&timed),
    };
    let (init, by_s) = found?;
    Some(Late {
        rank: init.rank,
        host: init.host.clone(),
        pid: init.pid,
        by_s,
        own_s: init.timings.map(|timings| timings.total_s),
    })
}

fn by_phases<'a>(timed: &[(&'a Init, Timings)]) -> Option<(&'a Init, f64)> {
    let waited = |init: &Init, timings: &Timings| {
        let split = init.split.map_or(0.0, |_| timings.phase("rest"));
        timings.phase("bootstrap") + split
    };
    let until_met = |init: &Init, timings: &Timings| {
        timings.phase("kernels") + timings.phase("alloc") + waited(init, timings)
    };
    let all = timed.iter().map(|(init, timings)| until_met(init, timings));
    let longest = all.fold(0.0, f64::max);
    // Who waited least came last.
    let (init, timings) = timed.iter().min_by(|a, b| {
        let (a, b) = (waited(a.0, &a.1), waited(b.0, &b.1));
        a.total_cmp(&b)
    })?;
    let by_s = longest - until_met(init, timings);
    (by_s >= LEAST_S).then_some((*init, by_s))
}

fn by_times_of_day<'a>(members: &[&'a Init]) -> Option<(&'a Init, f64)> {
    let begun: Option<Vec<(f64, &Init)>> = members
        .iter()
        .map(|init| Some((init.started_s?, *init)))
        .collect();
    let begun = begun?;
    let first = begun.iter().map(|(at, _)| *at).reduce(f64::min)?;
    let (at, init) = begun.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    (at - first >= LEAST_OF_DATES_S).then_some((init, at - first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn init(rank: u32, phases_s: [f64; 8]) -> Init {
        Init {
            rank,
            nranks: 3,
            timings: Some(Timings {
                total_s: phases_s.iter().sum(),
                phases_s,
            }),
            ..Init::default()
        }
    }

    fn of(inits: &[Init]) -> Option<(u32, f64)> {
        let found = late(&inits.iter().collect::<Vec<_>>())?;
        Some((found.rank, (found.by_s * 100.0).round() / 100.0))
    }

    #[test]
    fn the_rank_with_the_shortest_way_to_the_meeting_began_late() {
        let usual = |rank| init(rank, [0.2, 0.1, 29.5, 0.1, 0.1, 0.1, 0.2, 0.0]);
        let late = init(2, [0.2, 0.1, 0.0, 0.1, 0.1, 0.1, 0.2, 0.0]);
        assert_eq!(of(&[usual(0), usual(1), late]), Some((2, 29.5)));
        assert_eq!(of(&[usual(0), usual(1)]), None);
    }

    #[test]
    fn a_rank_that_loads_kernels_for_long_was_not_late() {
        let others = |rank| init(rank, [1.5, 0.0, 51.44, 0.0, 0.0, 0.0, 0.0, 0.0]);
        let slow = init(1, [52.94, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(of(&[others(0), slow, others(2)]), None);
    }

    #[test]
    fn in_a_split_the_rest_is_a_wait() {
        let split = |rank, rest| Init {
            split: Some((1, 0, 0)),
            ..init(rank, [0.0, 0.1, 0.02, 0.0, 0.0, 0.0, 0.0, rest])
        };
        assert_eq!(of(&[split(0, 9.0), split(1, 0.0)]), Some((1, 9.0)));
        let whole = |rank, rest| init(rank, [0.0, 0.1, 0.02, 0.0, 0.0, 0.0, 0.0, rest]);
        assert_eq!(of(&[whole(0, 9.0), whole(1, 0.0)]), None);
    }

    #[test]
    fn without_phases_times_of_day_decide() {
        let at = |rank, at| Init {
            rank,
            started_s: at,
            ..Init::default()
        };
        assert_eq!(of(&[at(0, Some(5.0)), at(1, Some(9.0))]), Some((1, 4.0)));
        assert_eq!(of(&[at(0, Some(5.0)), at(1, Some(6.0))]), None);
        assert_eq!(of(&[at(0, Some(5.0)), at(1, None)]), None);
    }
}

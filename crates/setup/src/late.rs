//! The ranks for which the others waited before the making of a communicator really began.
//!
//! No clocks are compared. NCCL's init loads kernels and allocates, and then all ranks meet in `bootstrap`,
//! which they leave together. So a rank that needed less time up to there began later, by the difference. In
//! a split, ranks meet before that, too, while they exchange colours; NCCL counts that in `rest`.
//!
//! Rule: without the phases of two ranks or more, times of day decide; without these, nobody is called late.

use crate::log::{Init, Timings};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// The ranks for which the others waited in bootstrap, because they began late.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Late {
    /// The rank that came last.
    pub rank: u32,
    /// Its host.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// How much later than the first rank it began.
    pub by_s: f64,
    /// How long its own init took; null if NCCL did not say so.
    pub own_s: Option<f64>,
    /// All ranks that began at least half as late, by number, with the last one.
    pub ranks: Vec<u32>,
    /// How much later than the first rank the earliest of these began, in seconds.
    pub least_s: f64,
    /// The hosts of these ranks, by name.
    pub hosts: Vec<String>,
    /// Whether these are all ranks of these hosts, and more ranks than hosts.
    pub are_whole_hosts: bool,
}

/// Shorter differences are no lateness: a phase has 10 ms, and three of them are added.
const LEAST_S: f64 = 0.05;
/// The same for times of day, which NCCL prints in whole seconds.
const LEAST_OF_DATES_S: f64 = 2.0;
/// Ranks that began this part as late as the last one are late, too: without the last one, the others would
/// still have waited for them.
const ALIKE: f64 = 0.5;

/// A rank, and how much later than the first one it began.
type Begun<'a> = (&'a Init, f64);

/// Who was late in a communicator of these ranks.
pub fn late(members: &[&Init]) -> Option<Late> {
    let timed: Vec<(&Init, Timings)> = members
        .iter()
        .filter_map(|init| Some((*init, init.timings?)))
        .collect();
    let (last, all) = match timed.len() {
        0 | 1 => by_times_of_day(members),
        _ => by_phases(&timed),
    }?;
    let (init, by_s) = last;
    let mut late: Vec<Begun> = all
        .into_iter()
        .filter(|(_, after_s)| *after_s >= ALIKE * by_s)
        .collect();
    late.sort_by_key(|(init, _)| init.rank);
    let hosts: BTreeSet<&str> = late.iter().map(|(init, _)| init.host.as_str()).collect();
    let of_hosts = |init: &&&Init| hosts.contains(init.host.as_str());
    let there = members.iter().filter(of_hosts).count();
    Some(Late {
        rank: init.rank,
        host: init.host.clone(),
        pid: init.pid,
        by_s,
        own_s: init.timings.map(|timings| timings.total_s),
        ranks: late.iter().map(|(init, _)| init.rank).collect(),
        least_s: late.iter().map(|(_, by_s)| *by_s).fold(by_s, f64::min),
        are_whole_hosts: late.len() == there && late.len() > hosts.len() && !hosts.contains(""),
        hosts: hosts.into_iter().map(str::to_owned).collect(),
    })
}

/// How long a rank was in the init when all met, and which part of that it waited for the last one.
pub(crate) fn until_met(init: &Init, timings: &Timings) -> (f64, f64) {
    let split = init.split.map_or(0.0, |_| timings.phase("rest"));
    let waited = timings.phase("bootstrap") + split;
    (
        timings.phase("kernels") + timings.phase("alloc") + waited,
        waited,
    )
}

/// The last rank, and all of them.
fn by_phases<'a>(timed: &[(&'a Init, Timings)]) -> Option<(Begun<'a>, Vec<Begun<'a>>)> {
    let all = timed
        .iter()
        .map(|(init, timings)| until_met(init, timings).0);
    let longest = all.fold(0.0, f64::max);
    let begun =
        |(init, timings): &(&'a Init, Timings)| (*init, longest - until_met(init, timings).0);
    // Who waited least came last.
    let last = timed.iter().min_by(|a, b| {
        let (a, b) = (until_met(a.0, &a.1).1, until_met(b.0, &b.1).1);
        a.total_cmp(&b)
    })?;
    let last = begun(last);
    (last.1 >= LEAST_S).then(|| (last, timed.iter().map(begun).collect()))
}

fn by_times_of_day<'a>(members: &[&'a Init]) -> Option<(Begun<'a>, Vec<Begun<'a>>)> {
    let begun: Option<Vec<Begun>> = members
        .iter()
        .map(|init| Some((*init, init.started_s?)))
        .collect();
    let mut begun = begun?;
    let first = begun.iter().map(|(_, at)| *at).reduce(f64::min)?;
    begun.iter_mut().for_each(|(_, at)| *at -= first);
    let last = *begun.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (last.1 >= LEAST_OF_DATES_S).then_some((last, begun))
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
    fn all_ranks_that_began_late_are_named_and_whole_hosts_are_told() {
        let on = |rank, host: &str, wait: f64| Init {
            host: host.into(),
            ..init(rank, [0.2, 0.1, wait, 0.1, 0.1, 0.1, 0.2, 0.0])
        };
        let of = |inits: &[Init]| late(&inits.iter().collect::<Vec<_>>()).expect("late ranks");
        let two = of(&[
            on(0, "n0", 9.0),
            on(1, "n0", 0.1),
            on(2, "n0", 1.0),
            on(3, "n0", 8.0),
        ]);
        assert_eq!(
            (two.rank, two.ranks, two.are_whole_hosts),
            (1, vec![1, 2], false)
        );
        assert!((two.by_s - 8.9).abs() < 1e-9 && (two.least_s - 8.0).abs() < 1e-9);
        let host = of(&[
            on(0, "n0", 9.0),
            on(1, "n0", 9.0),
            on(2, "n1", 0.1),
            on(3, "n1", 0.1),
        ]);
        assert_eq!((host.ranks, host.are_whole_hosts), (vec![2, 3], true));
        assert_eq!(host.hosts, ["n1"]);
        // A host of one rank is that rank.
        let one = of(&[on(0, "n0", 9.0), on(1, "n1", 0.1)]);
        assert_eq!((one.ranks, one.are_whole_hosts), (vec![1], false));
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

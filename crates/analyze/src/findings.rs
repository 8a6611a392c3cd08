//! The few sentences that matter: what costs wall time, with its evidence and what to do.
//!
//! Rule: a rank is blamed only if three things hold. Its loss is above zero, also at the lower end of the
//! loss's interval. It is late more than chance gives one of so many ranks (Holm's method, one job in a
//! thousand). And that matters: 1 % of the run, half of its saving, 5 µs an operation. Ends of one operation
//! differ by a few µs between ranks, so less than that proves nothing. A rank that is as late and costs the
//! run nothing is [`hidden`], which is no finding. Where exposed waiting in kernel windows proves what a late
//! rank costs, that decides ([`waited_for`]). Over hosts the evidence says whether their clocks
//! prove who came last, or whether that assumes common ends.

use crate::arrivals::{Arrivals, RankArrivals, LEVEL};
use crate::clocks::Clocks;
use crate::deaths::Death;
use crate::interval::beyond_chance;
use crate::spelling::{percent, time, times};
use crate::standstill::Standstill;
use crate::streams::Streams;
use serde::Serialize;

mod slow_network;
mod stalled;
mod waited_for;

/// Least share of the run.
pub(crate) const LEAST_SHARE: f64 = 0.01;

/// What to do about a rank that launches late.
const HOST_LATE_ADVICE: &str =
    "Look at what its process does before the calls: data loading, Python, \
     a busy or throttled CPU (py-spy top).";

/// A claim with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// `dead_rank`, `standstill`, `late_rank`, `stall`, `slow_network`, `differing_operations`, `clock_step`
    /// or `nccl_memory`, `missing_nvlink`, `far_network_card` or `far_cpus`.
    pub kind: &'static str,
    /// The claim.
    pub sentence: String,
    /// What the job would take less, µs of the wall; null where that is not known.
    pub wall_us: Option<f64>,
    /// 95 % interval of that.
    pub wall_interval_us: Option<(f64, f64)>,
    /// That is an estimate, and no more than this is possible, µs; null for what kernel windows measured.
    pub wall_at_most_us: Option<f64>,
    /// From when to when, µs since the first kernel of the rank that it is about; null where it is all the
    /// time.
    pub when_us: Option<(f64, f64)>,
    /// What it rests on.
    pub evidence: String,
    /// What to do.
    pub advice: String,
}

/// The ranks that are late more than chance gives, by as much as matters. `wall_us` is the length of the run,
/// and `level` the probability of a false alarm.
pub(crate) fn late(arrivals: &Arrivals, wall_us: Option<f64>, level: f64) -> Vec<&RankArrivals> {
    let run_us = run_us(arrivals, wall_us);
    let p = |rank: &&RankArrivals| rank.saving_p.filter(|_| rank.saving_interval_us.is_some());
    let mut late = beyond_chance(&arrivals.ranks, p, level);
    late.retain(|rank| {
        rank.saving_interval_us.is_some_and(|(low, _)| low > 0.0)
            && rank.excess_wall_us >= LEAST_SHARE * run_us
            && rank.excess_wall_us >= 0.5 * rank.saving_wall_us
            && rank.is_beyond_spread()
            // Where the hosts' clocks prove that others came after it, ends are not common.
            && 2 * rank.last_refuted.unwrap_or(0) <= rank.last
    });
    late
}

fn run_us(arrivals: &Arrivals, wall_us: Option<f64>) -> f64 {
    wall_us.unwrap_or(arrivals.transfer_wall_us + arrivals.saving_wall_us)
}

/// What the run loses by this rank and the interval of that, where it is above zero and matters.
fn loss(rank: &RankArrivals, run_us: f64) -> Option<(f64, (f64, f64))> {
    let loss = rank.loss_wall_us.zip(rank.loss_interval_us);
    loss.filter(|(loss, (low, _))| *low > 0.0 && *loss >= LEAST_SHARE * run_us)
}

/// Ranks that are late and cost the run nothing that can be told from zero: sentences.
pub fn hidden(arrivals: &Arrivals, streams: Option<&Streams>, wall_us: Option<f64>) -> Vec<String> {
    if streams.is_some_and(Streams::tells_who) {
        return Vec::new();
    }
    let run_us = run_us(arrivals, wall_us);
    let late = late(arrivals, wall_us, LEVEL).into_iter();
    late.filter(|rank| rank.loss_wall_us.is_some() && loss(rank, run_us).is_none())
        .map(|rank| {
            let interval = rank.loss_interval_us.map_or(String::new(), |(low, high)| {
                format!(" (95 % interval {})", times(low, high))
            });
            format!(
                "{} {} and held them up for {}. Other work hides that: on time, \
                 it would save the job {}{interval}.",
                who(rank),
                arrived_last(rank.last, rank.operations),
                time(rank.saving_wall_us),
                time(rank.loss_wall_us.unwrap_or(0.0)),
            )
        })
        .collect()
}

/// The findings: deaths and what stood still at the end, then what costs wall time, largest first.
/// `differing` is of [`crate::mismatch`], `wall_us` the length of the run. `in_graphs` are calls in CUDA
/// graphs that no time is known of, if that is most calls.
#[allow(clippy::too_many_arguments)]
pub fn findings(
    deaths: &[Death],
    standstill: Option<&Standstill>,
    arrivals: Option<&Arrivals>,
    streams: Option<&Streams>,
    clocks: Option<&Clocks>,
    differing: &[(String, u64)],
    wall_us: Option<f64>,
    in_graphs: Option<u64>,
) -> Vec<Finding> {
    let streams = streams.filter(|streams| streams.tells_who());
    let proved = streams.is_some_and(Streams::proves_who);
    let mut costly = arrivals.map_or(Vec::new(), |arrivals| {
        of_arrivals(arrivals, proved, wall_us, in_graphs)
    });
    costly.extend(streams.map_or(Vec::new(), |streams| {
        waited_for::waited_for(streams, arrivals, wall_us)
    }));
    // A rank that is late as a habit is named once.
    let stalls = arrivals.map_or(Vec::new(), |arrivals| {
        stalled::stalled(arrivals, run_us(arrivals, wall_us), &costly)
    });
    costly.extend(stalls);
    costly.sort_by(|a, b| {
        let wall = |finding: &Finding| finding.wall_us.unwrap_or(0.0);
        wall(b).total_cmp(&wall(a))
    });
    let settings = arrivals.map_or(0, |arrivals| arrivals.differing);
    let mut differing_found = differing_operations(differing, settings);
    let mut found = dead_ranks(deaths);
    // After a death, others wait for the dead.
    if let Some(standstill) = standstill.filter(|_| deaths.is_empty()) {
        match differing_found
            .first_mut()
            .filter(|_| !differing.is_empty())
        {
            // Ranks that made other calls wait for each other: how many is no news then.
            Some(first) => {
                let waited = time(standstill.for_ns as f64 / 1e3);
                first.evidence += &format!(" Ranks waited in the last {waited} of the recording.");
                found.append(&mut differing_found);
            }
            None => found.push(stood_still(standstill)),
        }
    }
    found.append(&mut costly);
    found.append(&mut differing_found);
    found.extend(clocks.and_then(clock_step));
    found
}

/// `proved` says that windows prove what late ranks cost.
fn of_arrivals(
    arrivals: &Arrivals,
    proved: bool,
    wall_us: Option<f64>,
    in_graphs: Option<u64>,
) -> Vec<Finding> {
    let run_us = run_us(arrivals, wall_us);
    let late = if proved {
        Vec::new()
    } else {
        late(arrivals, wall_us, LEVEL)
    };
    let mut found: Vec<Finding> = late
        .into_iter()
        .filter_map(|rank| {
            let loss = loss(rank, run_us)?;
            Some(late_rank(rank, loss, arrivals, wall_us, in_graphs))
        })
        .collect();
    found.extend(slow_network::slow_network(arrivals, run_us));
    found.sort_by(|a, b| {
        let wall = |finding: &Finding| finding.wall_us.unwrap_or(0.0);
        wall(b).total_cmp(&wall(a))
    });
    found
}

/// Deaths that a report names.
const MOST_DEATHS: usize = 4;

/// That ranks died, the first first.
fn dead_ranks(deaths: &[Death]) -> Vec<Finding> {
    let more = deaths.len().saturating_sub(MOST_DEATHS);
    let named = deaths.iter().take(MOST_DEATHS).enumerate();
    named
        .map(|(index, death)| {
            let also = match more {
                more if more > 0 && index + 1 == MOST_DEATHS => format!("; {more} more ranks died"),
                _ => String::new(),
            };
            Finding {
                kind: "dead_rank",
                sentence: death.sentence(),
                wall_us: None,
                wall_interval_us: None,
                wall_at_most_us: None,
                when_us: None,
                evidence: format!(
                    "Its recording has no end, and stops {} before that of the others{also}.",
                    time(death.before_others_ns as f64 / 1e3)
                ),
                advice: format!(
                    "Look at how pid {} on {} ended: in its own log, and in `dmesg` there (out of memory, \
                     Xid). `ncclscope hang` shows how far each rank came.",
                    death.pid, death.host
                ),
            }
        })
        .collect()
}

/// That ranks waited for another one to the end.
fn stood_still(standstill: &Standstill) -> Finding {
    let advice = match &standstill.process {
        Some((pid, host)) => format!(
            "Look at what pid {pid} on {host} did then: its own log, or `py-spy dump` while it lives. \
             `ncclscope hang` shows how far each rank came."
        ),
        None => "Look at what these ranks did then: their own logs, or `py-spy dump` while they live. \
                 `ncclscope hang` shows how far each rank came."
            .to_owned(),
    };
    Finding {
        kind: "standstill",
        sentence: standstill.sentence(),
        wall_us: None,
        wall_interval_us: None,
        wall_at_most_us: None,
        when_us: None,
        evidence: "All calls of all ranks of that communicator are here, and no pause between two calls was \
                   longer before."
            .to_owned(),
        advice,
    }
}

/// Communicators of which a report names the calls that differ.
const MOST_DIFFERING: usize = 4;

/// That ranks made different calls at the same place; or else that their operations differ otherwise, so many
/// of them.
fn differing_operations(differing: &[(String, u64)], chosen: u64) -> Vec<Finding> {
    let finding = |sentence: String, evidence: String, advice: &str| Finding {
        kind: "differing_operations",
        sentence,
        wall_us: None,
        wall_interval_us: None,
        wall_at_most_us: None,
        when_us: None,
        evidence,
        advice: advice.to_owned(),
    };
    if differing.is_empty() && chosen > 0 {
        return vec![finding(
            format!(
                "In {chosen} operations, ranks differ in size, datatype, algorithm or protocol."
            ),
            "These are calls with the same number on the same communicator.".to_owned(),
            "Make the same calls on all ranks, with the same NCCL and the same settings of it.",
        )];
    }
    let more = differing.len().saturating_sub(MOST_DIFFERING);
    let named = differing.iter().take(MOST_DIFFERING).enumerate();
    named
        .map(|(index, (sentence, places))| {
            let also = match more {
                more if more > 0 && index + 1 == MOST_DIFFERING => {
                    format!("; so do ranks on {more} more communicators")
                }
                _ => String::new(),
            };
            finding(
                sentence.clone(),
                format!("{}{also}.", match places {
                    1 => "It is the only place of that communicator where ranks differ".to_owned(),
                    _ => format!(
                        "Ranks differ at {places} places of that communicator, and this is the first"),
                }),
                "Make the same calls in the same order on all ranks: what these do is not defined, \
                 and they may hang.",
            )
        })
        .collect()
}

/// That some host's clock was set while the job ran.
fn clock_step(clocks: &Clocks) -> Option<Finding> {
    let largest = clocks
        .steps
        .iter()
        .max_by(|a, b| a.least_us.total_cmp(&b.least_us))?;
    let more = match clocks.steps.len() {
        1 => String::new(),
        n => format!("; so do {} other windows", n - 1),
    };
    Some(Finding {
        kind: "clock_step",
        sentence: format!(
            "The clocks of {} and {} moved against each other by {} or more, between {:.1} s and {:.1} s: \
             one was set or corrected, or a time is wrong.",
            largest.host,
            largest.against,
            time(largest.least_us),
            largest.from_s,
            largest.until_s,
        ),
        wall_us: None,
        wall_interval_us: None,
        wall_at_most_us: None,
        when_us: None,
        evidence: format!(
            "No offset of the clocks fits all operations of that time, if they run apart by {:.0} ppm at \
             most{more}. Times before and after are kept apart.",
            clocks.frequency_error_ppm
        ),
        advice: "Look at what sets the clocks of these hosts (chronyc tracking, journalctl -u chronyd, \
                 ptp4l), and when: a step, or a correction that is faster than that."
            .to_owned(),
    })
}

/// What it rests on that this rank arrived last.
fn basis(rank: &RankArrivals, arrivals: &Arrivals) -> String {
    let of = rank.last_over_hosts;
    let sample = arrivals.sampled.map_or(String::new(), |all| {
        format!("; {} of all operations were timed", percent(all.share))
    });
    let by = match (of, rank.last_proved) {
        (0, _) => arrivals.basis.to_owned(),
        (_, Some(proved)) if 2 * proved >= of => format!(
            "the hosts' clocks prove that it came last in {proved} of {of} operations over hosts, by {} or \
             more in all; how much that costs: {}",
            time(rank.late_proved_us.unwrap_or(0.0)),
            arrivals.basis
        ),
        (_, Some(proved)) => format!(
            "{}; the hosts' clocks prove it in {proved} of {of} operations over hosts only",
            arrivals.basis
        ),
        (_, None) => format!(
            "{}; nothing bounds the offset of the hosts' clocks",
            arrivals.basis
        ),
    };
    by + &sample
}

pub(crate) fn who(rank: &RankArrivals) -> String {
    name(rank.rank, rank.device, &rank.host, rank.pid)
}

/// A rank as sentences begin with it.
fn name(rank: Option<u32>, device: Option<u32>, host: &str, pid: u32) -> String {
    match (rank, device) {
        (Some(number), None) => format!("Rank {number}"),
        (Some(number), Some(device)) => format!("Rank {number} (GPU {device} on {host})"),
        (None, _) => format!("Pid {pid} on {host}"),
    }
}

/// In how many operations a rank came last.
fn arrived_last(last: u64, of: u64) -> String {
    match last == of {
        true => format!("arrived last in all {of} operations"),
        false => format!("arrived last in {last} of {of} operations"),
    }
}

/// The length of the run, behind what of it is lost.
fn of_run(wall_us: Option<f64>) -> String {
    wall_us.map_or(String::new(), |wall| format!(" of {}", time(wall)))
}

/// What a rank costs the job, of how much.
fn costs(loss_us: f64, wall_us: Option<f64>) -> String {
    let of = of_run(wall_us);
    format!("costs this job {}{of}", time(loss_us))
}

/// The same of a loss that is estimated. One that may be more than twice as much is no figure: both ends are
/// said.
fn costs_about(loss_us: f64, (low, high): (f64, f64), wall_us: Option<f64>) -> String {
    let of = of_run(wall_us);
    if high > 2.0 * loss_us {
        return format!("costs this job {}{of}", times(low, high));
    }
    format!("costs this job about {}{of}", time(loss_us))
}

/// The same of calls that have times, where others have none.
fn costs_more(loss_us: f64, wall_us: Option<f64>) -> String {
    let of = of_run(wall_us);
    format!("costs this job {} or more{of}", time(loss_us))
}

/// What a rank costs together with another one that is late too. What one of them costs is what it is later
/// than the other.
fn both(rank: &RankArrivals, loss_us: f64, wall_us: Option<f64>) -> String {
    let more = |both: &f64| both - loss_us >= LEAST_SHARE * wall_us.unwrap_or(f64::INFINITY);
    let known = rank.with_other.filter(|(_, both)| more(both));
    known.map_or(String::new(), |(other, both)| {
        let other = other.map_or("another rank".to_owned(), |rank| format!("rank {rank}"));
        format!(
            " This is with {other} as late as it is: it is late, too. With both in time the job would take \
             about {} less.",
            time(both)
        )
    })
}

/// What bounds an estimate.
fn estimate(most_us: Option<f64>) -> String {
    let most = most_us.map_or(String::new(), |us| format!(", and {} at most", time(us)));
    format!("The cost is an estimate{most}: too few compute kernels were recorded to measure it.")
}

/// Which operations a rank is late to, of those that it is in.
fn late_to(last: u64, of: u64) -> &'static str {
    match last as f64 {
        last if last >= 0.95 * of as f64 => "every collective",
        last if last >= 0.5 * of as f64 => "most collectives",
        last if last >= 0.2 * of as f64 => "many collectives",
        _ => "some collectives",
    }
}

fn late_rank(
    rank: &RankArrivals,
    (loss, (low, high)): (f64, (f64, f64)),
    arrivals: &Arrivals,
    wall_us: Option<f64>,
    in_graphs: Option<u64>,
) -> Finding {
    let inherited = rank.mostly_inherited().map_or(String::new(), |from| {
        format!(" Beside that it was late because of other operations: {from}.")
    });
    let own_cost = (rank.cost_rank_us - rank.inherited_rank_us).max(0.0);
    let known = rank.launched_late_us + rank.gpu_busy_us;
    let to = late_to(rank.last, rank.operations);
    let (reason, advice) = if known < 0.5 * rank.saving_wall_us {
        (
            format!("it comes late to {to}, and why is not known"),
            "Look at what this rank does before its calls: data loading, Python, other GPU work.",
        )
    } else if rank.launched_late_us >= rank.gpu_busy_us {
        (format!("its host launches {to} late"), HOST_LATE_ADVICE)
    } else {
        (
            format!("its GPU is busy with other work before {to}"),
            "Compare its GPU with another's: extra kernels, clocks, \
             temperature (nvidia-smi -q -d PERFORMANCE).",
        )
    };
    let (costs, more) = match in_graphs {
        None => (costs_about(loss, (low, high), wall_us), String::new()),
        Some(calls) => (
            costs_more(loss, wall_us),
            format!(
                " That is of calls with times: {calls} calls in CUDA graphs have none, and what it costs \
                 there comes on top."
            ),
        ),
    };
    let most_us = rank.loss_at_most_us.filter(|_| in_graphs.is_none());
    Finding {
        kind: "late_rank",
        sentence: format!("{} {costs}: {reason}.", who(rank)),
        wall_us: Some(loss),
        wall_interval_us: Some((low, high)).filter(|_| in_graphs.is_none()),
        wall_at_most_us: most_us,
        when_us: None,
        evidence: format!(
            "It {} and held them up for {}; other work may hide a part of that. The others waited {} for it, \
             summed over ranks. {} 95 % interval: {}. Basis: {}.{more}{inherited}{}",
            arrived_last(rank.last, rank.operations),
            time(rank.saving_wall_us),
            time(own_cost),
            estimate(most_us),
            times(low, high),
            basis(rank, arrivals),
            both(rank, loss, wall_us)
        ),
        advice: advice.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(number: u32, saving: f64, p: f64) -> RankArrivals {
        RankArrivals {
            rank: Some(number),
            operations: 100,
            last: 80,
            cost_rank_us: saving * 7.0,
            saving_wall_us: saving,
            excess_wall_us: saving,
            saving_interval_us: Some((0.9 * saving, 1.1 * saving)),
            saving_p: Some(p),
            loss_wall_us: Some(0.5 * saving),
            loss_interval_us: Some((0.4 * saving, 0.6 * saving)),
            launched_late_us: saving,
            ..RankArrivals::default()
        }
    }

    fn arrivals(ranks: Vec<RankArrivals>) -> Arrivals {
        Arrivals {
            basis: crate::arrivals::BASIS,
            operations: 100,
            differing: 0,
            transfer_wall_us: 1e5,
            wait_rank_us: 0.0,
            saving_wall_us: 0.0,
            sampled: None,
            ranks,
            stalls: Vec::new(),
            links: Vec::new(),
            over_network: None,
        }
    }

    #[test]
    fn only_what_is_proved_and_matters_is_said() {
        let late = rank(3, 50_000.0, 1e-6);
        let all = arrivals(vec![
            late.clone(),
            rank(1, 40_000.0, 0.2),
            rank(2, 300.0, 1e-6),
        ]);
        let found = findings(&[], None, Some(&all), None, None, &[], Some(1e6), None);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].sentence,
            "Rank 3 costs this job about 25.0 ms of 1.00 s: its host launches most collectives late."
        );
        assert!(found[0]
            .evidence
            .starts_with("It arrived last in 80 of 100 operations"));
        // Most calls are in graphs, and have no times.
        let some = findings(&[], None, Some(&all), None, None, &[], Some(1e6), Some(900));
        assert!(some[0]
            .sentence
            .contains(" costs this job 25.0 ms or more of 1.00 s: "));
        assert!(some[0]
            .evidence
            .contains("900 calls in CUDA graphs have none"));
        assert_eq!(some[0].wall_interval_us, None);
        // An interval that reaches zero proves nothing.
        let wide = RankArrivals {
            loss_interval_us: Some((-1.0, 1e5)),
            ..late
        };
        let wide = arrivals(vec![wide]);
        assert!(findings(&[], None, Some(&wide), None, None, &[], Some(1e6), None).is_empty());
        assert_eq!(hidden(&wide, None, Some(1e6)).len(), 1);
        assert!(hidden(&all, None, Some(1e6)).is_empty());
        assert!(findings(&[], None, None, None, None, &[], None, None).is_empty());
    }
}

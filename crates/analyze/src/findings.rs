//! The few claims that matter: what costs wall time, with its evidence and what to do.
//!
//! [`findings`] decides what is one, and makes a [`Finding`] of facts. Sentences are made of them in
//! `render::findings`.
//!
//! Rule: a rank is blamed only if three things hold. Its loss is above zero, also at the lower end of the
//! loss's interval. It is late more than chance gives one of so many ranks (Holm's method, one job in a
//! thousand). And that matters: 1 % of the run, half of its saving, 5 µs an operation. Ends of one operation
//! differ by a few µs between ranks, so less than that proves nothing. A rank that is as late and costs the
//! run nothing is [`hidden`], which is no finding. If the account of the steps says what late ranks cost,
//! that decides ([`settling`]). Over hosts the evidence says whether their clocks prove who came last, or
//! whether that assumes common ends.

use crate::account::Account;
use crate::account::LEAST_SHARE;
use crate::arrivals::{Arrivals, RankArrivals, LEVEL};
use crate::clocks::Clocks;
use crate::deaths::Death;
use crate::hang::Verdict;
use crate::interval::beyond_chance;
use crate::mismatch::Differing;
use crate::standstill::Standstill;

mod account;
mod below_ceiling;
pub(crate) mod busy_gpu;
mod by_rank;
mod facts;
mod identity;
mod naming;
mod nccl_memory;
mod slow_network;
mod stalled;
mod topology;

pub use crate::account::Cause;
pub use crate::subject::{CallId, CommunicatorId, Peer, RankId, Subject, Way};
pub(crate) use below_ceiling::below_ceiling;
pub use busy_gpu::{BusierBy, BusyGpu};
pub(crate) use by_rank::judge;
pub use facts::{
    Advice, BelowCeiling, Candidate, CandidateName, ClockProof, Evidence, Finding, Gain,
    GainSource, InSteps, Kind, Late, LateByArrivals, Limit, Loss, Method, SlowLink, Stalls,
    Unequal,
};
pub use identity::Identity;
pub use naming::name;
pub(crate) use nccl_memory::nccl_memory;
pub(crate) use topology::topology;

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

/// Ranks that are late and cost the run nothing that can be told from zero: other work hides it.
pub fn hidden(arrivals: &Arrivals, wall_us: Option<f64>) -> Vec<&RankArrivals> {
    let run_us = run_us(arrivals, wall_us);
    let mut late = late(arrivals, wall_us, LEVEL);
    late.retain(|rank| rank.loss_wall_us.is_some() && loss(rank, run_us).is_none());
    late
}

/// The findings: deaths and what stood still at the end, then what costs wall time, largest first.
/// `differing` is of [`crate::mismatch`], `wall_us` the length of the run. `in_graphs` are calls in CUDA
/// graphs that no time is known of, if that is most calls. `below_ceiling` are of [`below_ceiling()`].
///
/// What late ranks cost has one price: that of the account of the steps if it settles that, else that of the
/// GPU times of calls.
#[allow(clippy::too_many_arguments)]
pub fn findings(
    deaths: &[Death],
    standstill: Option<&Standstill>,
    account: Option<&Account>,
    arrivals: Option<&Arrivals>,
    clocks: Option<&Clocks>,
    differing: &[Differing],
    wall_us: Option<f64>,
    in_graphs: Option<u64>,
    below_ceiling: Vec<Finding>,
) -> Vec<Finding> {
    let slow = account.map_or(Vec::new(), |account| account::slow(account, wall_us));
    let unsettled = account.filter(|account| !account.settles);
    let account = settling(account, arrivals);
    let mut costly = arrivals.map_or(Vec::new(), |arrivals| {
        of_arrivals(arrivals, account.is_some(), wall_us, in_graphs)
    });
    let mut late = account.map_or(Vec::new(), |account| account::late(account, wall_us));
    if let Some(arrivals) = arrivals {
        add_clocks(&mut late, arrivals);
    }
    costly.append(&mut late);
    // What the network's own times say is nearer to the cause.
    if !costly.iter().any(|of| of.kind() == Kind::SlowNetwork) {
        costly.extend(slow);
    }
    // A rank that is late as a habit is named once. The account has the stalls of steps, but no start-up.
    let stalls = arrivals.map_or(Vec::new(), |arrivals| {
        let run_us = run_us(arrivals, wall_us);
        stalled::stalled(arrivals, run_us, &costly, account.is_some())
    });
    costly.extend(stalls);
    // If nothing else is known of late ranks, the stalls of steps are.
    if costly.iter().all(|of| of.kind() == Kind::SlowNetwork) {
        costly.extend(unsettled.map_or(Vec::new(), |account| account::late(account, wall_us)));
    }
    costly.extend(below_ceiling);
    sort(&mut costly);
    let settings = arrivals.map_or(0, |arrivals| arrivals.differing);
    // After a death, others wait for the dead.
    let standstill = standstill.filter(|_| deaths.is_empty());
    let told = |of: &&Differing| standstill.is_some_and(|standstill| standstill.is_at(of));
    let others: Vec<&Differing> = differing.iter().filter(|of| !told(of)).collect();
    let is_told = others.len() < differing.len();
    let settings = if is_told { 0 } else { settings };
    let mut differing_found = differing_operations(&others, settings);
    let mut found = dead_ranks(deaths);
    if let Some(standstill) = standstill {
        found.push(stood_still(
            standstill,
            is_told || differing_found.is_empty(),
        ));
        if let Some(Evidence::Differing { stood_still_ns, .. }) =
            differing_found.first_mut().map(|first| &mut first.evidence)
        {
            *stood_still_ns = Some(standstill.lasted.whole()).filter(|_| !is_told);
            found.append(&mut differing_found);
        }
    }
    found.append(&mut costly);
    found.append(&mut differing_found);
    found.extend(clocks.and_then(clock_step));
    found
}

/// The account, if it says what late ranks cost, and no clocks over hosts refute that a rank which it blames
/// came last. Then arrivals say it.
pub fn settling<'a>(
    account: Option<&'a Account>,
    arrivals: Option<&Arrivals>,
) -> Option<&'a Account> {
    let account = account.filter(|account| account.settles)?;
    let blamed = |row: &RankArrivals| {
        let is = |rank: &usize| account.ranks[*rank].id() == row.id();
        account.late().flat_map(|answer| &answer.ranks).any(is)
    };
    let refuted = |row: &RankArrivals| blamed(row) && 2 * row.last_refuted.unwrap_or(0) > row.last;
    let is_refuted = arrivals.is_some_and(|arrivals| arrivals.ranks.iter().any(refuted));
    (!is_refuted).then_some(account)
}

/// `proved` says that something better says what late ranks cost.
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
    sort(&mut found);
    found
}

/// Largest loss first.
fn sort(found: &mut [Finding]) {
    let wall = |finding: &Finding| finding.wall_us().unwrap_or(0.0);
    found.sort_by(|a, b| wall(b).total_cmp(&wall(a)));
}

/// Without a loss, a time or a cause.
fn plain(subject: Subject, evidence: Evidence, advice: Advice) -> Finding {
    Finding {
        subject,
        loss: None,
        when_us: None,
        cause: None,
        evidence,
        advice,
    }
}

/// Deaths that a report names.
const MOST_DEATHS: usize = 4;

/// So many things of which the last one named says how many more there are.
fn more_than(most: usize, all: usize, index: usize) -> usize {
    if index + 1 == most {
        all - most
    } else {
        0
    }
}

/// That ranks died, the first first.
fn dead_ranks(deaths: &[Death]) -> Vec<Finding> {
    let named = deaths.iter().take(MOST_DEATHS).enumerate();
    named
        .map(|(index, death)| {
            let subject = Subject {
                communicator: Some(CommunicatorId::of(&death.communicator)),
                ..Subject::of(RankId {
                    process: death.process.clone(),

                    ..RankId::default()
                })
            };
            let evidence = Evidence::Death {
                death: death.clone(),
                more: more_than(MOST_DEATHS, deaths.len(), index),
            };
            plain(subject, evidence, Advice::SeeHowItEnded)
        })
        .collect()
}

/// That the job stood still at its end. `alone`: no other finding is about these calls.
fn stood_still(standstill: &Standstill, alone: bool) -> Finding {
    let advice = match standstill.hang.verdict {
        Verdict::Mismatch(_) | Verdict::Cycle(_) if alone => Advice::SameOrder,
        _ => Advice::SeeWhatItDid,
    };
    let subject = Subject {
        ranks: standstill.missing.clone(),
        communicator: Some(CommunicatorId::of(&standstill.communicator)),
        ..Subject::default()
    };
    plain(subject, Evidence::Standstill(standstill.clone()), advice)
}

/// Communicators of which a report names the calls that differ.
const MOST_DIFFERING: usize = 4;

/// That ranks made different calls at the same place; or else that their operations differ otherwise, so many
/// of them.
fn differing_operations(differing: &[&Differing], chosen: u64) -> Vec<Finding> {
    if differing.is_empty() && chosen > 0 {
        let evidence = Evidence::DifferingSettings(chosen);
        return vec![plain(Subject::default(), evidence, Advice::SameSettings)];
    }
    let named = differing.iter().take(MOST_DIFFERING).enumerate();
    named
        .map(|(index, first)| {
            let subject = Subject {
                ranks: first.rank.clone().into_iter().collect(),
                communicator: Some(CommunicatorId::of(&first.communicator)),
                ..Subject::default()
            };
            let evidence = Evidence::Differing {
                first: (*first).clone(),
                more: more_than(MOST_DIFFERING, differing.len(), index),
                stood_still_ns: None,
            };
            plain(subject, evidence, Advice::SameOrder)
        })
        .collect()
}

/// That some host's clock was set while the job ran.
fn clock_step(clocks: &Clocks) -> Option<Finding> {
    let largest = clocks
        .steps
        .iter()
        .max_by(|a, b| a.least_us.total_cmp(&b.least_us))?;
    let subject = Subject {
        hosts: vec![largest.host.clone(), largest.against.clone()],
        ..Subject::default()
    };
    let evidence = Evidence::Clocks {
        least_us: largest.least_us,
        between_s: (largest.from_s, largest.until_s),
        more: clocks.steps.len() - 1,
        frequency_error_ppm: clocks.frequency_error_ppm,
    };
    Some(plain(subject, evidence, Advice::CheckClocks))
}

/// Another rank that is late too and what both cost, if that is so much more that it matters. What one of
/// them costs is what it is later than the other.
fn with_other(
    rank: &RankArrivals,
    loss_us: f64,
    wall_us: Option<f64>,
) -> Option<(Option<u32>, f64)> {
    let more = |both: &f64| both - loss_us >= LEAST_SHARE * wall_us.unwrap_or(f64::INFINITY);
    rank.with_other.filter(|(_, both)| more(both))
}

fn clock_proof(rank: &RankArrivals) -> ClockProof {
    ClockProof {
        operations: rank.last_over_hosts,
        proved: rank.last_proved,
        late_us: rank.late_proved_us.unwrap_or(0.0),
    }
}

/// Adds what clocks prove to what the account says of a rank.
fn add_clocks(found: &mut [Finding], arrivals: &Arrivals) {
    for finding in found {
        let subject = &finding.subject;
        let row = subject.ranks.first().and_then(|id| {
            let mut rows = arrivals.ranks.iter();
            rows.find(|row| row.id() == *id)
        });
        if let (Evidence::Late(late), Some(row)) = (&mut finding.evidence, row) {
            late.clocks = clock_proof(row);
        }
    }
}

fn late_rank(
    rank: &RankArrivals,
    (loss, interval): (f64, (f64, f64)),
    arrivals: &Arrivals,
    wall_us: Option<f64>,
    in_graphs: Option<u64>,
) -> Finding {
    let [launched_late, gpu_busy] =
        [rank.launched_late_us, rank.gpu_busy_us].map(|us| us.unwrap_or(0.0));
    let known = launched_late + gpu_busy;
    let (cause, advice) = if known < 0.5 * rank.saving_wall_us {
        (Cause::Unknown, Advice::ProfileRank)
    } else if launched_late >= gpu_busy {
        (Cause::Host, Advice::ProfileHost)
    } else {
        (Cause::Gpu, Advice::CompareGpu)
    };
    let sampled = arrivals.sampled.map(|all| all.share);
    let inherited = if rank.is_mostly_inherited() {
        rank.inherited_from.clone()
    } else {
        Vec::new()
    };
    Finding {
        subject: Subject::of(rank.id()),
        loss: Some(Loss {
            wall_us: loss,
            interval_us: Some(interval).filter(|_| in_graphs.is_none()),
            at_most_us: rank.loss_at_most_us.filter(|_| in_graphs.is_none()),
            method: Method::WhatIf,
            coverage: Some(sampled.unwrap_or(1.0)).filter(|_| in_graphs.is_none()),
            untimed_in_graphs: in_graphs,
            run_us: wall_us,
        }),
        when_us: None,
        cause: Some(cause),
        evidence: Evidence::Late(Late {
            last: rank.last,
            operations: rank.operations,
            of_all: arrivals.operations,
            with_other: with_other(rank, loss, wall_us),
            clocks: clock_proof(rank),
            arrivals: Some(LateByArrivals {
                held_up_us: rank.saving_wall_us,
                waited_rank_us: (rank.cost_rank_us - rank.inherited_rank_us).max(0.0),
                inherited,
                sampled,
            }),
            ..Late::default()
        }),
        advice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::ProcessId;

    fn rank(number: u32, saving: f64, p: f64) -> RankArrivals {
        RankArrivals {
            process: ProcessId {
                rank: Some(number),
                ..ProcessId::default()
            },
            operations: 100,
            last: 80,
            cost_rank_us: saving * 7.0,
            saving_wall_us: saving,
            excess_wall_us: saving,
            saving_interval_us: Some((0.9 * saving, 1.1 * saving)),
            saving_p: Some(p),
            loss_wall_us: Some(0.5 * saving),
            loss_interval_us: Some((0.4 * saving, 0.6 * saving)),
            launched_late_us: Some(saving),
            gpu_busy_us: Some(0.0),
            ..RankArrivals::default()
        }
    }

    fn arrivals(ranks: Vec<RankArrivals>) -> Arrivals {
        Arrivals {
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
        let found_with = |in_graphs| {
            let arrivals = Some(&all);
            findings(
                &[],
                None,
                None,
                arrivals,
                None,
                &[],
                Some(1e6),
                in_graphs,
                vec![],
            )
        };
        let found = found_with(None);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].rank(), found[0].cause),
            (Some(3), Some(Cause::Host))
        );
        let loss = found[0].loss.as_ref().expect("a loss");
        assert_eq!((loss.wall_us, loss.run_us), (25e3, Some(1e6)));
        assert_eq!(loss.untimed_in_graphs, None);
        // Most calls are in graphs, and have no times.
        let some = found_with(Some(900));
        let loss = some[0].loss.as_ref().expect("a loss");
        assert_eq!(loss.untimed_in_graphs, Some(900));
        assert_eq!((loss.interval_us, loss.coverage), (None, None));
        // An interval that reaches zero proves nothing.
        let wide = RankArrivals {
            loss_interval_us: Some((-1.0, 1e5)),
            ..late
        };
        let wide = arrivals(vec![wide]);
        assert!(findings(
            &[],
            None,
            None,
            Some(&wide),
            None,
            &[],
            Some(1e6),
            None,
            vec![]
        )
        .is_empty());
        assert_eq!(hidden(&wide, Some(1e6)).len(), 1);
        assert!(hidden(&all, Some(1e6)).is_empty());
        assert!(findings(&[], None, None, None, None, &[], None, None, vec![]).is_empty());
    }
}

//! A rank that costs the job time, by the account of its steps.

use super::{
    Advice, Cause, CommunicatorId, Evidence, Finding, InSteps, Late, Loss, Method, RankId,
    SlowLink, Stalls, Subject, Unequal,
};
use crate::account::LEAST_SHARE;
use crate::account::{self, Account, Answer, Source};

/// A rank whose steps stall more often than in this part of them is late as a habit.
const SELDOM: f64 = 0.08;

/// The ranks that cost so much that it matters; `wall_us` is the length of the run, of which the steps of
/// the account may be a small part.
pub fn late(account: &Account, wall_us: Option<f64>) -> Vec<Finding> {
    let of = |answer: &Answer| match answer.ranks[..] {
        [rank] => one(account, answer, rank, wall_us),
        _ => several(account, answer, wall_us),
    };
    let least = LEAST_SHARE * wall_us.unwrap_or(0.0);
    let late = account.late().filter(|answer| answer.sure_us >= least);
    late.map(of).collect()
}

/// The communicators whose transfers are slow, and cost so much that it matters.
pub fn slow(account: &Account, wall_us: Option<f64>) -> Vec<Finding> {
    account
        .slow()
        .map(|of| slow_link(account, of, wall_us))
        .collect()
}

fn slow_link(account: &Account, of: &account::SlowLink, wall_us: Option<f64>) -> Finding {
    let (slow, _) = of.transfers;
    let ranks = of.ranks.iter().map(|rank| account.ranks[*rank].id());
    let total = |us: f64| us * slow as f64;
    Finding {
        subject: Subject {
            ranks: ranks.collect(),
            communicator: Some(CommunicatorId::of(&of.communicator)),
            ..Subject::default()
        },
        loss: Some(Loss {
            wall_us: of.loss_us,
            interval_us: Some(of.interval_us),
            at_most_us: None,
            method: Method::Account,
            coverage: Some(wall_us.map_or(1.0, |run| (account.wall_us / run).min(1.0))),
            untimed_in_graphs: None,
            run_us: wall_us,
        }),
        when_us: of.when_us,
        cause: None,
        evidence: Evidence::Link(SlowLink {
            operations: slow,
            transfer_us: total(of.transfer_us.0),
            held_us: total(of.transfer_us.0),
            others_us: total(of.transfer_us.1),
        }),
        advice: Advice::CheckNetwork,
    }
}

fn one(account: &Account, answer: &Answer, rank: usize, wall_us: Option<f64>) -> Finding {
    let steps = InSteps {
        steps: account.steps,
        wall_us: account.wall_us,
        stalls: answer.stalls,
        stalls_us: answer.stalls_us,
        slowing_us: answer.slowing_us,
        still: still(account, rank),
        timed: account.timed,
        launched_share: answer.launched_share,
        host_longer_us: answer.host_longer_us,
        hosts_need_us: answer.hosts_need_us,
    };
    let seldom = (answer.stalls as f64) < SELDOM * account.steps as f64;
    let stalls = answer
        .longest_us
        .filter(|_| seldom && 2.0 * answer.stalls_us > answer.loss_us);
    let (last, operations) = answer.last;
    let (evidence, when_us) = match stalls {
        Some((longest_us, from)) => (
            Evidence::Stalls(Stalls {
                operations: last,
                of_all: operations,
                times: answer.stalls,
                at_start: false,
                held_up_us: answer.stalls_us,
                longest_us,
                usual_us: account.wall_us / account.steps.max(1) as f64,
                steps: Some(steps),
            }),
            Some((from, from + longest_us)),
        ),
        None => (
            Evidence::Late(Late {
                last,
                operations,
                of_all: operations,
                in_sends: 2 * answer.sends > operations,
                with_other: answer
                    .with_other
                    .map(|(lane, us)| (account.ranks[lane].process.rank, us)),
                steps: Some(steps),
                ..Late::default()
            }),
            None,
        ),
    };
    Finding {
        subject: Subject::of(account.ranks[rank].id()),
        loss: Some(loss(account, answer, wall_us)),
        when_us,
        cause: Some(answer.cause),
        evidence,
        advice: match (answer.cause, stalls) {
            (cause, None) => against(cause, shares_gpu(account)),
            (Cause::Gpu, Some(_)) => Advice::SeeStallOnGpu,
            (_, Some(_)) => Advice::SeeStallOnHost,
        },
    }
}

/// Ranks of a group, or ranks that are late in turns.
fn several(account: &Account, answer: &Answer, wall_us: Option<f64>) -> Finding {
    let ranks = answer.ranks.iter().map(|rank| account.ranks[*rank].id());
    let ranks: Vec<RankId> = ranks.collect();
    let names = ranks.iter().filter_map(|id| id.process.rank);
    let names: Vec<String> = names.map(|rank| rank.to_string()).collect();
    Finding {
        evidence: Evidence::Unequal(Unequal {
            source: answer.source,
            ranks: account.ranks.len() as u64,
            steps: account.steps,
            wall_us: account.wall_us,
            in_turns: ranks.is_empty(),
        }),
        subject: Subject {
            group: (!ranks.is_empty()).then(|| names.join(",")),
            ranks,
            ..Subject::default()
        },
        loss: Some(loss(account, answer, wall_us)),
        when_us: None,
        cause: Some(answer.cause),
        advice: if answer.ranks.is_empty() {
            Advice::EqualWork
        } else {
            against(answer.cause, shares_gpu(account))
        },
    }
}

/// What the answer says is lost.
fn loss(account: &Account, answer: &Answer, run_us: Option<f64>) -> Loss {
    Loss {
        wall_us: answer.loss_us,
        interval_us: Some(answer.interval_us),
        at_most_us: None,
        method: match answer.source {
            Source::Replay | Source::Windows | Source::Sample => Method::WhatIf,
            _ => Method::Account,
        },
        coverage: Some(run_us.map_or(1.0, |run| (account.wall_us / run).min(1.0))),
        untimed_in_graphs: None,
        run_us,
    }
}

/// What to do about a rank that is late for this reason. `shares_gpu`: all ranks are on one GPU.
fn against(cause: Cause, shares_gpu: bool) -> Advice {
    match cause {
        Cause::Host => Advice::ProfileHost,
        Cause::Gpu if shares_gpu => Advice::CompareKernels,
        Cause::Gpu => Advice::CompareGpu,
        Cause::Unknown => Advice::ProfileRank,
    }
}

/// Whether all ranks are on one GPU: its clocks are the same for all.
fn shares_gpu(account: &Account) -> bool {
    let mut gpus = account
        .ranks
        .iter()
        .map(|rank| (&rank.process.host, rank.device));
    let first = gpus.next();
    first.is_some_and(|(_, device)| device.is_some()) && gpus.all(|gpu| Some(gpu) == first)
}

/// The shares of the wall that the rank stood still, and the others on average.
fn still(account: &Account, late: usize) -> (f64, f64) {
    let share = |rank: usize| account.ranks[rank].still_us() / account.wall_us;
    let others = (0..account.ranks.len()).filter(|rank| *rank != late);
    let n = account.ranks.len().saturating_sub(1).max(1);
    (share(late), others.map(share).sum::<f64>() / n as f64)
}

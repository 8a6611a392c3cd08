//! A rank that costs the job time, by the account of its steps.

use super::{
    Advice, Cause, Evidence, Finding, InSteps, Late, Loss, Method, RankId, Stalls, Subject, Unequal,
};
use crate::account::{Account, Answer, LEAST_HALF, MATTERS};

/// The rank that costs most, if that matters; `wall_us` is the length of the run.
pub fn late(account: &Account, wall_us: Option<f64>) -> Option<Finding> {
    let answer = account.late()?;
    let steps = InSteps {
        steps: account.steps,
        wall_us: account.wall_us,
        stalls: answer.stalls,
        stalls_us: answer.stalls_us,
        still: still(account, answer),
        timed: timed(account),
    };
    let stalls = answer
        .longest_us
        .filter(|_| 2.0 * answer.stalls_us > answer.loss_us);
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
                steps: Some(steps),
                ..Late::default()
            }),
            None,
        ),
    };
    Some(Finding {
        subject: Subject::of(RankId {
            rank: answer.rank,
            host: answer.host.clone(),
            pid: answer.pid,
            device: answer.device,
            gpu: None,
        }),
        loss: Some(Loss {
            wall_us: answer.loss_us,
            interval_us: Some(answer.interval_us),
            method: Method::Account,
            ..of_steps(account, wall_us)
        }),
        when_us,
        cause: Some(answer.cause),
        evidence,
        advice: match (answer.cause, stalls) {
            (cause, None) => against(cause),
            (Cause::Gpu, Some(_)) => Advice::SeeStallOnGpu,
            (_, Some(_)) => Advice::SeeStallOnHost,
        },
    })
}

/// Ranks that cost time in a job whose ranks don't all meet in the same operations, if that matters.
pub fn unequal(account: &Account, wall_us: Option<f64>) -> Option<Finding> {
    let equal = account
        .equal
        .as_ref()
        .filter(|equal| equal.share >= MATTERS)?;
    let us = equal.loss_us;
    let ranks: Vec<RankId> = equal
        .late
        .iter()
        .map(|rank| account.ranks[*rank].id())
        .collect();
    let group = (ranks.len() > 1).then(|| {
        let names = ranks
            .iter()
            .filter_map(|id| id.rank)
            .map(|rank| rank.to_string());
        names.collect::<Vec<_>>().join(",")
    });
    let cause = equal.cause;
    Some(Finding {
        evidence: Evidence::Unequal(Unequal {
            ranks: account.ranks.len() as u64,
            steps: account.steps,
            wall_us: account.wall_us,
            in_turns: ranks.is_empty(),
        }),
        subject: Subject {
            ranks,
            group,
            ..Subject::default()
        },
        loss: Some(Loss {
            wall_us: us,
            interval_us: Some(((1.0 - LEAST_HALF) * us, (1.0 + LEAST_HALF) * us)),
            method: Method::WhatIf,
            ..of_steps(account, wall_us)
        }),
        when_us: None,
        cause: Some(cause),
        advice: match equal.late.is_empty() {
            true => Advice::EqualWork,
            false => against(cause),
        },
    })
}

/// A loss of nothing, by the steps of the account.
fn of_steps(account: &Account, run_us: Option<f64>) -> Loss {
    Loss {
        wall_us: 0.0,
        interval_us: None,
        at_most_us: None,
        method: Method::Account,
        coverage: Some(run_us.map_or(1.0, |run| (account.wall_us / run).min(1.0))),
        untimed_in_graphs: None,
        run_us,
    }
}

/// What to do about a rank that is late for this reason.
fn against(cause: Cause) -> Advice {
    match cause {
        Cause::Host => Advice::ProfileHost,
        Cause::Gpu => Advice::CompareGpu,
        Cause::Unknown => Advice::ProfileRank,
    }
}

/// The shares of the wall that the rank stood still, and the others on average.
fn still(account: &Account, answer: &Answer) -> (f64, f64) {
    let (mut own, mut others) = (0.0, (0.0, 0u64));
    for rank in &account.ranks {
        let share = rank.still_us() / account.wall_us;
        match (&rank.host, rank.pid, rank.device) == (&answer.host, answer.pid, answer.device) {
            true => own = share,
            false => others = (others.0 + share, others.1 + 1),
        }
    }
    (own, others.0 / others.1.max(1) as f64)
}

/// The part of the launches whose exposed time is known, on the rank with the smallest one.
fn timed(account: &Account) -> f64 {
    account
        .ranks
        .iter()
        .map(|rank| rank.known_share)
        .fold(1.0, f64::min)
}

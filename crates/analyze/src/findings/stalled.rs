//! A rank that came late once, a few times, or while the job started.
//!
//! Rule: there is a finding only if the run loses 1 % of its time by the stall, and if no other finding is
//! about that rank.

use super::{Advice, Cause, Evidence, Finding, Kind, Loss, Method, Stalls, Subject};
use crate::account::LEAST_SHARE;
use crate::arrivals::{Arrivals, Stall};

/// The findings, largest loss first; `others` are those that are there already, `run_us` is the length of the
/// run. If the account says what stalls of steps cost, there are only those `of_start`.
pub(super) fn stalled(
    arrivals: &Arrivals,
    run_us: f64,
    others: &[Finding],
    of_start: bool,
) -> Vec<Finding> {
    let matters = |stall: &&Stall| {
        stall.loss_wall_us >= LEAST_SHARE * run_us && (stall.at_start || !of_start)
    };
    let stalls = arrivals.stalls.iter().filter(matters);
    let found = stalls.filter_map(|stall| {
        let who = stall.id();
        let is_late = |other: &&Finding| matches!(other.kind(), Kind::LateRank | Kind::Stall);
        let mut late = others.iter().filter(is_late);
        let known = late.any(|other| other.subject.rank() == Some(&who));
        (!known).then(|| finding(stall, arrivals, run_us))
    });
    found.collect()
}

fn finding(stall: &Stall, arrivals: &Arrivals, run_us: f64) -> Finding {
    let is_most = |part: Option<f64>| part.is_some_and(|us| us >= 0.5 * stall.held_up_us);
    let by_host = is_most(stall.launched_late_us);
    let by_gpu = is_most(stall.gpu_busy_us);
    let cause = match (by_host, by_gpu) {
        (true, _) => Cause::Host,
        (_, true) => Cause::Gpu,
        _ => Cause::Unknown,
    };
    Finding {
        subject: Subject::of(stall.id()),
        loss: Some(Loss {
            wall_us: stall.loss_wall_us,
            interval_us: None,
            at_most_us: None,
            method: Method::WhatIf,
            coverage: arrivals.sampled.map_or(Some(1.0), |all| Some(all.share)),
            untimed_in_graphs: None,
            run_us: Some(run_us),
        }),
        when_us: Some(stall.when_us),
        cause: Some(cause),
        evidence: Evidence::Stalls(Stalls {
            operations: stall.operations,
            of_all: arrivals.operations,
            times: stall.times,
            at_start: stall.at_start,
            held_up_us: stall.held_up_us,
            longest_us: stall.longest_us,
            usual_us: stall.usual_us,
            steps: None,
        }),
        advice: if by_gpu {
            Advice::SeeStallOnGpu
        } else {
            Advice::SeeStallOnHost
        },
    }
}

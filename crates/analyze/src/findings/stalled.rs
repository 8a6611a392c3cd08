//! A rank that came late once, a few times, or while the job started.
//!
//! Rule: there is a finding only if the run loses 1 % of its time by the stall, and if no other finding is
//! about that rank.

use super::{costs, name, Finding, LEAST_SHARE};
use crate::arrivals::{Arrivals, Stall};
use crate::spelling::{time, times};

/// The findings, largest loss first; `others` are those that are there already, `run_us` is the length of the
/// run.
pub(super) fn stalled(arrivals: &Arrivals, run_us: f64, others: &[Finding]) -> Vec<Finding> {
    let matters = |stall: &&Stall| stall.loss_wall_us >= LEAST_SHARE * run_us;
    let stalls = arrivals.stalls.iter().filter(matters);
    let found = stalls.filter_map(|stall| {
        let who = name(stall.rank, stall.device, &stall.host, stall.pid);
        let begin = format!("{who} costs ");
        let known = others
            .iter()
            .any(|other| other.sentence.starts_with(&begin));
        (!known).then(|| finding(stall, &who, arrivals.operations, run_us))
    });
    found.collect()
}

fn finding(stall: &Stall, who: &str, operations: u64, run_us: f64) -> Finding {
    let (from, until) = stall.when_us;
    let by_host = stall.launched_late_us >= 0.5 * stall.held_up_us;
    let by_gpu = stall.gpu_busy_us >= 0.5 * stall.held_up_us;
    let why = match (by_host, by_gpu) {
        (true, _) => ": its host launched late",
        (_, true) => ": its GPU was busy with other work",
        _ => "",
    };
    let costs = costs(stall.loss_wall_us, Some(run_us));
    let when = format!("{} after its first kernel", time(from));
    let sentence = match (stall.at_start, stall.times) {
        (true, _) => format!(
            "{who} {costs} at the start, in its first {} operations{why}.",
            stall.operations
        ),
        (_, 1) if stall.operations == 1 => format!("{who} {costs} by one stall, {when}{why}."),
        (_, 1) => format!(
            "{who} {costs} by one stall of {} operations, {when}{why}.",
            stall.operations
        ),
        (_, n) => format!(
            "{who} {costs} by {n} stalls, the longest of {} {when}{why}.",
            time(stall.longest_us)
        ),
    };
    let did = match stall.at_start {
        true => "while the job started",
        false => "then",
    };
    let advice = match by_gpu {
        true => format!("Look at what its GPU ran {did} (ncclscope export --to perfetto)."),
        false => format!(
            "Look at what its process did {did}: loading data, compiling, a checkpoint, evaluation, \
             garbage collection."
        ),
    };
    Finding {
        kind: "stall",
        sentence,
        wall_us: Some(stall.loss_wall_us),
        wall_interval_us: None,
        wall_at_most_us: None,
        when_us: Some(stall.when_us),
        evidence: format!(
            "It arrived last in {} of {} operations and held them up for {}, most of that from {} after its \
             first kernel. Otherwise the last rank is late by {} or less in three of \
             four operations. Basis: {}.",
            stall.operations,
            operations,
            time(stall.held_up_us),
            times(from, until),
            time(stall.usual_us),
            crate::arrivals::BASIS,
        ),
        advice,
    }
}

//! That a rank came late once, a few times, or while the job started.

use super::words::{costs, who, BASIS};
use super::{account, Figures};
use analyze::findings::{Cause, Finding, Stalls};
use analyze::spelling::{time, times};

/// What the kind is, for `ncclscope explain`.
pub(super) const ABOUT: &str =
    "a rank that came late once, a few times, or while the job started, by far more than anybody does \
    otherwise: a checkpoint, compiling, loading data.";

fn why(of: &Finding) -> &'static str {
    match of.cause {
        Some(Cause::Host) => ": its host launched late",
        Some(Cause::Gpu) => ": its GPU was busy with other work",
        _ => "",
    }
}

/// The claim.
pub(super) fn sentence(of: &Finding, stalls: &Stalls) -> String {
    let (who, why) = (who(of), why(of));
    let costs = of
        .loss
        .as_ref()
        .map_or("was late".to_owned(), |loss| costs(loss, false));
    let (from, _) = of.when_us.unwrap_or_default();
    let when = format!("{} after its first kernel", time(from));
    match (stalls.at_start, stalls.times, stalls.operations) {
        (true, _, n) => format!("{who} {costs} at the start, in its first {n} operations{why}."),
        (_, 1, _) if stalls.steps.is_some() => format!("{who} {costs} by one stall, {when}{why}."),
        (_, 1, 1) => format!("{who} {costs} by one stall, {when}{why}."),
        (_, 1, n) => format!("{who} {costs} by one stall of {n} operations, {when}{why}."),
        (_, n, _) => format!(
            "{who} {costs} by {n} stalls, the longest, of {}, {when}{why}.",
            time(stalls.longest_us)
        ),
    }
}

/// What is wrong.
pub(super) fn cause(of: &Finding) -> String {
    format!("{} stalls{}", who(of), why(of))
}

/// What it rests on.
pub(super) fn evidence(of: &Finding, stalls: &Stalls) -> String {
    if let (Some(steps), Some(loss)) = (&stalls.steps, &of.loss) {
        return account::basis(steps, loss, None);
    }
    let (from, until) = of.when_us.unwrap_or_default();
    format!(
        "It arrived last in {} of {} operations and held them up for {}, most of that from {} after its \
         first kernel. Otherwise the last rank is late by {} or less in three of four operations. Basis: \
         {BASIS}.",
        stalls.operations,
        stalls.of_all,
        time(stalls.held_up_us),
        times(from, until),
        time(stalls.usual_us),
    )
}

/// What it rests on, in numbers.
pub(super) fn figures(of: &Stalls) -> Figures {
    let mut all = vec![
        ("last", of.operations as f64),
        ("operations", of.of_all as f64),
        ("times", of.times as f64),
        ("held_up_us", of.held_up_us),
        ("longest_us", of.longest_us),
        ("usual_us", of.usual_us),
    ];
    all.extend(of.steps.iter().flat_map(account::in_steps));
    all
}

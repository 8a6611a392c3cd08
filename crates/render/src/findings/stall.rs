//! That a rank came late once, a few times, or while the job started.

use super::words::{costs, who};
use analyze::arrivals::BASIS;
use analyze::findings::{Cause, Finding, Stalls};
use analyze::spelling::{time, times};

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
        return super::account::basis(steps, loss, None);
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

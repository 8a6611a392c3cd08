//! What changed from one run to another and why, in one sentence.

use super::{cause, sentence};
use crate::diff_words::{lack, name, SAME_RECORDING};
use analyze::diff::{Changed, Moved, Stayed, TimeChange, What, Why};
use analyze::findings::{Finding, Kind};
use analyze::spelling::{percent, time};

/// What changed, and what one of the runs lacks.
pub fn changed(of: &Changed) -> String {
    let mut said = match &of.what {
        What::Broken(which, finding) => format!(
            "{} did not come to its end. {}",
            name(*which),
            sentence(finding)
        ),
        What::SameRecording => format!("{SAME_RECORDING}: there is nothing to compare."),
        What::Unknown => "How long a step or the run took is not known of both.".to_owned(),
        What::Time(change) => time_change(change),
    };
    for (which, of) in &of.incomplete {
        said += &format!(" {} is not complete: {}.", name(*which), lack(of));
    }
    said
}

fn time_change(of: &TimeChange) -> String {
    let new = of
        .new
        .as_deref()
        .map(|new| format!("New is: {}.", cause(new)));
    let gone = of
        .gone
        .as_deref()
        .map(|gone| format!("Gone is: {}.", cause(gone)));
    let said = why(of);
    // What came matters more than what went.
    let more = new.into_iter().chain(gone);
    more.fold(said, |said, more| format!("{said} {more}"))
}

/// The change, and its reason if one is known.
fn why(of: &TimeChange) -> String {
    let what = if of.of_step { "The step" } else { "The run" };
    let (from, to) = (time(of.us.0), time(of.us.1));
    let change = signed(of.share());
    let went = format!("{what} went from {from} to {to} ({change})");
    match &of.why {
        Why::Same => format!("{what} took as long in both: {from} and {to} ({change})."),
        Why::NothingInCommon => {
            format!("A and B have no kind of operation in common. {went}.")
        }
        Why::New(finding) => format!("{went} because {}.", cause(finding)),
        Why::Gone(finding) => format!("{went}. Gone is: {}.", cause(finding)),
        Why::Environment(change) => {
            let missing = change.missing();
            let value = |value: &Option<String>| value.clone().unwrap_or(missing.to_owned());
            format!(
                "{went}. No finding says why; {} changed from {} to {}.",
                change.key,
                value(&change.a),
                value(&change.b)
            )
        }
        Why::Nothing(others) if others.is_empty() => {
            format!("{went}. No finding says why, and nothing changed in the environment.")
        }
        Why::Nothing(others) => format!(
            "{went}. No finding says why. What changed in the environment need not be the reason: {}.",
            others.join(", ")
        ),
    }
}

/// What a fault stayed with, and where to look.
pub fn moved(of: &Moved) -> String {
    let fault = match of.a.kind() {
        Kind::LateRank | Kind::Stall => "The straggler",
        Kind::SlowNetwork => "The slow link",
        Kind::DeadRank => "The death",
        _ => "The fault",
    };
    let number = |of: &Finding| of.rank().map_or(String::new(), |rank| rank.to_string());
    let host = |of: &Finding| {
        of.subject
            .rank()
            .map_or(String::new(), |rank| rank.process.host.clone())
    };
    let (was, is) = (number(&of.a), number(&of.b));
    match of.stayed {
        Stayed::Rank => format!(
            "{fault} stayed with the rank: rank {was} was on {} and is on {}. Look at what this rank runs \
             and reads, not at a node.",
            host(&of.a),
            host(&of.b)
        ),
        Stayed::Node => format!(
            "{fault} stayed with the node: {} had rank {was} and has rank {is}. Look at this node's hardware \
             and system.",
            host(&of.a)
        ),
        Stayed::Gpu => format!(
            "{fault} stayed with the GPU: rank {was} had it and rank {is} has it, on {}. Look at this GPU.",
            host(&of.b)
        ),
    }
}

/// `+46.1 %`.
fn signed(change: f64) -> String {
    let sign = if change >= 0.0 { "+" } else { "" };
    format!("{sign}{}", percent(change))
}

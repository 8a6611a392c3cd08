//! What the words of all verdicts share: [`Words`] itself, and phrases about time and absent ranks.

use super::names::{asked, capital, is_of_dumps, unknown, without_dump};
use analyze::hang::{ByTime, Hang, Members, RankProgress, Unknown};
use analyze::time::Nanos;

/// The first sentence, and what belongs to it.
pub(crate) struct Words {
    pub sentence: String,
    pub details: Vec<String>,
}

/// When a wait counts as a hang.
pub(super) fn when(hang: &Hang, by_time: ByTime) -> Option<String> {
    let patience = asked(hang.after);
    match by_time {
        ByTime::Hang | ByTime::Unknown
            if is_of_dumps(hang) && hang.verdict.waited().is_none() =>
        {
            Some(
                "How long is not known: the dumps do not say when they were written, and their files are too \
                 new or too old to tell."
                    .to_owned(),
            )
        }
        ByTime::Hang => None,
        ByTime::TooEarly if is_of_dumps(hang) && hang.after == Nanos::ZERO => {
            Some("It may still end: a dump shows one moment.".to_owned())
        }
        ByTime::NoHang => Some(format!("A wait counts as a hang from {patience} on.")),
        ByTime::Unknown => Some("How long is not known: its times are not.".to_owned()),
        ByTime::TooEarly => Some(format!(
            "Long computing, or a checkpoint, looks the same: from {patience} on it counts as a hang \
             (--after)."
        )),
        ByTime::StillActive => Some(
            "The rank still makes other calls, or nothing newer of it is known, so whether this is a \
             hang can't be told yet."
                .to_owned(),
        ),
    }
}

/// What the length of a wait says for a rank that is inside of a call.
pub(super) fn when_inside(hang: &Hang, by_time: ByTime) -> Option<String> {
    match by_time {
        ByTime::TooEarly => Some(format!(
            "A wait there may end by itself: from {} on it counts as a hang (--after).",
            asked(hang.after)
        )),
        by_time => when(hang, by_time),
    }
}

/// What the length of a wait says for a rank that is stopped.
pub(super) fn when_stopped(hang: &Hang, by_time: ByTime) -> Option<String> {
    match by_time {
        ByTime::TooEarly => Some(format!(
            "From {} on that counts as a hang (--after).",
            asked(hang.after)
        )),
        by_time => when(hang, by_time),
    }
}

/// `is stopped by a signal or a debugger`, or that it was when it was looked at.
pub(super) fn stopped(hang: &Hang, rank: &RankProgress, is: &str) -> String {
    match rank.was_stopped {
        Some(seen) => {
            let was = if is == "is" { "was" } else { "were" };
            let (at, by) = (hang.zone.spelled(seen.at_ns, 0), seen.by.verb());
            format!("{was} stopped by a signal or a debugger when `ncclscope {by}` looked at {at}")
        }
        None => format!("{is} stopped by a signal or a debugger"),
    }
}

/// ` (SIGSEGV)`: how these ranks ended, if that is known and the same of all.
pub(super) fn ended_by(hang: &Hang, members: &Members) -> String {
    let of = &hang.communicators[members.communicator].ranks;
    let mut ways = members.members.iter().map(|member| {
        let exit = of[*member].exit.filter(|exit| exit.how.is_some())?;
        Some(exit.to_string())
    });
    let first = ways.next().flatten();
    let first = first.filter(|first| ways.all(|way| way.as_ref() == Some(first)));
    first.map_or(String::new(), |way| format!(" ({way})"))
}

/// What shows that a rank which was stopped was not let go.
pub(super) const NOTHING_SINCE: &str = "It recorded nothing after it was stopped.";

/// What can't be told of a rank that died before the others, if nobody saw that.
pub(crate) const UNSEEN_END: &str =
    "Nobody saw this end: a rank that is stopped, and later killed with the \
    others, leaves the same evidence.";

/// Ranks of a communicator of which nothing is known.
pub(super) fn absent(hang: &Hang, communicator: usize) -> Option<String> {
    if let Some(without) = without_dump(hang, communicator) {
        return Some(capital(format!(
            "{without}, so what happened there is not known."
        )));
    }
    match hang.communicators[communicator].unknown {
        Some(Unknown::Absent { .. }) => Some(format!(
            "What {} did is not known: nothing of it is in the capture.",
            unknown(hang, communicator)
        )),
        _ => None,
    }
}

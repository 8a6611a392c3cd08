//! What the words of all verdicts share: [`Words`] itself, and phrases about time and absent ranks.

use super::names::{span, unknown};
use analyze::hang::{ByTime, Hang, Unknown};

/// The first sentence, and what belongs to it.
pub(super) struct Words {
    pub sentence: String,
    pub details: Vec<String>,
}

/// When a wait counts as a hang.
pub(super) fn when(hang: &Hang, by_time: ByTime) -> Option<String> {
    let patience = span(hang.after_ns);
    match by_time {
        ByTime::Hang => None,
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

/// Ranks of a communicator of which nothing is known.
pub(super) fn absent(hang: &Hang, communicator: usize) -> Option<String> {
    match hang.communicators[communicator].unknown {
        Some(Unknown::Absent { .. }) => Some(format!(
            "What {} did is not known: nothing of it is in the capture.",
            unknown(hang, communicator)
        )),
        _ => None,
    }
}

//! A verdict in words.
//!
//! [`said`] has a file for each kind of verdict: it gives the first sentence, and what belongs to it.
//! [`next`] is the command to type after it. [`answer`] puts these and the facts into the rows of
//! `ncclscope.hang/1`.
//!
//! Rule: the first sentence names ranks and the call, or says what is missing that would tell. It is true as
//! it stands, whatever a missing file may hold. Nothing is decided here: every sentence follows from the
//! facts.

pub mod answer;
mod cycle;
mod mismatch;
mod names;
mod network;
mod quiet;
mod sink;
mod stall;

use super::{ByTime, Hang, Kind, Unknown, Verdict};
use names::{rank, span, unknown};

/// The first sentence, and what belongs to it.
struct Said {
    sentence: String,
    details: Vec<String>,
}

fn said(hang: &Hang) -> Said {
    match &hang.verdict {
        Verdict::Mismatch(mismatch) => mismatch::say(hang, mismatch),
        Verdict::Sink(sink) => sink::say(hang, sink),
        Verdict::Stall(stall) => stall::say(hang, stall),
        Verdict::Cycle(cycle) => cycle::say(hang, cycle),
        Verdict::Quiet(quiet) => quiet::say(hang, quiet),
    }
}

/// The command that helps most.
fn next(hang: &Hang) -> String {
    let folder = hang.capture.display();
    let blamed = hang.verdict.blamed();
    let first = blamed.first();
    let process = first.map(|first| rank(hang, first.communicator, first.member));
    match (hang.verdict.kind(), process) {
        (Kind::NoHang, _) => format!("ncclscope report {folder}"),
        (Kind::Stopped, Some(process)) => format!("kill -CONT {}", process.pid),
        (Kind::Missing | Kind::Inside | Kind::NotBegun, Some(process)) => {
            format!("py-spy dump --pid {} (on {})", process.pid, process.host)
        }
        (Kind::Silent | Kind::Unknown, _) => format!("ncclscope collect {folder}"),
        _ => format!("ncclscope hang {folder} --json"),
    }
}

/// When a wait counts as a hang.
fn when(hang: &Hang, by_time: ByTime) -> Option<String> {
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
fn absent(hang: &Hang, communicator: usize) -> Option<String> {
    match hang.communicators[communicator].unknown {
        Some(Unknown::Absent { .. }) => Some(format!(
            "What {} did is not known: nothing of it is in the capture.",
            unknown(hang, communicator)
        )),
        _ => None,
    }
}

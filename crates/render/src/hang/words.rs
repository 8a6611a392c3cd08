//! A verdict in words.
//!
//! [`said`] has a file for each kind of verdict: it gives the first sentence, and what belongs to it.
//! [`next`] is the command to type after it.
//!
//! Rule: the first sentence names ranks and the call, or says what is missing that would tell. It is true as
//! it stands, whatever a missing file may hold. Nothing is decided here: every sentence follows from the
//! facts.

use super::names::rank;
use super::phrases::Said;
use super::{cycle, mismatch, quiet, sink, stall};
use analyze::hang::{Hang, Kind, Verdict};

pub(super) fn said(hang: &Hang) -> Said {
    match &hang.verdict {
        Verdict::Mismatch(mismatch) => mismatch::say(hang, mismatch),
        Verdict::Sink(sink) => sink::say(hang, sink),
        Verdict::Stall(stall) => stall::say(hang, stall),
        Verdict::Cycle(cycle) => cycle::say(hang, cycle),
        Verdict::Quiet(quiet) => quiet::say(hang, quiet),
    }
}

/// The command that helps most.
pub(super) fn next(hang: &Hang) -> String {
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

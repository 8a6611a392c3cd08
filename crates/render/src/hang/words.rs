//! A verdict in words.
//!
//! [`words`] gives the [`Words`] of a verdict, from the file of its kind. [`next`] is the command to type
//! after them.
//!
//! Rule: the first sentence names ranks and the call, or says what is missing that would tell. It is true as
//! it stands, whatever a missing file may hold. Nothing is decided here: every sentence follows from the
//! facts.

use super::names::{is_of_dumps, is_of_ras, rank};
use super::phrases::Words;
use super::{cycle, mismatch, quiet, sink, stall};
use analyze::hang::{Hang, Liveness, RankProgress, Starting, Unknown, Verdict, VerdictKind};
use analyze::spelling::word;

pub(crate) fn words(hang: &Hang) -> Words {
    match &hang.verdict {
        Verdict::Mismatch(mismatch) => mismatch::words(hang, mismatch),
        Verdict::Sink(sink) => sink::words(hang, sink),
        Verdict::Stall(stall) => stall::words(hang, stall),
        Verdict::Cycle(cycle) => cycle::words(hang, cycle),
        Verdict::Quiet(quiet) => quiet::words(hang, quiet),
    }
}

/// The command that helps most.
pub(super) fn next(hang: &Hang) -> String {
    let folder = hang.capture.display().to_string();
    let folder = word(&folder);
    let blamed = hang.verdict.blamed();
    let first = blamed.first();
    let process = first.map(|first| rank(hang, first.communicator, first.member));
    if let Some(of) = starting(hang) {
        return if of.is_stopped {
            format!("kill -CONT {}", of.name.pid)
        } else {
            format!("py-spy dump --pid {} (on {})", of.name.pid, of.name.host)
        };
    }
    if hang.before_first().is_some() {
        return format!("ncclscope startup {folder}");
    }
    match (hang.verdict.kind(), process) {
        (VerdictKind::NoHang, _) => format!("ncclscope report {folder}"),
        (VerdictKind::Stopped, Some(process)) if process.state == Liveness::Stopped => {
            format!("kill -CONT {}", process.process.pid)
        }
        // Out of memory, or an error of the GPU.
        (VerdictKind::Dead, Some(process)) => format!("dmesg -T (on {})", process.process.host),
        // Nobody can be asked any more: another run tells which lines made the calls.
        (
            VerdictKind::Missing
            | VerdictKind::Inside
            | VerdictKind::NotBegun
            | VerdictKind::Mismatch
            | VerdictKind::Cycle,
            Some(process),
        ) if process.state == Liveness::Dead => {
            match hang.verdict.call().and_then(|c| c.caller.as_ref()) {
                None => "ncclscope run --stacks -- …".to_owned(),
                Some(_) => format!("ncclscope view {folder}"),
            }
        }
        (VerdictKind::Missing | VerdictKind::Inside | VerdictKind::NotBegun, Some(process)) => {
            spy(process)
        }
        (VerdictKind::Silent | VerdictKind::Unknown, _) if is_of_ras(hang) => {
            "ncclras -f json".to_owned()
        }
        (VerdictKind::Silent | VerdictKind::Unknown, _) if first_without_dump(hang).is_some() => {
            let rank = first_without_dump(hang).unwrap_or_default();
            format!("py-spy dump --pid PID (of rank {rank})")
        }
        // There is nothing to collect.
        (VerdictKind::Silent | VerdictKind::Unknown, _) if hang.tool.is_some() => {
            format!("ncclscope report {folder}")
        }
        (VerdictKind::Silent | VerdictKind::Unknown, _) => format!("ncclscope collect {folder}"),
        // What the process does now says why its calls differ, or why it waits.
        (VerdictKind::Mismatch | VerdictKind::Cycle, Some(process))
            if process.state == Liveness::Running =>
        {
            spy(process)
        }
        _ => format!("ncclscope report {folder}"),
    }
}

/// The first rank without a dump of a communicator whose call does not end.
fn first_without_dump(hang: &Hang) -> Option<u32> {
    let Verdict::Stall(stall) = &hang.verdict else {
        return None;
    };
    let of = &hang.communicators[stall.ranks.communicator];
    match &of.unknown {
        Some(Unknown::Absent { ranks, .. }) if is_of_dumps(hang) => ranks.first().copied(),
        _ => None,
    }
}

/// The process to ask if none has made a communicator: one that the others may wait for, else the first.
fn starting(hang: &Hang) -> Option<&Starting> {
    let found = hang.before_first()?;
    found.awaited().first().copied().or(found.processes.first())
}

/// Where a process stands now.
fn spy(process: &RankProgress) -> String {
    let rank = process.global_rank.or(process.process.rank);
    match (tables::pid::known(process.process.pid), rank) {
        (Some(pid), _) => format!("py-spy dump --pid {pid} (on {})", process.process.host),
        // Another tool does not say it.
        (None, Some(rank)) => format!("py-spy dump --pid PID (of rank {rank})"),
        (None, None) => format!("py-spy dump --pid PID (on {})", process.process.host),
    }
}

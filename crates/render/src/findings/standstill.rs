//! That the job stood still to the end of the recording, in the words of `ncclscope hang`.

use super::Figures;
use crate::hang::words;
use crate::sightings;
use analyze::findings::{Evidence, Finding};
use analyze::hang::VerdictKind;
use analyze::standstill::Standstill;

/// What the kind is, for `ncclscope explain`.
pub(super) const ABOUT: &str =
    "the job stood still in the last seconds of the recording: ranks waited for a call that another rank \
    never made, for each other, or for the network. `ncclscope hang` says the same.";

/// Who waited for whom, and for how long.
pub(super) fn sentence(of: &Standstill) -> String {
    words(&of.hang).sentence
}

/// What it rests on. If the job was looked at while it was there, and that says something else, the verdict
/// says it.
pub(super) fn evidence(of: &Standstill) -> String {
    let verdict = of.hang.verdict.kind();
    let agree = of.hang.sightings.iter().filter(|row| verdict.agrees(row));
    let mut details = words(&of.hang).details;
    details.extend(agree.map(|row| sightings::beside(row, verdict)));
    details.join(" ")
}

/// What to do.
pub(super) fn advice(of: &Finding) -> String {
    let is_stopped = |of: &Standstill| of.hang.verdict.kind() == VerdictKind::Stopped;
    match &of.subject.ranks[..] {
        [first, ..] if matches!(&of.evidence, Evidence::Standstill(of) if is_stopped(of)) => format!(
            "Find out what stopped pid {} on {}: a debugger, Ctrl-Z in a shell, or a scheduler that suspends \
             jobs.",
            first.process.pid, first.process.host
        ),
        [] => "`ncclscope hang` shows how far each rank came, and what it last did.".to_owned(),
        [only] => format!(
            "Look at what pid {} on {} did then: its own log, or `py-spy dump` while it lives. `ncclscope \
             hang` shows how far each rank came.",
            only.process.pid, only.process.host
        ),
        _ => "Look at what these ranks did then: their own logs, or `py-spy dump` while they live. \
              `ncclscope hang` shows how far each rank came."
            .to_owned(),
    }
}

/// What it rests on, in numbers.
pub(super) fn figures(of: &Standstill) -> Figures {
    let mut all = vec![
        ("waited_us", of.lasted.us()),
        ("waiting", of.waiting.len() as f64),
        ("missing", of.missing.len() as f64),
    ];
    all.extend(of.call.map(|call| ("call", call as f64)));
    all
}

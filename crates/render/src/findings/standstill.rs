//! That the job stood still to the end of the recording, in the words of `ncclscope hang`.

use crate::hang::words;
use analyze::findings::Finding;
use analyze::standstill::Standstill;

/// Who waited for whom, and for how long.
pub(super) fn sentence(of: &Standstill) -> String {
    words(&of.hang).sentence
}

/// What it rests on.
pub(super) fn evidence(of: &Standstill) -> String {
    words(&of.hang).details.join(" ")
}

/// What to do.
pub(super) fn advice(of: &Finding) -> String {
    match &of.subject.ranks[..] {
        [] => "`ncclscope hang` shows how far each rank came, and what it last did.".to_owned(),
        [only] => format!(
            "Look at what pid {} on {} did then: its own log, or `py-spy dump` while it lives. `ncclscope \
             hang` shows how far each rank came.",
            only.pid, only.host
        ),
        _ => "Look at what these ranks did then: their own logs, or `py-spy dump` while they live. \
              `ncclscope hang` shows how far each rank came."
            .to_owned(),
    }
}

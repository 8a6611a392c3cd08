//! That ranks waited for another one to the end of the recording.

use analyze::findings::{Finding, RankId};
use analyze::spelling::{ranges, size, time};
use analyze::standstill::Standstill;

/// What it rests on.
pub(super) const EVIDENCE: &str =
    "All calls of all ranks of that communicator are here, and no pause \
                                   between two calls was longer before.";

/// Who waited for whom, and for how long.
pub(super) fn sentence(of: &Standstill) -> String {
    let named = |ranks: &[RankId]| {
        let (one, many) = if of.numbered {
            ("rank", "ranks")
        } else {
            ("pid", "pids")
        };
        match ranks {
            [only] => format!("{one} {}", number(only)),
            all => format!("{many} {}", ranges(all.iter().map(number))),
        }
    };
    let (waiting, missing) = (named(&of.waiting), named(&of.missing));
    let (process, has) = match &of.missing[..] {
        [only] if of.numbered => (format!(" (pid {} on {})", only.pid, only.host), "has"),
        [_] => (String::new(), "has"),
        _ => (String::new(), "have"),
    };
    let function = match &of.function {
        Some((function, Some(bytes))) => format!(" ({function} of {})", size(*bytes)),
        Some((function, None)) => format!(" ({function})"),
        None => String::new(),
    };
    format!(
        "In the last {} of the recording, {waiting} waited for {missing}{process}, which {has} not made \
         call {}{function} on communicator {}.",
        time(of.for_ns as f64 / 1e3),
        of.call,
        of.communicator
    )
}

fn number(of: &RankId) -> u32 {
    of.rank.unwrap_or(of.pid)
}

/// What to do.
pub(super) fn advice(of: &Finding) -> String {
    match &of.subject.ranks[..] {
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

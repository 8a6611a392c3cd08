//! Names of ranks, communicators, calls and lengths of time in sentences.
//!
//! Rule: a rank has one number on all communicators ([`RankProgress::number`]), if there is one that tells
//! all apart. If not, it is the communicator's, and that is said. A rank without a number is named by its
//! process.

use analyze::hang::{CallRow, CommunicatorProgress, Hang, Members, RankProgress, Unknown};
pub(super) use analyze::spelling::capital;
use analyze::spelling::ranges;
use analyze::spelling::{size, three, time};
use analyze::time::Nanos;

/// Processes without a rank of which a sentence has the names.
const PIDS: usize = 8;

pub(super) fn of(hang: &Hang, communicator: usize) -> &CommunicatorProgress {
    &hang.communicators[communicator]
}

pub(super) fn rank(hang: &Hang, communicator: usize, member: usize) -> &RankProgress {
    &of(hang, communicator).ranks[member]
}

/// The numbers of ranks, as `0-1,3`.
pub(super) fn numbers(hang: &Hang, ranks: &Members) -> String {
    let communicator = of(hang, ranks.communicator);
    let number = |member: &usize| communicator.ranks[*member].number;
    ranges(ranks.members.iter().filter_map(number))
}

/// `rank 3`, `ranks 3 and 5`, `rank 1 of communicator x`, `pid 71 on node-2`.
pub(super) fn ranks(hang: &Hang, ranks: &Members) -> String {
    let numbers = numbers(hang, ranks);
    if numbers.is_empty() {
        let title = |member: &usize| {
            let rank = rank(hang, ranks.communicator, *member);
            format!(
                "pid {} on {}",
                tables::pid::shown(rank.process.pid),
                rank.process.host
            )
        };
        let titles: Vec<String> = ranks.members.iter().take(PIDS).map(title).collect();
        return titles.join(", ");
    }
    let plural = if ranks.len() > 1 { "ranks" } else { "rank" };
    if of(hang, ranks.communicator).numbered {
        format!("{plural} {numbers}")
    } else {
        format!(
            "{plural} {numbers} of {}",
            communicator(hang, ranks.communicator)
        )
    }
}

/// One rank, as [`ranks`].
pub(super) fn one(hang: &Hang, communicator: usize, member: usize) -> String {
    ranks(hang, &Members::one(communicator, member))
}

/// A process of this machine: `rank 3 (pid 71)`.
pub(super) fn process(number: Option<u32>, pid: u32) -> String {
    match number {
        Some(rank) => format!("rank {rank} (pid {pid})"),
        None => format!("pid {pid}"),
    }
}

/// `communicator x (its name)`.
pub(super) fn communicator(hang: &Hang, index: usize) -> String {
    let communicator = of(hang, index);
    match &communicator.name {
        Some(name) => format!("communicator {} ({name})", communicator.id),
        None => format!("communicator {}", communicator.id),
    }
}

/// `AllReduce of 1 MiB`.
pub(super) fn operation(call: &CallRow) -> String {
    let function = call.function.as_deref().unwrap_or("a call");
    match call.bytes {
        Some(bytes) => format!("{function} of {}", size(bytes)),
        None => function.to_owned(),
    }
}

/// `AllReduce of 1 MiB, call 58 on communicator x`.
pub(super) fn call(hang: &Hang, call: &CallRow) -> String {
    call_as(hang, call, &operation(call))
}

/// As [`call`], with other words for what [`operation`] says.
pub(super) fn call_as(hang: &Hang, call: &CallRow, operation: &str) -> String {
    let replay = if call.replay { "replay of " } else { "" };
    let on = communicator(hang, call.communicator);
    match (call.number, call.seq) {
        (Some(number), _) => format!("{replay}{operation}, call {number} on {on}"),
        (None, Some(seq)) => format!("{replay}{operation}, sequence number {seq} on {on}"),
        (None, None) => format!("{replay}{operation} on {on}"),
    }
}

/// As [`call`], and of a send or receive the other rank.
pub(super) fn call_and_peer(hang: &Hang, row: &CallRow) -> String {
    let call = call(hang, row);
    let mut ranks = of(hang, row.communicator).ranks.iter();
    let other = row
        .peer
        .and_then(|peer| ranks.position(|rank| rank.process.rank == Some(peer)));
    let other = other.map(|member| one(hang, row.communicator, member));
    match (other, row.function.as_deref()) {
        (Some(other), Some("Recv")) => format!("{call}, from {other}"),
        (Some(other), Some("Send")) => format!("{call}, to {other}"),
        _ => call,
    }
}

/// The ranks of a communicator of which not all is known.
pub(super) fn unknown(hang: &Hang, index: usize) -> String {
    let on = communicator(hang, index);
    match &of(hang, index).unknown {
        Some(Unknown::Absent { count, ranks }) if ranks.is_empty() => {
            let plural = if *count > 1 { "ranks" } else { "rank" };
            format!("{count} absent {plural} of {on}")
        }
        Some(Unknown::Absent { count, ranks }) => {
            let plural = if *count > 1 { "ranks" } else { "rank" };
            let numbers = ranges(ranks.iter().copied());
            format!("the absent {plural} {numbers} of {on}")
        }
        Some(Unknown::Unaligned(members)) => {
            let members = Members {
                communicator: index,
                members: members.clone(),
            };
            ranks(hang, &members)
        }
        Some(Unknown::Lost) | None => format!("ranks of {on} with lost rows"),
    }
}

/// Whether a verdict is by dumps of PyTorch's flight recorder.
pub(super) fn is_of_dumps(hang: &Hang) -> bool {
    hang.tool.as_deref() == Some("PyTorch's flight recorder")
}

/// Whether a verdict is by answers of NCCL's RAS.
pub(super) fn is_of_ras(hang: &Hang) -> bool {
    hang.tool.as_deref() == Some("NCCL's RAS")
}

/// Why dumps do not say what ranks of a communicator did: `rank 1 left no dump`.
pub(super) fn without_dump(hang: &Hang, index: usize) -> Option<String> {
    let Some(Unknown::Absent { ranks, .. }) = &of(hang, index).unknown else {
        return None;
    };
    if !is_of_dumps(hang) || ranks.is_empty() {
        return None;
    }
    let mut known = of(hang, index).ranks.iter();
    let is_world =
        known.all(|rank| rank.process.rank.is_some() && rank.process.rank == rank.global_rank);
    let is_empty = |rank: &u32| is_world && hang.without_calls.contains(rank);
    let (empty, none): (Vec<u32>, Vec<u32>) = ranks.iter().partition(|rank| is_empty(rank));
    let title = |ranks: Vec<u32>| {
        let plural = if ranks.len() > 1 { "ranks" } else { "rank" };
        let on = communicator(hang, index);
        let on = if is_world {
            String::new()
        } else {
            format!(" of {on}")
        };
        format!("{plural} {}{on}", ranges(ranks))
    };
    let mut parts = Vec::new();
    if !none.is_empty() {
        parts.push(format!("{} left no dump", title(none)));
    }
    if !empty.is_empty() {
        let (dump, has) = if empty.len() > 1 {
            ("dumps", "have")
        } else {
            ("dump", "has")
        };
        parts.push(format!("the {dump} of {} {has} no calls", title(empty)));
    }
    Some(parts.join("; "))
}

/// `text is`, `text are`.
pub(super) fn are(text: &str, n: usize) -> String {
    format!("{text} {}", if n > 1 { "are" } else { "is" })
}

/// `text has`, `text have`.
pub(super) fn have(text: &str, n: usize) -> String {
    format!("{text} {}", if n > 1 { "have" } else { "has" })
}

/// ` for 3.0 s`; nothing if the length is not known.
pub(super) fn for_time(length: Option<Nanos>) -> String {
    length.map_or(String::new(), |length| format!(" for {}", span(length)))
}

/// Seconds to the millisecond, so that the answer does not depend on how floats are printed.
pub(super) fn seconds(length: Nanos) -> f64 {
    length.ms().round() / 1e3
}

/// A length of time in three digits; minutes and hours, because a hang may last a night.
pub(super) fn span(length: Nanos) -> String {
    let s = length.seconds();
    if s < 119.5 {
        time(s * 1e6)
    } else if s < 7170.0 {
        format!("{} min", three(s / 60.0))
    } else {
        format!("{} h", three(s / 3600.0))
    }
}

/// A length of time that was asked for: `10 s`, `1.5 min`.
pub(super) fn asked(length: Nanos) -> String {
    let text = span(length);
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            let number = number.trim_end_matches('0').trim_end_matches('.');
            format!("{number} {unit}")
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_have_three_digits() {
        const S: i64 = 1_000_000_000;
        for (ns, text) in [
            (42_000_000, "42.0 ms"),
            (2_700_000_000, "2.70 s"),
            (119 * S, "119 s"),
            (120 * S, "2.00 min"),
            (7200 * S, "2.00 h"),
            (36_000 * S, "10.0 h"),
        ] {
            assert_eq!(span(Nanos::from(ns)), text);
        }
        for (ns, text) in [(10 * S, "10 s"), (S / 2, "500 ms"), (300 * S, "5 min")] {
            assert_eq!(asked(Nanos::from(ns)), text);
        }
    }
}

//! That ranks made different calls at the same place.

use super::words::lower;
use super::Figures;
use analyze::findings::{Finding, RankId};
use analyze::mismatch::{CallPlace, Differing, Made};
use analyze::spelling::{datatype, size, sizes_apart, time};

/// What the kind is, for `ncclscope explain`.
pub(super) const ABOUT: &str =
    "ranks that make different calls at the same place: another function, size, datatype or root. What \
    such calls do is not defined, and they may hang.";

/// What [`settings`] rests on.
pub(super) const SETTINGS: &str = "These are calls with the same number on the same communicator.";

/// That calls differ otherwise.
pub(super) fn settings(operations: u64) -> String {
    format!("In {operations} operations, ranks differ in size, datatype, algorithm or protocol.")
}

/// The claim.
pub(super) fn sentence(finding: &Finding, of: &Differing) -> String {
    let place = match of.place {
        CallPlace::Call(number) => format!("call {number}"),
        CallPlace::SequenceNumber(number) => format!("sequence number {number}"),
    };
    let communicator = finding.subject.communicator.as_ref();
    let name = communicator.and_then(|of| of.name.as_ref());
    let name = name.map_or(String::new(), |name| format!(" ({name})"));
    let against = if of.rank == of.against {
        "another GPU of it".to_owned()
    } else {
        match &of.against {
            // A pid stays as it is: a host's name follows.
            Some(id) if id.process.rank.is_none() => who(of.against.as_ref()),
            other => lower(&who(other.as_ref())),
        }
    };
    format!(
        "{} made {} where {against} made {}: {place} on communicator {}{name}. They differ in {}.",
        who(of.rank.as_ref()),
        made(&of.made),
        made(&of.against_made),
        of.communicator,
        differences(&of.made, &of.against_made),
    )
}

fn who(of: Option<&RankId>) -> String {
    let Some(RankId { process, .. }) = of else {
        return "A rank".to_owned();
    };
    match process.rank {
        Some(rank) => format!("Rank {rank}"),
        None => format!(
            "Pid {} on {}",
            tables::pid::shown(process.pid),
            process.host
        ),
    }
}

fn made(of: &Made) -> String {
    let function = of.function.as_deref().unwrap_or("a call");
    let bytes = of
        .bytes
        .map_or(String::new(), |bytes| format!(" of {}", size(bytes)));
    format!("{function}{bytes}")
}

/// What differs.
fn differences(a: &Made, b: &Made) -> String {
    let name = |name: &Option<String>| name.clone().unwrap_or("none".to_owned());
    let bytes = |bytes: Option<u64>| bytes.map_or("unknown".to_owned(), size);
    let sizes = match (a.bytes, b.bytes) {
        (Some(a), Some(b)) => sizes_apart(a, b),
        (a, b) => (bytes(a), bytes(b)),
    };
    let root = |root: Option<u32>| root.map_or("none".to_owned(), |root| root.to_string());
    let types = [a, b].map(|of| datatype(&name(&of.datatype)).to_string());
    let all = [
        (
            a.function != b.function,
            "function",
            name(&a.function),
            name(&b.function),
        ),
        (a.bytes != b.bytes, "size", sizes.0, sizes.1),
        (
            a.datatype != b.datatype,
            "datatype",
            types[0].clone(),
            types[1].clone(),
        ),
        (a.root != b.root, "root", root(a.root), root(b.root)),
    ];
    let differ = all.iter().filter(|(differ, ..)| *differ);
    let differ = differ.map(|(_, what, a, b)| format!("{what} {a} and {b}"));
    differ.collect::<Vec<_>>().join(", ")
}

/// What it rests on; ranks differ on so many more communicators, and waited at the end.
pub(super) fn evidence(of: &Differing, more: usize, stood_still_ns: Option<i64>) -> String {
    let places = match of.places {
        1 => "It is the only place of that communicator where ranks differ".to_owned(),
        n => format!("Ranks differ at {n} places of that communicator, and this is the first"),
    };
    let also = match more {
        0 => String::new(),
        more => format!("; so do ranks on {more} more communicators"),
    };
    let waited = stood_still_ns.map_or(String::new(), |ns| {
        let waited = time(ns as f64 / 1e3);
        format!(" Ranks waited in the last {waited} of the recording.")
    });
    format!("{places}{also}.{waited}")
}

/// What it rests on, in numbers.
pub(super) fn figures(first: &Differing, more: usize) -> Figures {
    vec![("places", first.places as f64), ("more", more as f64)]
}

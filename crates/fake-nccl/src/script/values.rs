//! Reads single words of a script: names, numbers, sizes, times, ranks, datatypes.
//!
//! Each function gives `None` if the word is none of its kind.

use super::call::Peer;
use crate::event::{self, Text};

pub(super) fn peer_word(text: &str) -> Option<Peer> {
    if text.starts_with(['+', '-']) {
        text.parse().ok().map(Peer::Next)
    } else {
        text.parse().ok().map(Peer::Rank)
    }
}

pub(super) fn name(text: &str) -> Option<String> {
    let sound = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    text.chars().all(sound).then(|| text.to_string())
}

pub(super) fn count(text: &str) -> Option<u64> {
    text.parse().ok().filter(|n| *n > 0)
}

const DATATYPES: [&str; 12] = [
    "f32", "f16", "bf16", "f64", "i8", "u8", "i32", "u32", "i64", "u64", "e4m3", "e5m2",
];

/// The word for a datatype as NCCL's profiler names it.
pub fn datatype_word(name: &str) -> Option<&'static str> {
    let is_it = |word: &&str| datatype(word).is_some_and(|of| of.to_bytes() == name.as_bytes());
    DATATYPES.into_iter().find(is_it)
}

pub(super) fn datatype(word: &str) -> Option<Text> {
    Some(match word {
        "f32" => c"ncclFloat32",
        "f16" => c"ncclFloat16",
        "bf16" => c"ncclBfloat16",
        "f64" => c"ncclFloat64",
        "i8" => c"ncclInt8",
        // NCCL's table of names lacks it, and gives this instead.
        "u8" => c"Unknown",
        "i32" => c"ncclInt32",
        "u32" => c"ncclUint32",
        "i64" => c"ncclInt64",
        "u64" => c"ncclUint64",
        "e4m3" => c"ncclFloat8e4m3",
        "e5m2" => c"ncclFloat8e5m2",
        _ => return None,
    })
}

/// The static text of `name`, if it is one of `names`.
pub(super) fn static_text(name: &str, names: &[&str]) -> Option<Text> {
    names.contains(&name).then(|| event::text(name)).flatten()
}

pub(super) fn rank_list(text: &str, limit: usize) -> Option<Vec<usize>> {
    let mut ranks = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            Some((first, last)) => {
                let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
                if first > last || last >= limit {
                    return None;
                }
                ranks.extend(first..=last);
            }
            None => ranks.push(part.parse().ok()?),
        }
    }
    ranks.iter().all(|r| *r < limit).then_some(ranks)
}

/// A size: a number and B, KiB, MiB, GiB, or KB, MB, GB.
///
/// Not [`units::bytes`]: a script says exactly what a job does, so KB is 1000 here, and fractions are
/// allowed. Options and settings follow nccl-tests, which takes K, KB and KiB for 1024.
pub fn bytes(text: &str) -> Option<u64> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let unit = match &text[digits..] {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    Some((number * unit as f64) as u64)
}

/// A time: a number and ns, us, ms, s, min or h.
pub fn nanos(text: &str) -> Option<u64> {
    units::nanos(text, None).map(|ns| ns.round() as u64)
}

pub(super) fn signed_nanos(text: &str) -> Option<i64> {
    match text.strip_prefix('-') {
        Some(rest) => nanos(rest).map(|n| -(n as i64)),
        None => nanos(text.strip_prefix('+').unwrap_or(text)).map(|n| n as i64),
    }
}

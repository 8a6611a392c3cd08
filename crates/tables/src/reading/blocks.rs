//! The sound blocks of a process: those of its trace files, and those that its live part still has staged.

use super::live_part::Open;
use crate::problem::{Problem, FEATURES};
use crate::trace::{Trace, TraceFile};
use capture::block::{self, Damage};
use capture::format;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The sound blocks of the trace files by number, staged ones included.
pub(super) struct Blocks<'a> {
    /// By number.
    pub(super) sound: BTreeMap<u32, block::Block<'a>>,
    /// Blocks that are damaged or not there.
    pub(super) bad: u64,
    /// Optional features that are not known, a bit each.
    pub(super) features: u32,
}

/// All sound blocks of the trace files and of the live part's staging area.
///
/// If a write was cut short, a part of a block is at the end of the file. This is no damage if the staging
/// area has the whole block.
pub(super) fn blocks<'a>(
    trace: &'a Trace,
    open: &'a Open,
    problems: &mut Vec<Problem>,
) -> Blocks<'a> {
    let mut sound = BTreeMap::new();
    let mut damages: Vec<(&TraceFile, Damage)> = Vec::new();
    let mut next_number = 0;
    for file in &trace.files {
        if file.bytes.is_empty() && !open.staged.is_empty() {
            continue;
        }
        let keep = |b: block::Block<'a>| {
            sound.insert(b.number, b);
        };
        block::read_on(&file.bytes, &mut next_number, keep, |d| {
            damages.push((file, d));
        });
    }
    // Staged blocks have no file header before them.
    let add = |b: block::Block<'a>| {
        sound.entry(b.number).or_insert(b);
    };
    block::read(&open.staged, add, |_| ());
    let staged_to = open.staged_base + open.staged.len();
    // Written since the live part of a running process was copied, and perhaps not whole yet.
    let since = |file: &TraceFile, at: u64| {
        let place = (file.number, at);
        open.born.is_some() && place >= (open.staged_for, open.staged_base as u64)
    };
    let made_good = |file: &TraceFile, at: u64, end: u64| {
        since(file, at)
            || !open.staged.is_empty()
                && file.number == open.staged_for
                && at >= open.staged_base as u64
                && end <= staged_to.max(file.bytes.len()) as u64
    };
    let other = |(_, damage): &(&TraceFile, Damage)| matches!(damage, Damage::Format { .. });
    let other_format = damages.iter().any(other);
    let (mut bad, mut features) = (0, 0);
    for (file, damage) in damages {
        let (place, expected, found) = match damage {
            Damage::FileHeader if !file.there => (
                "its trace file".into(),
                "it beside this file".into(),
                "none".into(),
            ),
            Damage::FileHeader if file.bytes.is_empty() => (
                "byte 0".into(),
                "a trace file's header".into(),
                "an empty file".into(),
            ),
            Damage::FileHeader => (
                "byte 0".into(),
                "a trace file's header".into(),
                "other bytes".into(),
            ),
            Damage::Format { found } => {
                problems.push(Problem::refused(file.path.clone(), found));
                continue;
            }
            Damage::Features { unknown } => {
                // Said once, and not for each file of the process.
                if unknown & !features != 0 {
                    let found = format::named(unknown);
                    let path = file.path.clone();
                    problems.push(Problem::left_out(path, "its header", FEATURES, &found));
                }
                features |= unknown;
                continue;
            }
            Damage::Skipped { at, bytes } if !made_good(file, at, at + bytes) => (
                format!("byte {at}"),
                "a block".into(),
                format!("{bytes} bytes that are none"),
            ),
            Damage::Truncated { at } if !made_good(file, at, file.bytes.len() as u64) => (
                format!("byte {at}"),
                "a whole block".into(),
                "the end of the file".into(),
            ),
            Damage::Payload { at, number, .. }
                if !sound.contains_key(&number) && !since(file, at) =>
            {
                bad += 1;
                (
                    format!("byte {at}, block {number}"),
                    "content that matches its checksum".into(),
                    "damaged content".into(),
                )
            }
            Damage::Missing { first, .. } if open.born.is_some() && first >= open.next_block => {
                continue;
            }
            Damage::Missing { first, count } => {
                // A damaged header also shows as a number that is not there; the staging area may have it.
                let last = first.saturating_add(count);
                let there = sound.range(first..last).count() as u64 + trace.gone(first, last);
                let gone = u64::from(count).saturating_sub(there);
                bad += gone;
                if gone == 0 {
                    continue;
                }
                let place = format!("block {first}");
                (
                    place,
                    "blocks numbered without a gap".into(),
                    format!("{gone} missing"),
                )
            }
            _ => continue,
        };
        problems.push(Problem {
            file: file.path.clone(),
            place,
            expected,
            found,
        });
    }
    // What the live part knows of and the files do not have.
    let last = sound.last_key_value().map(|(number, _)| *number);
    let end = last.map_or(0, |last: u32| last.saturating_add(1));
    let end = end.max(next_number);
    let lost =
        u64::from(open.blocks().saturating_sub(end)).saturating_sub(trace.gone(end, open.blocks()));
    if lost > 0 && !other_format {
        bad += lost;
        let last = trace.files.last();
        problems.push(Problem {
            file: last.map_or_else(PathBuf::new, |file| file.path.clone()),
            place: "its end".into(),
            expected: format!("{} blocks, as the live part says", open.blocks()),
            found: format!("{lost} less"),
        });
    }
    Blocks {
        sound,
        bad,
        features,
    }
}

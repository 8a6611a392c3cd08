//! Reads an ncclscope capture, through the same tables as its reports.
//!
//! Rule: a row without a sequence number gets none here. The tables have already dropped a row that was found
//! in two places, so every ticket is one call.

use crate::records::{Record, RecordKind, Records};
use analyze::executions::{Steps, Walk};
use capture::live::{flag, part};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use tables::{Call, Capture, Process};

/// Adds the calls of the capture at `folder`. With `keep`, live parts that its killed processes left
/// elsewhere are copied into it.
pub fn read(folder: &Path, keep: bool, records: &mut Records) {
    let Ok(capture) = Capture::open(folder) else {
        return;
    };
    records.format = "ncclscope capture".into();
    records.unreadable += capture.problems.len() as u64;
    let lost = analyze::report(&capture).completeness.lost;
    records.admitted = Some(lost.values().sum());
    let text = |name| capture.names.get(name).unwrap_or("").to_owned();
    for process in &capture.processes {
        let walk = Walk::new(process);
        let pid = Some(process.pid).filter(|pid| *pid != 0);
        walk.for_each(&mut Steps::default(), |execution| {
            let function = walk.places()[execution.place].function;
            let shape = execution.shape;
            records.rows.push(Record {
                pid,
                rank: process.rank.or(shape.rank),
                function: text(function),
                bytes: capture.bytes_as(shape, function),
                number: 1,
                communicator: shape.communicator.map(u64::from),
                // The pieces of an operation have numbers of their own, captured calls and replays share
                // theirs, and NCCL up to 2.30 does not count symmetric kernels.
                seq: execution.call.seq.checked_sub(1).filter(|_| {
                    let uncounted = part::SYMMETRIC | part::COPY_ENGINE;
                    let graph = flag::REPLAY | flag::CAPTURED;
                    execution.pieces == 1
                        && shape.flags & graph == 0
                        && shape.parts & uncounted == 0
                }),
                time_ns: execution.gpu.ok(),
                kind: match (execution.captured, shape.is(flag::REPLAY)) {
                    (true, _) => RecordKind::Template,
                    (_, true) => RecordKind::Replay,
                    _ => RecordKind::Call,
                },
                pieces: pieces(&capture, process, execution.call),
            });
        });
        for total in &process.totals {
            let Some(shape) = process.shapes.get(total.shape as usize) else {
                continue;
            };
            records.rows.push(Record {
                pid,
                rank: process.rank.or(shape.rank),
                function: text(shape.function),
                bytes: capture.bytes(shape),
                number: total.folded,
                communicator: shape.communicator.map(u64::from),
                ..Record::default()
            });
        }
    }
    release(&capture, keep);
}

/// The calls of the operation that this one is the first of, if it is one of several.
fn pieces(capture: &Capture, process: &Process, first: &Call) -> Vec<(&'static str, u64)> {
    let composite = (first.composite as usize).checked_sub(1);
    let Some(composite) = composite.and_then(|index| process.composites.get(index)) else {
        return Vec::new();
    };
    let piece = |index: &u32| {
        let shape = &process.shapes[process.calls[*index as usize].shape as usize];
        let function = match capture.names.get(shape.function)? {
            "Send" => "Send",
            "Recv" => "Recv",
            _ => return None,
        };
        Some((function, capture.bytes(shape)?))
    };
    composite.calls.iter().filter_map(piece).collect()
}

/// Removes the live parts that killed processes of this capture left in shared memory: nobody else will.
fn release(capture: &Capture, keep: bool) {
    for process in &capture.processes {
        let place = process.fact("live").map(Path::new);
        let Some(place) = place.filter(|p| p.is_absolute() && !running(process.pid)) else {
            continue;
        };
        let trace = process.fact("trace").map(Path::new);
        let kept = match trace.filter(|_| keep) {
            // Not there where the process ended by itself, and has written all of it.
            Some(trace) if place.exists() => adopt(place, &trace.with_extension("live")),
            _ => Ok(()),
        };
        if kept.is_ok() {
            let _ = std::fs::remove_file(place);
        }
    }
}

/// Copies a live part beside its trace file, where readers of captures find it; pages of zeros become holes.
fn adopt(from: &Path, to: &Path) -> io::Result<()> {
    let bytes = std::fs::read(from)?;
    let mut file = File::create(to)?;
    for (number, page) in bytes.chunks(4096).enumerate() {
        if page.iter().any(|byte| *byte != 0) {
            file.seek(SeekFrom::Start(number as u64 * 4096))?;
            file.write_all(page)?;
        }
    }
    file.set_len(bytes.len() as u64)
}

fn running(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

//! What the figures mean here, and what NCCL can't show.
//!
//! Rule: a note names what is not visible and why, with the version or setting that makes it so; it never guesses a
//! figure.

use crate::operations::{Operation, Operations};
use capture::live::{flag, part};
use std::collections::BTreeMap;
use tables::{Capture, Process};

/// NCCL turned Broadcast into a kind of operation that it does not announce.
const SILENT_BROADCAST: u32 = 22_900;
/// From here on symmetric kernels are announced.
const SYMMETRIC_SHOWN: u32 = 23_100;
/// API calls are announced from here on, so a call without a kernel event can be told.
const API_EVENTS: u32 = 22_800;
/// Kernel events carry stamps from here on.
const STAMPS: u32 = 22_700;
/// The bit of the event mask that makes replays of captured calls show.
const KERNEL_CH: u64 = 0x40;

/// The notes on a capture.
pub fn notes(capture: &Capture, operations: &Operations) -> Vec<String> {
    let mut notes = Vec::new();
    let rows = operations.rows();
    let stampless = capture.processes.iter().find(|p| !has_stamps(p));
    if let Some(process) = stampless {
        notes.push(format!(
            "{} has no GPU stamps (2.27 on): no call has a GPU time.",
            version(process)
        ));
    } else if capture
        .processes
        .iter()
        .any(|p| p.fact("timing") == Some("host"))
        && rows.iter().all(|o| o.timed == 0)
    {
        notes.push(
            "GPU times were not asked for (timing host); NCCLSCOPE_TIMING=stamps records them."
                .to_owned(),
        );
    }
    silent_calls(capture, &mut notes);
    graphs(capture, rows, &mut notes);
    let sum = |pick: fn(&Operation) -> u64| rows.iter().map(pick).fold(0, u64::saturating_add);
    let fused = sum(|o| o.untimed.get("fused").copied().unwrap_or(0));
    if fused > 0 {
        notes.push(format!("{fused} calls were launched in batches with others: the GPU time is the batch's, so they have none."));
    }
    let doubtful = ["repeated", "backwards", "stale", "negative", "missing"];
    let doubtful: u64 = rows
        .iter()
        .flat_map(|o| doubtful.iter().filter_map(|cause| o.untimed.get(cause)))
        .sum();
    if doubtful > 0 {
        notes.push(format!("{doubtful} calls have stamps that can't be right (NCCL delivered another call's); they are not timed."));
    }
    let lost_count = sum(|o| o.untimed.get("desynchronised").copied().unwrap_or(0));
    if lost_count > 0 {
        notes.push(format!(
            "{lost_count} calls come after one that puts NCCL's stamps out of step (a send to itself up to 2.30, a Broadcast \
             from 2.31 on, where NCCL_ALLGATHERV_ENABLE=0 avoids it): whose stamps they got is not known; they are not timed."
        ));
    }
    let early = |o: &Operation| {
        let algorithm = o.algorithm.as_deref().unwrap_or("").to_uppercase();
        let p2p = matches!(
            o.function.as_deref(),
            Some("Send" | "Recv" | "SendRecv" | "AlltoAll" | "Gather" | "Scatter")
        );
        o.timed > 0 && (p2p || algorithm == "TREE" || algorithm.starts_with("NVLS"))
    };
    if rows.iter().any(early) {
        notes.push("GPU times of TREE, NVLS and send/receive are lower bounds: NCCL stamps the end before the last warps are done.".to_owned());
    }
    if rows.iter().any(|o| o.percentile_error > 0.0) {
        notes.push("Percentiles of calls that were counted without rows come from histograms: error at most 1 %.".to_owned());
    }
    if rows
        .iter()
        .any(|o| o.communicator.is_some() && o.nranks.is_none())
    {
        notes.push("This NCCL does not tell a profiler how many ranks a communicator has (before 2.27): null, and so is what needs it.".to_owned());
    }
    notes
}

/// Whether the NCCL of a process can stamp kernels; also when it isn't known.
pub(crate) fn has_stamps(process: &Process) -> bool {
    process.nccl_version().is_none_or(|nccl| nccl >= STAMPS)
}

/// How NCCL is called in a note.
fn version(process: &Process) -> String {
    process
        .fact("nccl")
        .map_or("This NCCL".to_owned(), |v| format!("NCCL {v}"))
}

/// Calls that NCCL announces at the API and never again.
fn silent_calls(capture: &Capture, notes: &mut Vec<String>) {
    let mut broadcast: BTreeMap<String, u64> = BTreeMap::new();
    let mut others: BTreeMap<(String, bool), u64> = BTreeMap::new();
    let mut copy_engine = 0u64;
    for process in &capture.processes {
        let nccl = process.nccl_version().unwrap_or(0);
        let names: Vec<bool> = process
            .shapes
            .iter()
            .map(|s| capture.names.get(s.function) == Some("Broadcast"))
            .collect();
        let mask = process
            .fact("mask")
            .and_then(|m| u64::from_str_radix(m.trim_start_matches("0x"), 16).ok());
        // Without any of these bits NCCL was not asked for more than the API call.
        let asked = mask.is_none_or(|mask| mask & 0xde != 0);
        for call in process.calls.iter().filter(|c| c.sealed) {
            let shape = &process.shapes[call.shape as usize];
            if shape.parts & part::COPY_ENGINE != 0 {
                copy_engine += 1;
                continue;
            }
            let silent = call.channels_started == 0
                && shape.parts & part::ENQUEUED == 0
                && shape.flags & (flag::CAPTURED | flag::P2P) == 0;
            if !silent || !asked || nccl < API_EVENTS {
                continue;
            }
            if names[call.shape as usize] && nccl >= SILENT_BROADCAST {
                *broadcast.entry(version(process)).or_insert(0) += 1;
            } else {
                *others
                    .entry((version(process), nccl < SYMMETRIC_SHOWN))
                    .or_insert(0) += 1;
            }
        }
    }
    for (nccl, n) in broadcast {
        notes.push(format!(
            "{nccl} does not announce kernels for Broadcast: {n} calls have no algorithm, protocol or GPU time \
             (NCCL_ALLGATHERV_ENABLE=0 brings them back)."
        ));
    }
    for ((nccl, symmetric), n) in others {
        let why = if symmetric {
            "as it does with symmetric-memory kernels and copy engines"
        } else {
            "for a reason it does not tell"
        };
        notes.push(format!("{nccl} announced {n} calls at the API only, {why}: they have no algorithm, protocol or GPU time."));
    }
    if copy_engine > 0 {
        notes.push(format!(
            "{copy_engine} calls were done by copy engines, without a kernel: host time only."
        ));
    }
}

/// CUDA graphs: what was captured, and whether replays show.
fn graphs(capture: &Capture, rows: &[Operation], notes: &mut Vec<String>) {
    let captured: u64 = rows.iter().map(|o| o.captured).fold(0, u64::saturating_add);
    let replays: u64 = rows.iter().map(|o| o.replays).fold(0, u64::saturating_add);
    if captured == 0 {
        return;
    }
    if replays > 0 {
        notes.push(format!("{captured} calls were captured into CUDA graphs; NCCL showed {replays} executions of them."));
        return;
    }
    let stamps = capture.processes.iter().any(|p| {
        let mask = p
            .fact("mask")
            .and_then(|m| u64::from_str_radix(m.trim_start_matches("0x"), 16).ok());
        mask.is_some_and(|mask| mask & KERNEL_CH != 0)
    });
    let why = if stamps {
        "none came"
    } else {
        "NCCL announces them only with GPU stamps (NCCLSCOPE_TIMING=stamps) or over a network"
    };
    notes.push(format!(
        "{captured} calls were captured into CUDA graphs; replays not visible: {why}."
    ));
}

//! Finds stamps that are not their call's.
//!
//! NCCL's device and host count works to find a work's stamps, and after some calls they no longer agree: an all-to-all
//! with itself in 2.26 to 2.30, a Broadcast from 2.31 on. From then on another kernel's stamps are delivered without a word.
//! Calls made after such a one are marked [`DESYNCHRONISED`].
//!
//! Two bounds find others: a kernel can't end after the host was told of its end, and can't start before its launch. The
//! first gives, by GPU and window of time, the smallest distance of the clocks that the host saw; with it, a start well
//! before the launch is another kernel's, or the GPU's timer stepped: [`STALE`].
//!
//! Rule: the distance is taken too large rather than too small, so a sound stamp is never called stale by a late poll.
//! Replays of CUDA graphs have no launch to compare with and are left to the checks that the recorder makes.

use crate::calls::{Call, DESYNCHRONISED, STALE};
use crate::{Names, Process};
use capture::live::{flag, part};
use std::collections::HashMap;

/// GPU clocks drift by microseconds a second and have been seen to step by milliseconds; a window is short against both, and limits
/// what the second spoils.
const WINDOW_NS: i64 = 100_000_000;
/// A start this much before the launch is no rounding.
const TOLERANCE_NS: i64 = 50_000;

/// Marks all calls of a process whose stamps can't be, or can't be known to be, their own.
pub(crate) fn judge(process: &mut Process, names: &Names) {
    // A replayed or simulated job's stamps are of another time than its launches.
    if process.fact("env.NCCLSCOPE_STAMPS") != Some("replayed") {
        mark_stale(process);
    }
    mark_desynchronised(process, names);
}

/// First release whose stamps an all-to-all with itself spoils, and the first that a Broadcast does (seen on 2.28.9 and
/// 2.30.7, and on 2.32.3).
const SPOILT_BY_SELF: u32 = 22600;
const SPOILT_BY_BROADCAST: u32 = 23100;

fn mark_desynchronised(process: &mut Process, names: &Names) {
    let Some(nccl) = process
        .nccl_version()
        .filter(|nccl| *nccl >= SPOILT_BY_SELF)
    else {
        return;
    };
    let spoils: Vec<bool> = process
        .shapes
        .iter()
        .map(|shape| {
            if nccl >= SPOILT_BY_BROADCAST {
                names.get(shape.function) == Some("Broadcast") && shape.parts & part::ENQUEUED == 0
            } else {
                shape.is(flag::P2P) && shape.peer.is_some() && shape.peer == shape.rank
            }
        })
        .collect();
    if !spoils.contains(&true) {
        return;
    }
    let mut order: Vec<usize> = (0..process.calls.len()).collect();
    order.sort_by_key(|index| process.calls[*index].ticket);
    // By communicator, the group of the first such call: what is launched with it is still in step.
    let mut spoilt: HashMap<u32, u64> = HashMap::new();
    for index in order {
        let call = &mut process.calls[index];
        let shape = &process.shapes[call.shape as usize];
        match spoilt.get(&shape.uid) {
            // What has no stamp has none that could be another's.
            Some(group)
                if call.channels_started != 0 && (call.group == 0 || call.group != *group) =>
            {
                call.verdict |= DESYNCHRONISED
            }
            Some(_) => {}
            None if spoils[call.shape as usize] && !shape.is(flag::CAPTURED) => {
                spoilt.insert(shape.uid, call.group);
            }
            None => {}
        }
    }
}

/// Marks the calls of a process whose stamps precede their launch.
fn mark_stale(process: &mut Process) {
    let devices: HashMap<u32, Option<u32>> = process
        .communicators
        .iter()
        .map(|c| (c.uid, c.device))
        .collect();
    let device = |call: &Call| {
        devices
            .get(&process.shapes[call.shape as usize].uid)
            .copied()
            .flatten()
    };
    let stamped = |call: &Call| {
        call.gpu_start != 0 && call.gpu_stop >= call.gpu_start && call.gpu_seen_ns != 0
    };
    let mut nearest: HashMap<(Option<u32>, i64), i64> = HashMap::new();
    for call in process.calls.iter().filter(|call| stamped(call)) {
        let distance = call.gpu_seen_ns.wrapping_sub(call.gpu_stop as i64);
        let window = nearest
            .entry((device(call), call.gpu_seen_ns / WINDOW_NS))
            .or_insert(distance);
        *window = (*window).min(distance);
    }
    let mut stale = Vec::new();
    for (index, call) in process
        .calls
        .iter()
        .enumerate()
        .filter(|(_, call)| stamped(call))
    {
        let shape = &process.shapes[call.shape as usize];
        let launch = if call.launch_start_ns != 0 {
            call.launch_start_ns
        } else {
            call.api_ns
        };
        if shape.is(flag::REPLAY) || shape.parts & part::LAUNCH_AMBIGUOUS != 0 || launch == 0 {
            continue;
        }
        let window = call.gpu_seen_ns / WINDOW_NS;
        let distance = (window - 1..=window + 1)
            .filter_map(|w| nearest.get(&(device(call), w)))
            .min();
        let Some(start) = distance.and_then(|d| (call.gpu_start as i64).checked_add(*d)) else {
            continue;
        };
        if start < launch - TOLERANCE_NS {
            stale.push(index);
        }
    }
    for index in stale {
        process.calls[index].verdict |= STALE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::Untimed;
    use crate::Shape;

    /// `offset` is host minus GPU clock; the poll is `late` after the end.
    fn call(launch: i64, run: i64, offset: i64, late: i64) -> Call {
        let (start, stop) = (launch + 5_000, launch + 5_000 + run);
        Call {
            api_ns: launch - 10_000,
            launch_start_ns: launch,
            gpu_start: (start - offset) as u64,
            gpu_stop: (stop - offset) as u64,
            gpu_seen_ns: stop + late,
            channels_started: 1,
            channels_stopped: 1,
            sealed: true,
            ..Call::default()
        }
    }

    fn process(calls: Vec<Call>) -> Process {
        Process {
            calls,
            shapes: vec![Shape::default()],
            ..Process::default()
        }
    }

    #[test]
    fn late_polls_taint_nothing() {
        let calls = (0..200)
            .map(|i| {
                call(
                    1_000_000_000_000 + i * 30_000,
                    9_000,
                    -850_000,
                    1_000 + i * 25_000,
                )
            })
            .collect();
        let mut healthy = process(calls);
        mark_stale(&mut healthy);
        assert!(healthy.calls.iter().all(|c| c.verdict == 0));
    }

    #[test]
    fn stamps_of_an_earlier_kernel_are_found() {
        let mut calls: Vec<Call> = (0..200)
            .map(|i| call(1_000_000_000_000 + i * 300_000, 9_000, 70_000, 2_000))
            .collect();
        for i in (100..200).rev() {
            (calls[i].gpu_start, calls[i].gpu_stop) =
                (calls[i - 1].gpu_start, calls[i - 1].gpu_stop);
        }
        let mut desynchronised = process(calls);
        mark_stale(&mut desynchronised);
        let verdict = |i: usize| desynchronised.calls[i].gpu_ns(&desynchronised.shapes[0]);
        assert!((0..100).all(|i| verdict(i) == Ok(9_000)));
        assert!((100..200).all(|i| verdict(i) == Err(Untimed::Stale)));
    }
}

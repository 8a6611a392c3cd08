//! Puts the calls of ranks with lost rows beside those of the other ranks.
//!
//! [`align`] gives every rank the ordinal of its first call. If all its calls are known or counted, that is
//! by order; else by NCCL's sequence numbers, which count the calls of each function on a communicator.
//!
//! Rule: a call has an ordinal only if two things hold. No call between it and the rank's newest call is
//! missing. And the rank shares a sequence number with the reference, which is the rank of which most is
//! known.

use super::calls::{CaptureCalls, CommunicatorCalls, RankCalls};
use std::collections::HashMap;
use tables::calls::Series;
use tables::{Capture, Process};

/// Gives every rank of every communicator the ordinal of its first call, if that is known.
pub(super) fn align(calls: &mut CaptureCalls) {
    for communicator in &mut calls.communicators {
        align_ranks(calls.capture, communicator);
    }
}

fn align_ranks(capture: &Capture, communicator: &mut CommunicatorCalls) {
    let ranks = &mut communicator.ranks;
    // Another tool may keep the newest calls only, so the first one here is not the first of all.
    let of_other_tool = |own: &RankCalls| capture.processes[own.process].other_tool().is_some();
    communicator.numbered = !ranks.iter().any(of_other_tool);
    let partial = |own: &RankCalls| !own.counted || own.at_least;
    for own in ranks.iter_mut() {
        if !partial(own) {
            own.base = Some(own.forgotten[0]);
        } else {
            let from = unbroken(&capture.processes[own.process], &own.calls[0]);
            own.calls[0].drain(..from);
        }
    }
    if !ranks.iter().any(partial) {
        return;
    }
    let known = |own: &RankCalls| (own.base.is_some(), own.calls[0].len());
    let most = |member: &usize| (known(&ranks[*member]), std::cmp::Reverse(*member));
    let Some(reference) = (0..ranks.len()).max_by_key(most) else {
        return;
    };
    if ranks[reference].base.is_none() {
        ranks[reference].base = Some(0);
        communicator.numbered = false;
    }
    let ordinals: HashMap<(Series, u64), usize> = numbers(capture, &ranks[reference])
        .into_iter()
        .map(|(index, number)| (number, index))
        .collect();
    let (mut bases, mut lowest) = (Vec::new(), 0i64);
    let reference_base = ranks[reference].base.unwrap_or(0) as i64;
    for (member, own) in ranks.iter().enumerate() {
        if own.base.is_some() {
            continue;
        }
        let found = numbers(capture, own)
            .into_iter()
            .rev()
            .find_map(|(index, number)| Some((index, *ordinals.get(&number)?)));
        if let Some((index, theirs)) = found {
            let base = reference_base + theirs as i64 - index as i64;
            lowest = lowest.min(base);
            bases.push((member, base));
        }
    }
    // Ordinals count from the first call of any rank.
    for own in ranks.iter_mut() {
        own.base = own.base.map(|base| base + lowest.unsigned_abs());
    }
    for (member, base) in bases {
        ranks[member].base = u64::try_from(base - lowest).ok();
    }
}

/// The collectives of a rank that have a sequence number: index in its lane, what NCCL numbers, and number.
fn numbers(capture: &Capture, own: &RankCalls) -> Vec<(usize, (Series, u64))> {
    let process = &capture.processes[own.process];
    let number = |(index, call): (usize, &u32)| {
        let call = &process.calls[*call as usize];
        (call.seq != 0).then(|| {
            let series = process.shapes[call.shape as usize].series();
            (index, (series, call.seq))
        })
    };
    own.calls[0].iter().enumerate().filter_map(number).collect()
}

/// From which of these calls on none is missing, by NCCL's sequence numbers.
fn unbroken(process: &Process, calls: &[u32]) -> usize {
    let mut next: HashMap<Series, u64> = HashMap::new();
    for (index, call) in calls.iter().enumerate().rev() {
        let call = &process.calls[*call as usize];
        let series = process.shapes[call.shape as usize].series();
        match (call.seq, next.get(&series)) {
            // NCCL has not given the newest calls a number yet. An older call without a number may hide a
            // gap.
            (0, _) if next.is_empty() => {}
            (0, _) => return index + 1,
            (seq, Some(next)) if seq + 1 != *next => return index + 1,
            (seq, _) => {
                next.insert(series, seq);
            }
        }
    }
    if next.is_empty() {
        calls.len()
    } else {
        0
    }
}

//! Which of a rank's calls stand beside which of another's, after rows were lost.

use super::places::{Place, Seat};
use std::collections::HashMap;
use tables::{Capture, Name, Process};

/// Gives every seat the ordinal of its first call, by order where all calls are known, else by sequence numbers.
pub(super) fn align(capture: &Capture, place: &mut Place) {
    let partial = |seat: &Seat| !seat.whole || seat.at_least;
    for seat in &mut place.seats {
        if !partial(seat) {
            seat.base = Some(0);
        } else {
            let from = unbroken(&capture.processes[seat.process], &seat.calls[0]);
            seat.calls[0].drain(..from);
        }
    }
    if !place.seats.iter().any(partial) {
        return;
    }
    let length = |seat: &Seat| (seat.base.is_some(), seat.calls[0].len());
    let Some(reference) =
        (0..place.seats.len()).max_by_key(|i| (length(&place.seats[*i]), std::cmp::Reverse(*i)))
    else {
        return;
    };
    if place.seats[reference].base.is_none() {
        place.seats[reference].base = Some(0);
        place.numbered = false;
    }
    let numbers = |seat: &Seat| -> Vec<(usize, (Name, u64))> {
        let process = &capture.processes[seat.process];
        let number = |(index, call): (usize, &u32)| {
            let call = &process.calls[*call as usize];
            (call.seq != 0).then(|| {
                let function = process.shapes[call.shape as usize].function;
                (index, (function, call.seq))
            })
        };
        seat.calls[0]
            .iter()
            .enumerate()
            .filter_map(number)
            .collect()
    };
    let ordinals: HashMap<(Name, u64), usize> = numbers(&place.seats[reference])
        .into_iter()
        .map(|(index, number)| (number, index))
        .collect();
    let (mut bases, mut lowest) = (Vec::new(), 0i64);
    let reference_base = place.seats[reference].base.unwrap_or(0) as i64;
    for (index, seat) in place.seats.iter().enumerate() {
        if seat.base.is_some() {
            continue;
        }
        let found = numbers(seat)
            .into_iter()
            .rev()
            .find_map(|(own, number)| Some((own, *ordinals.get(&number)?)));
        if let Some((own, theirs)) = found {
            let base = reference_base + theirs as i64 - own as i64;
            lowest = lowest.min(base);
            bases.push((index, base));
        }
    }
    // Ordinals count from the first call of any seat.
    for seat in &mut place.seats {
        seat.base = seat.base.map(|base| base + lowest.unsigned_abs());
    }
    for (index, base) in bases {
        place.seats[index].base = u64::try_from(base - lowest).ok();
    }
}

/// From which of these calls on none is missing, by NCCL's sequence numbers.
fn unbroken(process: &Process, calls: &[u32]) -> usize {
    let mut next: HashMap<Name, u64> = HashMap::new();
    for (index, call) in calls.iter().enumerate().rev() {
        let call = &process.calls[*call as usize];
        let function = process.shapes[call.shape as usize].function;
        match (call.seq, next.get(&function)) {
            // Newest calls have no number yet; among others one that has none proves nothing.
            (0, _) if next.is_empty() => {}
            (0, _) => return index + 1,
            (seq, Some(next)) if seq + 1 != *next => return index + 1,
            (seq, _) => {
                next.insert(function, seq);
            }
        }
    }
    if next.is_empty() {
        calls.len()
    } else {
        0
    }
}

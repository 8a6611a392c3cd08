//! The pattern of a process's calls: which call comes next, and which came in a new order.
//!
//! A training loop makes the same calls again and again. What breaks that pattern is a hint which of several
//! ranks went astray, or which of several calls it lacks.
//!
//! Rule: the pattern only chooses between what the wait-for graph leaves open. It proves nothing by itself.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use tables::{Name, Process};

/// Longest stretch of calls that is compared, and the earlier calls at which it may end. Bounds keep long
/// jobs cheap.
const STRETCH: usize = 64;
const EARLIER: usize = 10_000;
/// Newest calls that are looked at for a new order.
const NEWEST: u32 = 1000;
/// Earlier calls that a call is compared with: those of its kind, and all among which they are sought.
const ALIKE: usize = 1000;
const RECENT: usize = 100_000;
/// A stretch of calls that came so many times says what comes after it.
const OFTEN: usize = 3;
/// Calls of the longest such stretch: more than those of a step.
const LONGEST: usize = 4096;

/// What makes two calls of a process the same.
type Signature = (u32, Name, u64, Name, Option<u32>, Option<u32>);

fn signature(process: &Process, call: usize) -> Signature {
    let shape = &process.shapes[process.calls[call].shape as usize];
    (
        shape.uid,
        shape.function,
        shape.count,
        shape.datatype,
        shape.peer,
        shape.root,
    )
}

/// The earlier call that is like the one which this process should make next: the call after the longest
/// stretch of earlier calls that equals its last ones.
pub(super) fn expected(process: &Process) -> Option<usize> {
    let what = |index: usize| signature(process, index);
    let last = process.calls.len().checked_sub(1)?;
    let alike = |index: usize| {
        let back = 0..(index + 1).min(STRETCH);
        back.take_while(|back| what(index - back) == what(last - back))
            .count()
    };
    let earlier = (0..last).rev().take(EARLIER);
    let (length, index) = earlier.map(|index| (alike(index), index)).max()?;
    (length > 0).then_some(index + 1)
}

/// Whether the process came to its call `to` in a new order, since its call `from`.
pub(super) fn strayed(process: &Process, from: Option<u32>, to: u32) -> bool {
    let from = from.map_or(0, |from| from + 1);
    newest(from, to).any(|call| is_new(process, call as usize))
        || left_out(process, from, to).is_some()
}

/// Those of these calls that are looked at.
fn newest(from: u32, to: u32) -> RangeInclusive<u32> {
    from.max(to.saturating_sub(NEWEST))..=to
}

/// What was left out before one of these calls: the newest of the calls that came there each time before,
/// after the same stretch of calls. That is the longest one that came [`OFTEN`]: two calls in a row may be
/// usual elsewhere in a step.
pub(super) fn left_out(process: &Process, from: u32, to: u32) -> Option<usize> {
    let [from, to] = [*newest(from, to).start(), to].map(|call| call as usize);
    let first = from.saturating_sub(EARLIER);
    let mut known: HashMap<Signature, u32> = HashMap::new();
    let symbols = (first..=to).map(|call| {
        let next = known.len() as u32;
        *known.entry(signature(process, call)).or_insert(next)
    });
    let symbols: Vec<u32> = symbols.collect();
    let from = from - first;
    // By place: how many calls before it are those before the place that is looked at.
    let mut alike = vec![0u32; symbols.len()];
    for at in from.saturating_sub(LONGEST) + 1..symbols.len() {
        for earlier in (1..at).rev() {
            let is_same = symbols[earlier - 1] == symbols[at - 1];
            alike[earlier] = if is_same { alike[earlier - 1] + 1 } else { 0 };
        }
        if at < from {
            continue;
        }
        let mut longest = [0; OFTEN];
        for length in &alike[1..at] {
            if let Some(place) = longest.iter().position(|known| known < length) {
                longest[place..].rotate_right(1);
                longest[place] = *length;
            }
        }
        let stretch = longest[OFTEN - 1];
        let mut such = (1..at).filter(|earlier| alike[*earlier] >= stretch);
        let newest = such.clone().next_back();
        if stretch > 0 && such.all(|earlier| symbols[earlier] != symbols[at]) {
            return newest.map(|newest| first + newest);
        }
    }
    None
}

/// Whether a call follows another one than each such call before did, or is the first of its kind after the
/// call before it.
fn is_new(process: &Process, call: usize) -> bool {
    if call < 2 {
        return false;
    }
    let what = |index: usize| signature(process, index);
    let (this, before) = (what(call), what(call - 1));
    let recent = || (1..call).rev().take(RECENT);
    let such = recent().filter(|i| what(*i) == this);
    let mut such = such.take(ALIKE).peekable();
    let after = recent().filter(|i| what(*i - 1) == before);
    let mut after = after.take(ALIKE).peekable();
    such.peek().is_some() && such.all(|i| what(i - 1) != before)
        || after.peek().is_some() && after.all(|i| what(i) != this)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tables::{Call, Shape};

    /// A process that makes these calls, each of so many elements.
    fn process(calls: &[u64]) -> Process {
        let call = |(ticket, shape): (u64, &u64)| Call {
            ticket,
            shape: *shape as u32,
            ..Call::default()
        };
        let shape = |count| Shape {
            count,
            ..Shape::default()
        };
        Process {
            shapes: (0..8).map(shape).collect(),
            calls: (0..).zip(calls).map(call).collect(),
            ..Process::default()
        }
    }

    #[test]
    fn a_call_that_is_left_out_is_seen_by_the_stretch_before_it() {
        // Two calls of a kind follow each other elsewhere in a step, also a hundred of them.
        for many in [2, 100] {
            let alike = vec![0; many];
            let step = [&alike[..], &[1], &alike, &[2]].concat();
            let without = [&alike[..], &alike, &[2]].concat();
            let newest = step.len() as u32;
            let run = |last: &[u64]| process(&[&step.repeat(4)[..], last].concat());
            let whole = run(&step);
            let to = |of: &Process| of.calls.len() as u32 - 1;
            assert!(!strayed(&whole, Some(to(&whole) - newest), to(&whole)));
            let broken = run(&without);
            assert!(strayed(&broken, Some(to(&broken) - newest), to(&broken)));
        }
        // What came twice says nothing yet: 1 after 3 and two 0 is new, and not after one 0.
        let twice = process(&[0, 1, 3, 0, 0, 2, 0, 1, 3, 0, 0, 2, 0, 1, 3, 0, 1]);
        assert!(!strayed(&twice, Some(15), 16));
    }
}

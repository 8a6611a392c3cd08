//! The pattern of a process's calls: which call comes next, and which came in a new order.
//!
//! A training loop makes the same calls again and again. What breaks that pattern is a hint which of several
//! ranks went astray, or which of several calls it lacks.
//!
//! Rule: the pattern only chooses between what the wait-for graph leaves open. It proves nothing by itself.

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
    let from = from.max(to.saturating_sub(NEWEST));
    (from..=to).any(|call| is_new(process, call as usize))
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

//! For how long the program was in the CUDA driver.
//!
//! A thread that launches kernels stays there longer than a launch takes if it waits for its GPU (a
//! synchronisation, or a copy that waits), or if a launch, or an event's record or wait, finds no room in the
//! queue of its stream, or the driver's lock taken. A launch takes 2 to 10 us, and one that waits for room as
//! long as a kernel runs, which may be no more. So one launch does not tell, and all are summed: ranks of one
//! program launch alike, and differ by what they waited. [`crate::driver_watch`] times the calls, and
//! [`spent`] adds them up. Each call of NCCL takes what came since the call before it into its row
//! ([`take`]).
//!
//! Rule: nothing here waits, allocates or fails a call. A launch costs two reads of the clock and an addition
//! more.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Ticks in a unit of a row.
const UNIT: u64 = 64;

/// Ticks that threads were in the driver, of all threads together.
static SPENT: AtomicU64 = AtomicU64::new(0);
/// How many of them rows have.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// A thread was in the driver for so many ticks.
#[inline(always)]
pub fn spent(ticks: u64) {
    SPENT.fetch_add(ticks, Relaxed);
}

/// What came since the last time, in units of 64 ticks.
#[inline(always)]
pub fn take() -> u32 {
    let spent = SPENT.load(Relaxed);
    if spent == TAKEN.load(Relaxed) {
        return 0;
    }
    // The larger sum stays, so that two threads never take the same ticks.
    let before = TAKEN.fetch_max(spent, Relaxed);
    u32::try_from(spent.saturating_sub(before) / UNIT).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_spent_is_taken_once() {
        assert_eq!(take(), 0);
        spent(64_000);
        spent(6_400);
        assert_eq!(take(), 1_100);
        assert_eq!(take(), 0);
        spent(u64::MAX / 2);
        assert_eq!(take(), u32::MAX);
    }
}

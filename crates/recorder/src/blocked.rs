//! For how long the program stood still in the CUDA driver.
//!
//! A thread that launches kernels stands still there for two reasons. It waits for its GPU: a
//! synchronisation, or a copy that waits. Or its launch finds no room in the queue of its stream, or the
//! driver's lock taken. [`crate::driver_watch`] times such calls, and [`waited`] and [`launched`] add them to
//! one sum. Each call of NCCL takes what came since the call before it into its row ([`take`]).
//!
//! Rule: nothing here waits, allocates or fails a call. A launch costs two reads of the clock more.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A launch that finds room is the host's own work of 2 to 10 us. One that takes longer than this stood
/// still, ns.
const LONG_NS: f64 = 20_000.0;
/// Ticks in a unit of a row.
const UNIT: u64 = 64;

/// [`LONG_NS`] in ticks. Until the clock's rate is known, no launch is long.
static LONG: AtomicU64 = AtomicU64::new(u64::MAX);
/// Ticks that threads stood still, of all threads together.
static STOOD: AtomicU64 = AtomicU64::new(0);
/// How many of them rows have.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// The rate of the clock is known.
pub fn rate(ns_per_tick: f64) {
    LONG.store((LONG_NS / ns_per_tick) as u64, Relaxed);
}

/// A thread waited for its GPU for so many ticks.
pub fn waited(ticks: u64) {
    STOOD.fetch_add(ticks, Relaxed);
}

/// A launch or a copy took so many ticks.
#[inline(always)]
pub fn launched(ticks: u64) {
    if ticks > LONG.load(Relaxed) {
        waited(ticks);
    }
}

/// What came since the last time, in units of 64 ticks.
#[inline(always)]
pub fn take() -> u32 {
    let stood = STOOD.load(Relaxed);
    if stood == TAKEN.load(Relaxed) {
        return 0;
    }
    taken(stood)
}

#[cold]
fn taken(stood: u64) -> u32 {
    // The larger sum stays, so that two threads never take the same ticks.
    let before = TAKEN.fetch_max(stood, Relaxed);
    u32::try_from(stood.saturating_sub(before) / UNIT).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stood_still_is_taken_once() {
        rate(0.5);
        launched(40_000);
        assert_eq!(take(), 0);
        launched(64_000);
        waited(6_400);
        assert_eq!(take(), 1_100);
        assert_eq!(take(), 0);
        waited(u64::MAX / 2);
        assert_eq!(take(), u32::MAX);
    }
}

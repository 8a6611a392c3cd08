//! For how long the program waited in the CUDA driver.
//!
//! A thread that launches kernels waits there for its GPU (a synchronisation, or a copy that waits), or until a
//! launch, or an event's record or wait, finds room in the queue of its stream, or the driver's lock free. A
//! launch that waits for room takes as long as a kernel runs, and one that does not takes [`LAUNCH_NS`]. So a
//! call that takes longer than [`WAITED_NS`] waited. Where kernels are shorter, waits are not seen. But a host
//! that has such kernels to launch is hardly faster than its GPU. [`crate::driver_watch`] times the calls, and
//! [`took`] adds up. Each call of NCCL takes what came since the call before it into its row ([`take`]).
//!
//! Rule: nothing here waits, allocates or fails a call. A launch costs two reads of the clock and an addition
//! more.

use capture::windows::{LAUNCH_NS, WAITED_NS};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Ticks in a unit of a row.
const UNIT: u64 = 64;

/// [`WAITED_NS`] and [`LAUNCH_NS`] in ticks. Until the clock's rate is known, two are a nanosecond.
static LEAST: AtomicU64 = AtomicU64::new(2 * WAITED_NS);
static LAUNCH: AtomicU64 = AtomicU64::new(2 * LAUNCH_NS);

/// Ticks that threads waited in the driver, of all threads together. A call that did not wait counts one, so
/// that a row shows that the driver is watched.
static WAITED: AtomicU64 = AtomicU64::new(0);
/// How many of them rows have.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// The clock's rate is known.
pub fn learn(ns_per_tick: f64) {
    let ticks = |ns: u64| (ns as f64 / ns_per_tick) as u64;
    LEAST.store(ticks(WAITED_NS), Relaxed);
    LAUNCH.store(ticks(LAUNCH_NS), Relaxed);
}

/// A thread was in the driver for so many ticks.
#[inline(always)]
pub fn took(ticks: u64) {
    let waited = if ticks > LEAST.load(Relaxed) {
        ticks.saturating_sub(LAUNCH.load(Relaxed))
    } else {
        1
    };
    WAITED.fetch_add(waited, Relaxed);
}

/// For how long threads waited since the last time, in units of 64 ticks; 0 if the driver was not called.
#[inline(always)]
pub fn take() -> u32 {
    let waited = WAITED.load(Relaxed);
    if waited == TAKEN.load(Relaxed) {
        return 0;
    }
    // The larger sum stays, so that two threads never take the same ticks.
    let before = TAKEN.fetch_max(waited, Relaxed);
    match waited.saturating_sub(before) {
        0 => 0,
        ticks => u32::try_from(ticks / UNIT).unwrap_or(u32::MAX).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_waited_is_taken_once() {
        assert_eq!(take(), 0);
        learn(0.5);
        took(128_000 + 8_000);
        took(32_000);
        took(640_000 + 8_000);
        assert_eq!(take(), 12_000);
        assert_eq!(take(), 0);
        // The driver was called, and nothing waited.
        took(32_000);
        assert_eq!(take(), 1);
        took(u64::MAX / 2);
        assert_eq!(take(), u32::MAX);
    }
}

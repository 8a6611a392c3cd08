//! For how long the program waited in the CUDA driver.
//!
//! A thread that launches kernels waits there for its GPU, in a synchronisation or a copy. Or it waits until
//! there is room in the queue of its stream, or until the driver's lock is free: in a launch, or in an
//! event's record or wait. A launch that waits for room takes as long as a kernel runs, and one that does
//! not takes [`LAUNCH_NS`]. So a call that takes longer than [`WAITED_NS`] waited. Where kernels are
//! shorter, waits are not seen. But a host that has such kernels to launch is hardly faster than its GPU.
//! [`crate::driver_watch`] times the calls, and [`took`] adds up. The recorder's own events find no room as
//! well, and then the call of the program behind them does not wait ([`for_us`]). Each call of NCCL takes
//! what came since the call before it into its row ([`take`]).
//!
//! Rule: nothing here waits, allocates or fails a call. A launch costs two reads of the clock and an addition
//! more.

use capture::windows::{waited, LAUNCH_NS, WAITED_NS};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Ticks in a unit of a row.
const UNIT: u64 = 64;

/// Of all threads together.
static TIME: DriverTime = DriverTime::new();

struct DriverTime {
    /// [`WAITED_NS`] and [`LAUNCH_NS`] in ticks. Until the clock's rate is known, two are a nanosecond.
    least: AtomicU64,
    launch: AtomicU64,
    /// Ticks that threads waited in the driver. A call that did not wait counts one, so that a row shows that
    /// the driver is watched.
    waited: AtomicU64,
    /// How many of them rows have.
    taken: AtomicU64,
}

impl DriverTime {
    const fn new() -> DriverTime {
        DriverTime {
            least: AtomicU64::new(2 * WAITED_NS),
            launch: AtomicU64::new(2 * LAUNCH_NS),
            waited: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        }
    }

    fn learn(&self, ns_per_tick: f64) {
        let ticks = |ns: u64| (ns as f64 / ns_per_tick) as u64;
        self.least.store(ticks(WAITED_NS), Relaxed);
        self.launch.store(ticks(LAUNCH_NS), Relaxed);
    }

    #[inline(always)]
    fn took(&self, ticks: u64) {
        let waited = waited(ticks, self.least.load(Relaxed), self.launch.load(Relaxed));
        self.waited.fetch_add(waited.unwrap_or(1), Relaxed);
    }

    fn for_us(&self, ticks: u64) {
        // Without the program's own calls, nobody may think that these are all.
        if self.waited.load(Relaxed) != 0 {
            let waited = waited(ticks, self.least.load(Relaxed), self.launch.load(Relaxed));
            self.waited.fetch_add(waited.unwrap_or(0), Relaxed);
        }
    }

    #[inline(always)]
    fn take(&self) -> u32 {
        let waited = self.waited.load(Relaxed);
        if waited == self.taken.load(Relaxed) {
            return 0;
        }
        // The larger sum stays, so that two threads never take the same ticks.
        let before = self.taken.fetch_max(waited, Relaxed);
        match waited.saturating_sub(before) {
            0 => 0,
            ticks => u32::try_from(ticks / UNIT).unwrap_or(u32::MAX).max(1),
        }
    }
}

/// The clock's rate is known.
pub fn learn(ns_per_tick: f64) {
    TIME.learn(ns_per_tick);
}

/// A thread was in the driver for so many ticks.
#[inline(always)]
pub fn took(ticks: u64) {
    TIME.took(ticks);
}

/// A thread was in the driver for so many ticks, for an event of the recorder's.
pub fn for_us(ticks: u64) {
    TIME.for_us(ticks);
}

/// For how long threads waited since the last time, in units of 64 ticks; 0 if the driver was not called.
#[inline(always)]
pub fn take() -> u32 {
    TIME.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_waited_is_taken_once() {
        let time = DriverTime::new();
        assert_eq!(time.take(), 0);
        time.learn(0.5);
        // Events of the recorder's alone don't show that the driver is watched.
        time.for_us(64_000_000);
        assert_eq!(time.take(), 0);
        time.took(128_000 + 8_000);
        time.took(32_000);
        time.took(640_000 + 8_000);
        assert_eq!(time.take(), 12_000);
        assert_eq!(time.take(), 0);
        // The driver was called, and nothing waited.
        time.took(32_000);
        assert_eq!(time.take(), 1);
        time.for_us(32_000);
        assert_eq!(time.take(), 0);
        time.for_us(640_000 + 8_000);
        assert_eq!(time.take(), 10_000);
        time.took(u64::MAX / 2);
        assert_eq!(time.take(), u32::MAX);
    }
}

//! The atomic word of the free ring and the seats, so that the model check can run their very code on loom's
//! atomics.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// An atomic word.
pub trait AtomicWord {
    /// Loads with Acquire.
    fn acquire(&self) -> u64;
    /// Loads with no ordering.
    fn relaxed(&self) -> u64;
    /// Stores with Release.
    fn release(&self, value: u64);
    /// Stores with no ordering.
    fn store(&self, value: u64);
    /// Compare-and-swap, AcqRel; false when it was not `from`, or spuriously.
    fn swap_from(&self, from: u64, to: u64) -> bool;
}

impl AtomicWord for AtomicU64 {
    #[inline]
    fn acquire(&self) -> u64 {
        self.load(Acquire)
    }
    #[inline]
    fn relaxed(&self) -> u64 {
        self.load(Relaxed)
    }
    #[inline]
    fn release(&self, value: u64) {
        AtomicU64::store(self, value, Release);
    }
    #[inline]
    fn store(&self, value: u64) {
        AtomicU64::store(self, value, Relaxed);
    }
    #[inline]
    fn swap_from(&self, from: u64, to: u64) -> bool {
        self.compare_exchange_weak(from, to, AcqRel, Relaxed)
            .is_ok()
    }
}

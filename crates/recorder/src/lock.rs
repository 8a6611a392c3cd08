//! A lock that a forked child can take whatever its parent's threads were doing.
//!
//! A child has a copy of every lock in the state of that moment, and no thread that would ever release it. So
//! the lock holds its owner's process id: a child takes over what its parent left.
//!
//! Rule: only what sets things up takes it: init and finalize, and what is captured into CUDA graphs or makes
//! them. No other event callback does. While one of our threads holds it, none of that thread's allocations
//! waits for memory ([`crate::heap`]).

use crate::heap::MayFail;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::Duration;

/// The lock; 0 is free, else the process that holds it.
pub struct Lock(AtomicU32);

/// Startup, init and finalize hold it.
pub static INIT: Lock = Lock::new();

/// Held until dropped.
pub struct LockGuard<'a> {
    lock: &'a Lock,
    _may_fail: MayFail,
}

impl Lock {
    /// A lock that nobody holds.
    pub const fn new() -> Self {
        Lock(AtomicU32::new(0))
    }

    /// Waits for the lock. What takes it is rare, so it is asked for again and again.
    pub fn lock(&self) -> LockGuard<'_> {
        let me = std::process::id();
        loop {
            let owner = self.0.load(Relaxed);
            if owner != me && self.0.compare_exchange(owner, me, Acquire, Relaxed).is_ok() {
                return LockGuard {
                    lock: self,
                    _may_fail: MayFail::from_here(),
                };
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        self.lock.0.store(0, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_at_a_time() {
        static LOCK: Lock = Lock::new();
        static INSIDE: AtomicU32 = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _held = LOCK.lock();
                        assert_eq!(INSIDE.fetch_add(1, Relaxed), 0);
                        INSIDE.fetch_sub(1, Relaxed);
                    }
                });
            }
        });
    }

    #[test]
    fn what_another_process_left_held_is_taken_over() {
        let lock = Lock(AtomicU32::new(std::process::id() + 1));
        drop(lock.lock());
        assert_eq!(lock.0.load(Relaxed), 0);
    }
}

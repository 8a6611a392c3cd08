//! The boundary: nothing that goes wrong in here reaches the job.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Recording is off for the rest of the process: a panic was caught.
pub static OFF: AtomicBool = AtomicBool::new(false);

/// Runs one entry point, unless recording is off. A panic turns recording off and gives `fallback`.
#[inline(always)]
pub fn guard<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    if OFF.load(Relaxed) {
        return fallback;
    }
    caught(fallback, body)
}

/// The same for a caller that knows recording to be on. Of a body that can't panic, nothing is left of this.
#[inline(always)]
pub fn caught<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    let body = || {
        #[cfg(debug_assertions)]
        forced::check();
        body()
    };
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        OFF.store(true, Relaxed);
        crate::recorder::fork_page::count_panic();
        fallback
    })
}

/// A panic on demand, for the test that none leaves an entry point. Not in release builds.
#[cfg(debug_assertions)]
pub mod forced {
    use super::{AtomicBool, Relaxed, OFF};

    static NEXT: AtomicBool = AtomicBool::new(false);

    /// Recording is on again, as if none had come yet.
    pub fn forget() {
        OFF.store(false, Relaxed);
        crate::recorder::fork_page::resume();
    }

    /// Recording is on again, and the next entry point panics.
    pub fn at_next_entry() {
        forget();
        NEXT.store(true, Relaxed);
    }

    #[inline]
    pub(super) fn check() {
        assert!(!NEXT.swap(false, Relaxed), "forced");
    }
}

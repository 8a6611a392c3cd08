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

/// Panics and pauses on demand, for tests: that no panic leaves an entry point, and that a callback does no
/// harm that goes on late. Not in release builds.
#[cfg(debug_assertions)]
pub mod forced {
    use super::{AtomicBool, Relaxed, OFF};
    use std::sync::atomic::AtomicU32;

    /// 0 no pause is asked for, 1 the next callback that finds its row or group pauses, 2 one does.
    static PAUSE: AtomicU32 = AtomicU32::new(0);

    /// The next callback that finds its row or group pauses there until [`resume`], in whichever thread.
    pub fn pause_at_next_find() {
        PAUSE.store(1, Relaxed);
    }

    /// Whether a callback pauses.
    pub fn is_paused() -> bool {
        PAUSE.load(Relaxed) == 2
    }

    /// Lets the callback go on that pauses.
    pub fn resume() {
        PAUSE.store(0, Relaxed);
    }

    /// A callback has found its row or group, and is going to store to it.
    pub(crate) fn found() {
        if PAUSE.compare_exchange(1, 2, Relaxed, Relaxed).is_ok() {
            while is_paused() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    }

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

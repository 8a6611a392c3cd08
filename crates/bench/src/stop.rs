//! Ctrl-C: whoever runs something for long looks here now and then, and ends it in order.
//!
//! Rule: only the process that leads catches signals, not its ranks, and each only once: a second one ends it
//! at once.

use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// The signal that came; 0 before.
static CAME: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(signal: libc::c_int) {
    CAME.store(signal, Relaxed);
}

/// From now on SIGINT and SIGTERM are noted.
pub fn watch() {
    // SAFETY: all zeros is a valid sigaction, the handler stores to an atomic and nothing else, and both
    // signals may be caught.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note as extern "C" fn(libc::c_int) as usize;
        // Not SA_RESTART: whoever waits is to look.
        action.sa_flags = libc::SA_RESETHAND;
        for signal in [libc::SIGINT, libc::SIGTERM] {
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// The signal that asks the run to end.
pub fn asked() -> Option<i32> {
    Some(CAME.load(Relaxed)).filter(|signal| *signal != 0)
}

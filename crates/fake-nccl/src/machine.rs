//! The host that a rank's process believes to be on: its name, how far its wall clock is off, and the moment
//! that a thread believes it is.
//!
//! The program exports `gethostname` and `clock_gettime`, so that a plugin in it finds these before the C
//! library's. What they give is set here before the plugin is loaded.
//!
//! Rule: until something is set, both do what the system does. Only threads that play the script have moments
//! of their own. The plugin's threads sleep and wait by the machine's clocks, so they must read those.

use std::cell::Cell;
use std::ffi::CString;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::OnceLock;

static NAME: OnceLock<CString> = OnceLock::new();
static CLOCK_NS: AtomicI64 = AtomicI64::new(0);

/// Puts this process on the host of this number, with a wall clock that is ahead by so much. At most once.
pub(crate) fn be(host: usize, clock_ns: i64) {
    if let Ok(name) = CString::new(format!("fake-host-{host}")) {
        let _ = NAME.set(name);
    }
    CLOCK_NS.store(clock_ns, Relaxed);
}

/// A moment of the script's time, ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// CLOCK_REALTIME.
    pub realtime: u64,
    /// CLOCK_MONOTONIC.
    pub monotonic: u64,
}

/// Each reading of a thread's own clock takes so long. A clock that stood still would keep a thread for ever
/// that waits for a moment.
const READING_NS: u64 = 20;

thread_local! {
    static MOMENT: Cell<Option<Moment>> = const { Cell::new(None) };
}

/// From now on it is this moment, on this thread.
pub(crate) fn is_now(moment: Moment) {
    MOMENT.set(Some(moment));
}

/// What a clock shows on this thread, ns, if the thread has a moment of its own. The wall clock is the
/// machine's, which [`clock_ns`] may be added to.
pub fn shown(clock: libc::clockid_t) -> Option<u64> {
    let mut moment = MOMENT.get()?;
    moment.realtime += READING_NS;
    moment.monotonic += READING_NS;
    MOMENT.set(Some(moment));
    match clock {
        libc::CLOCK_REALTIME => Some(moment.realtime),
        libc::CLOCK_MONOTONIC => Some(moment.monotonic),
        _ => None,
    }
}

/// The name that was set.
pub fn name() -> Option<&'static CString> {
    NAME.get()
}

/// By how much the wall clock is ahead, ns.
pub fn clock_ns() -> i64 {
    CLOCK_NS.load(Relaxed)
}

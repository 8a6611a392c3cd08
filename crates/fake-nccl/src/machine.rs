//! The host that a rank's process believes to be on: its name, and how far its wall clock is off.
//!
//! The program exports `gethostname` and `clock_gettime`, so that a plugin in it finds these before the C
//! library's. What they give is set here before the plugin is loaded.
//!
//! Rule: until something is set, both do what the system does. Other clocks than the wall clock always do.

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

/// The name that was set.
pub fn name() -> Option<&'static CString> {
    NAME.get()
}

/// By how much the wall clock is ahead, ns.
pub fn clock_ns() -> i64 {
    CLOCK_NS.load(Relaxed)
}

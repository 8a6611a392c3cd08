//! A plugin that does nothing, to subtract the cost of calling one.

use nccl_abi::v5;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

pub(super) static EMPTY_MASK: AtomicI32 = AtomicI32::new(0);

unsafe extern "C" fn empty_init(
    context: *mut *mut c_void,
    _id: u64,
    mask: *mut c_int,
    _name: *const c_char,
    _nodes: c_int,
    _ranks: c_int,
    _rank: c_int,
    _logger: nccl_abi::Logger,
) -> c_int {
    // SAFETY: our own loader passes both places.
    unsafe {
        *context = std::ptr::without_provenance_mut(1);
        AtomicI32::from_ptr(mask).store(EMPTY_MASK.load(Relaxed), Relaxed);
    }
    0
}

unsafe extern "C" fn empty_start(
    _context: *mut c_void,
    handle: *mut *mut c_void,
    _descr: *mut v5::Descr,
) -> c_int {
    // SAFETY: our own driver passes a place for the handle.
    unsafe { *handle = std::ptr::without_provenance_mut(1) };
    0
}

unsafe extern "C" fn empty_stop(_handle: *mut c_void) -> c_int {
    0
}

unsafe extern "C" fn empty_state(
    _handle: *mut c_void,
    _state: u32,
    _args: *mut v5::StateArgs,
) -> c_int {
    0
}

/// A plugin with callbacks that return at once. It takes the ABI of any seat, but its `init` is of v5 and
/// later.
pub(super) static EMPTY: v5::Profiler = v5::Profiler {
    name: c"empty".as_ptr(),
    init: Some(empty_init),
    start_event: Some(empty_start),
    stop_event: Some(empty_stop),
    record_event_state: Some(empty_state),
    finalize: Some(empty_stop),
};

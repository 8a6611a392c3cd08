//! A profiler plugin (ABI v5) with two faults. `sanitize.sh` uses it to see that sanitizers find faults in a
//! plugin. Threads raise its count of events without any order, and read the count after it was given back.
//!
//! Without the standard library, so that it is compiled by itself.
#![no_std]

use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering::Relaxed};

extern "C" {
    fn calloc(n: usize, bytes: usize) -> *mut c_void;
    fn free(p: *mut c_void);
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

static COUNT: AtomicPtr<u64> = AtomicPtr::new(null_mut());

type Init = unsafe extern "C" fn(
    *mut usize,
    u64,
    *mut c_int,
    *const c_char,
    c_int,
    c_int,
    c_int,
    *const c_void,
) -> c_int;

unsafe extern "C" fn init(
    context: *mut usize,
    _comm_id: u64,
    mask: *mut c_int,
    _comm_name: *const c_char,
    _n_nodes: c_int,
    _n_ranks: c_int,
    _rank: c_int,
    _logger: *const c_void,
) -> c_int {
    COUNT.store(calloc(1, 8).cast(), Relaxed);
    *context = 1;
    AtomicI32::from_ptr(mask).store(0xffff, Relaxed);
    0
}

unsafe extern "C" fn start(_: usize, handle: *mut usize, _: *mut c_void) -> c_int {
    let count = COUNT.load(Relaxed);
    *count = (*count).wrapping_add(1);
    *handle = 1;
    0
}

unsafe extern "C" fn stop(_: usize) -> c_int {
    0
}

unsafe extern "C" fn state(_: usize, _: u32, _: *mut c_void) -> c_int {
    0
}

unsafe extern "C" fn finalize(_: usize) -> c_int {
    let count = COUNT.load(Relaxed);
    free(count.cast());
    (count.read_volatile() & 1) as c_int * 0
}

/// As `ncclProfiler_v5_t`.
#[repr(C)]
pub struct Profiler {
    name: *const c_char,
    init: Init,
    start: unsafe extern "C" fn(usize, *mut usize, *mut c_void) -> c_int,
    stop: unsafe extern "C" fn(usize) -> c_int,
    state: unsafe extern "C" fn(usize, u32, *mut c_void) -> c_int,
    finalize: unsafe extern "C" fn(usize) -> c_int,
}

unsafe impl Sync for Profiler {}

#[no_mangle]
#[allow(non_upper_case_globals)]
pub static ncclProfiler_v5: Profiler = Profiler {
    name: c"broken".as_ptr(),
    init,
    start,
    stop,
    state,
    finalize,
};

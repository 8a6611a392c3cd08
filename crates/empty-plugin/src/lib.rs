//! A profiler plugin that asks for events and does nothing with them.
//!
//! What a job takes longer under it is what NCCL itself spends on the events, and a profiler that asks for
//! the same ones can't cost less. `NCCLSCOPE_EMPTY_MASK` is the activation mask in hex; without it, every
//! event of the ABI.
//!
//! Rule: a callback stores what NCCL requires (context, mask, handle) and returns; it reads nothing else, and
//! keeps nothing.

use nccl_abi::event;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// What contexts and handles are: never null, never followed.
const NAME: *mut c_void = std::ptr::without_provenance_mut(1);

/// The wanted events, as far as ABI `abi` has them. A mask that can't be read asks for none, so that nobody
/// takes the cost of all events for that of some.
fn wanted(abi: u8) -> u64 {
    let known = event::known(abi).unwrap_or(0);
    match std::env::var("NCCLSCOPE_EMPTY_MASK") {
        Err(_) => known,
        Ok(text) => {
            let digits = text.trim_start_matches("0x");
            u64::from_str_radix(digits, 16).unwrap_or(0) & known
        }
    }
}

/// # Safety
/// `context` and `mask` must be valid for writes, as NCCL has them.
unsafe fn init(abi: u8, context: *mut *mut c_void, mask: *mut c_int) -> c_int {
    let wanted = wanted(abi) as c_int;
    // SAFETY: by the caller; other communicators' threads read the mask meanwhile, so the store is atomic.
    unsafe {
        *context = NAME;
        AtomicI32::from_ptr(mask).store(wanted, Relaxed);
    }
    nccl_abi::result::SUCCESS
}

unsafe extern "C" fn init_short<const ABI: u8>(
    context: *mut *mut c_void,
    mask: *mut c_int,
) -> c_int {
    // SAFETY: NCCL passes both places.
    unsafe { init(ABI, context, mask) }
}

#[allow(clippy::too_many_arguments)] // NCCL's signature.
unsafe extern "C" fn init_v4(
    context: *mut *mut c_void,
    mask: *mut c_int,
    _name: *const c_char,
    _hash: u64,
    _nodes: c_int,
    _ranks: c_int,
    _rank: c_int,
    _logger: nccl_abi::Logger,
) -> c_int {
    // SAFETY: NCCL passes both places.
    unsafe { init(4, context, mask) }
}

#[allow(clippy::too_many_arguments)] // NCCL's signature.
unsafe extern "C" fn init_long<const ABI: u8>(
    context: *mut *mut c_void,
    _hash: u64,
    mask: *mut c_int,
    _name: *const c_char,
    _nodes: c_int,
    _ranks: c_int,
    _rank: c_int,
    _logger: nccl_abi::Logger,
) -> c_int {
    // SAFETY: NCCL passes both places.
    unsafe { init(ABI, context, mask) }
}

unsafe extern "C" fn stop(_handle: *mut c_void) -> c_int {
    nccl_abi::result::SUCCESS
}

/// One ABI version.
macro_rules! version {
    ($module:ident, $symbol:literal, $init:expr) => {
        mod $module {
            use super::*;

            unsafe extern "C" fn start(
                _context: *mut c_void,
                handle: *mut *mut c_void,
                _descr: *mut nccl_abi::$module::Descr,
            ) -> c_int {
                // SAFETY: NCCL passes a place for the handle.
                unsafe { *handle = NAME };
                nccl_abi::result::SUCCESS
            }

            unsafe extern "C" fn state(
                _handle: *mut c_void,
                _state: u32,
                _args: *mut nccl_abi::$module::StateArgs,
            ) -> c_int {
                nccl_abi::result::SUCCESS
            }

            #[doc = "The struct that NCCL looks up."]
            #[unsafe(export_name = $symbol)]
            pub static PROFILER: nccl_abi::$module::Profiler = nccl_abi::$module::Profiler {
                name: c"empty".as_ptr(),
                init: Some($init),
                start_event: Some(start),
                stop_event: Some(stop),
                record_event_state: Some(state),
                finalize: Some(stop),
            };
        }
    };
}

version!(v1, "ncclProfiler_v1", init_short::<1>);
version!(v2, "ncclProfiler_v2", init_short::<2>);
version!(v3, "ncclProfiler_v3", init_short::<3>);
version!(v4, "ncclProfiler_v4", init_v4);
version!(v5, "ncclProfiler_v5", init_long::<5>);
version!(v6, "ncclProfiler_v6", init_long::<6>);
version!(v7, "ncclProfiler_v7", init_long::<7>);

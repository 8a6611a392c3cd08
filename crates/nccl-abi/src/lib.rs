//! The C layouts of NCCL's profiler plugin API, ABI versions 1 to 7, and the tables that name their values.
//!
//! A plugin exports one [`v1::Profiler`] … [`v7::Profiler`] static for each name in [`SYMBOLS`]; NCCL takes
//! the newest it knows. NCCL hands `start_event` a `Descr` of that version. Its `type_` is one bit of
//! [`event`], and selects the member of the union `u`. NCCL hands `record_event_state` one value of
//! [`state`], which selects the member of `StateArgs`. Each module `vN` is complete. A type that kept its
//! bytes is a re-export of the version that introduced it, and each module asserts every offset again.
//!
//! Rule: read the field that the event and the version define, through the pointer NCCL gave, and nothing
//! else. In v1 to v4 the seven bytes after `type_` are uninitialised, and NCCL's own compatibility shims
//! leave union bytes that the event doesn't use as stack garbage. So a `Descr` or a union is never copied
//! whole, compared or hashed, and nobody guesses its width. Only the symbol that NCCL looked up says which
//! version it is.
//!
//! C `bool` is `u8` here (non-zero is true), because a byte other than 0 or 1 in a Rust `bool` is undefined
//! behaviour and the byte comes from another library. Any pointer may be null. Handles and contexts may be
//! stale, or belong to another process (PXN), so they are looked up, never followed.
//!
//! The crate holds layouts, constants and tables; it allocates nothing, links nothing and calls nothing.

#![cfg_attr(not(test), no_std)]

#[cfg(not(all(target_pointer_width = "64", target_endian = "little")))]
compile_error!(
    "the layouts were measured on x86-64 and hold for 64-bit little-endian targets only"
);

#[macro_use]
mod layout;

pub mod event;
pub mod log;
pub mod names;
pub mod release;
pub mod result;
pub mod state;
pub mod tuner;
pub mod v1;
pub mod v2;
pub mod v3;
pub mod v4;
pub mod v5;
pub mod v6;
pub mod v7;

use core::ffi::{c_char, c_int, c_ulong, c_void};

/// Data symbols NCCL looks up, oldest first: the entry for ABI `n` is at `n - 1`.
///
/// NCCL looks from its native ABI downwards and stops at the first it finds. See [`release`].
pub const SYMBOLS: [&str; 7] = [
    "ncclProfiler_v1",
    "ncclProfiler_v2",
    "ncclProfiler_v3",
    "ncclProfiler_v4",
    "ncclProfiler_v5",
    "ncclProfiler_v6",
    "ncclProfiler_v7",
];

/// The newest ABI version.
pub const NEWEST: u8 = SYMBOLS.len() as u8;

/// NCCL's log function, given to `init` from v4 on. Levels and flags are in [`log`].
///
/// `fmt` is a printf format. Pass `"%s"` and the text, so that a `%` in a path can't be read as a conversion.
pub type Logger = Option<
    unsafe extern "C" fn(
        level: c_int,
        flags: c_ulong,
        file: *const c_char,
        line: c_int,
        fmt: *const c_char,
        ...
    ),
>;

/// Ends the event of a handle. The same in every version.
pub type StopEvent = unsafe extern "C" fn(handle: *mut c_void) -> c_int;

/// Ends a communicator's context. The same in every version; many jobs exit without it.
pub type Finalize = unsafe extern "C" fn(context: *mut c_void) -> c_int;

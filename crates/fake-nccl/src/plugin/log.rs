//! NCCL's logger, as plugins get it.

use core::ffi::{c_char, c_int, c_ulong, CStr};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

pub(super) static LOG_LEVEL: AtomicI32 = AtomicI32::new(nccl_abi::log::LEVEL_WARN);

/// NCCL's logger in this process. It prints the format text itself, because a well-behaved plugin passes
/// `"%s"`.
///
/// Stable Rust can't define a C-variadic function. On the platforms that we support, a function that ignores
/// the arguments beyond its named ones is called the same way. The one string of a `"%s"` is the sixth
/// argument.
unsafe extern "C" fn log_line(
    level: c_int,
    _flags: c_ulong,
    _file: *const c_char,
    _line: c_int,
    format: *const c_char,
    first: *const c_char,
) {
    let is_shown = level <= LOG_LEVEL.load(Relaxed);
    if format.is_null() || !(is_shown || level <= nccl_abi::log::LEVEL_INFO) {
        return;
    }
    // SAFETY: the plugin passed a NUL-terminated format, and for "%s" a NUL-terminated string.
    let text = unsafe {
        let format = CStr::from_ptr(format);
        let text = if format == c"%s" && !first.is_null() {
            CStr::from_ptr(first)
        } else {
            format
        };
        text.to_string_lossy()
    };
    // As NCCL does, if it has a file for its log.
    crate::nccl_log::plugin(&text);
    if !is_shown {
        return;
    }
    let name = match level {
        nccl_abi::log::LEVEL_WARN => "WARN",
        nccl_abi::log::LEVEL_INFO => "INFO",
        _ => "LOG",
    };
    tell!("fake-nccl[{}] NCCL {name} {text}", std::process::id());
}

pub(super) fn logger() -> nccl_abi::Logger {
    type Fixed =
        unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, *const c_char);
    type Variadic = unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, ...);
    // SAFETY: on x86-64 System V and AArch64 Linux, an integer or pointer argument beyond the named ones is
    // in the next argument register. A named sixth argument would be there, too.
    Some(unsafe { std::mem::transmute::<Fixed, Variadic>(log_line as Fixed) })
}

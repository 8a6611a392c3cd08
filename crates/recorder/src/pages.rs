//! Zeroed memory of the recorder's own, from the kernel: not `malloc`, which the program may be in the middle
//! of.

use std::ffi::c_void;
use std::io;
use std::sync::atomic::{
    AtomicPtr,
    Ordering::{AcqRel, Acquire},
};

/// Maps `bytes` of zeroed memory, of which a page takes none until it is touched.
pub fn map(bytes: usize) -> io::Result<*mut c_void> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new anonymous mapping; no memory of ours is replaced.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        // As it is: a text of our own would need memory.
        return Err(io::Error::last_os_error());
    }
    Ok(base)
}

/// What the rare work of an init or of a first captured call allocates at most, with much room: lists of all
/// loaded libraries and of what they import.
const SPARE: usize = 4 << 20;

/// Whether the process may have some more memory.
///
/// Asked before rare work on a thread of the program that allocates, because an allocation that fails ends
/// the process. Without memory, that work waits for another time.
pub fn are_spare() -> bool {
    let Ok(base) = map(SPARE) else { return false };
    // SAFETY: mapped just now, and used by nobody.
    unsafe { libc::munmap(base, SPARE) };
    true
}

/// Gives `place` so many bytes for the life of the process, unless it has them; false if there is no memory.
/// Of several threads, the first one's stay.
pub fn map_once<T>(place: &AtomicPtr<T>, bytes: usize) -> bool {
    if !place.load(Acquire).is_null() {
        return true;
    }
    let Ok(fresh) = map(bytes) else {
        return false;
    };
    let other = place.compare_exchange(std::ptr::null_mut(), fresh.cast(), AcqRel, Acquire);
    if other.is_err() {
        // SAFETY: another thread was first; this mapping was never shared.
        unsafe { libc::munmap(fresh, bytes) };
    }
    true
}

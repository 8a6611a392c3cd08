//! Two ways to read memory of this process: [`Plain`] loads, and reads by the kernel that can't fault
//! ([`Guarded`]).
//!
//! Rule: `Plain` is for what only the calling thread can free. `0007-stacks.md` says what that is.

use std::mem::MaybeUninit;

/// A way to read memory. Nothing is returned for what can't be read.
pub trait ReadMemory {
    /// Whether a wrong pointer is safe.
    const GUARDED: bool;

    /// Copies the bytes at an address; false if they can't be read.
    fn copy(&mut self, at: usize, into: &mut [u8]) -> bool;

    /// A value at an address.
    fn value<T: Number>(&mut self, at: usize) -> Option<T>;
}

/// A plain number: any bytes are a value.
pub trait Number: Copy {}
impl Number for u8 {}
impl Number for i32 {}
impl Number for u32 {}
impl Number for usize {}

/// Whether there can be an object at an address: in the user's half of memory, not in its first 64 KiB, which
/// the kernel keeps free, and aligned.
#[inline(always)]
fn may_be(at: usize, align: usize) -> bool {
    at.wrapping_sub(0x1_0000) < (1 << 47) - 0x1_1000 && at.is_multiple_of(align)
}

/// Loads.
pub struct Plain;

impl ReadMemory for Plain {
    const GUARDED: bool = false;

    #[inline(always)]
    fn copy(&mut self, at: usize, into: &mut [u8]) -> bool {
        if !may_be(at, 1) {
            return false;
        }
        // SAFETY: as for `value`.
        unsafe { std::ptr::copy_nonoverlapping(at as *const u8, into.as_mut_ptr(), into.len()) };
        true
    }

    #[inline(always)]
    fn value<T: Number>(&mut self, at: usize) -> Option<T> {
        // SAFETY: the address comes from the frames of the calling thread, whose layout was vetted. The
        // thread is in our callback, so what its frames own stays where it is.
        may_be(at, align_of::<T>()).then(|| unsafe { std::ptr::read(at as *const T) })
    }
}

/// Bytes that one read of the kernel brings, for values that lie side by side.
const WINDOW: usize = 512;

/// Reads by the kernel, which answers with an error where a load would fault.
pub struct Guarded {
    /// The bytes around the newest value.
    window: MaybeUninit<[u8; WINDOW]>,
    at: usize,
    len: usize,
    pid: libc::pid_t,
}

impl Guarded {
    pub fn new() -> Guarded {
        Guarded {
            window: MaybeUninit::uninit(),
            at: 0,
            len: 0,
            // SAFETY: a plain system call.
            pid: unsafe { libc::getpid() },
        }
    }

    /// Whether the kernel allows such reads.
    pub fn works(&mut self) -> bool {
        let probe = 0x5eed_usize;
        let read = self.value::<usize>(std::ptr::from_ref(&probe) as usize);
        read == Some(probe)
    }

    /// Bytes that the kernel copied from an address.
    fn read(&self, at: usize, into: *mut u8, len: usize) -> usize {
        let local = libc::iovec {
            iov_base: into.cast(),
            iov_len: len,
        };
        let remote = libc::iovec {
            iov_base: at as *mut libc::c_void,
            iov_len: len,
        };
        // SAFETY: writes at most `len` bytes to `into`, which has so many; whatever is wrong with the other
        // address is an error.
        let n = unsafe { libc::process_vm_readv(self.pid, &local, 1, &remote, 1, 0) };
        usize::try_from(n).unwrap_or(0)
    }
}

impl ReadMemory for Guarded {
    const GUARDED: bool = true;

    fn copy(&mut self, at: usize, into: &mut [u8]) -> bool {
        may_be(at, 1) && self.read(at, into.as_mut_ptr(), into.len()) == into.len()
    }

    fn value<T: Number>(&mut self, at: usize) -> Option<T> {
        if !may_be(at, align_of::<T>()) {
            return None;
        }
        let size = size_of::<T>();
        let inside = |at: usize, window: &Guarded| {
            at.checked_sub(window.at)
                .is_some_and(|offset| offset + size <= window.len)
        };
        if !inside(at, self) {
            // From a little before the value, and not over the end of its page, which may be the last one.
            let from = (at & !63).max(at & !4095);
            let to = (from + WINDOW).min((from | 4095) + 1);
            let into = self.window.as_mut_ptr().cast::<u8>();
            self.len = self.read(from, into, to - from);
            self.at = from;
            if !inside(at, self) {
                return None;
            }
        }
        // SAFETY: so many bytes were copied into the window; any bytes are a value.
        Some(unsafe {
            let from = self.window.as_ptr().cast::<u8>().add(at - self.at);
            std::ptr::read_unaligned(from.cast::<T>())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_reads_what_is_there_and_nothing_else() {
        let values = [7usize; 200];
        let mut memory = Guarded::new();
        assert!(memory.works());
        for value in &values {
            assert_eq!(
                memory.value(std::ptr::from_ref(value) as usize),
                Some(7usize)
            );
        }
        for at in [
            0,
            8,
            0x1000,
            1 << 46,
            (1 << 47) - 8,
            1 << 47,
            usize::MAX - 7,
            12345,
        ] {
            assert_eq!(memory.value::<usize>(at), None, "{at:#x}");
            assert!(!memory.copy(at, &mut [0; 16]), "{at:#x}");
        }
    }

    #[test]
    fn the_last_bytes_before_a_hole_are_read() {
        let pages = crate::pages::map(8192).expect("memory") as usize;
        // SAFETY: the second page is this test's.
        unsafe { libc::munmap((pages + 4096) as *mut libc::c_void, 4096) };
        let mut memory = Guarded::new();
        assert_eq!(memory.value::<usize>(pages + 4088), Some(0));
        assert_eq!(memory.value::<usize>(pages + 4096), None);
        assert!(memory.copy(pages + 4090, &mut [0; 6]));
        assert!(!memory.copy(pages + 4090, &mut [0; 7]));
    }

    #[test]
    fn plain_loads_refuse_what_can_be_no_object() {
        for at in [0, 8, 4095, 1 << 47, usize::MAX - 7, 0x10001] {
            assert_eq!(Plain.value::<usize>(at), None);
        }
        let value = 9usize;
        assert_eq!(
            Plain.value(std::ptr::from_ref(&value) as usize),
            Some(9usize)
        );
    }
}

//! The reader's end of the kernel's ring buffer.
//!
//! ```text
//! page that we write: our position │ page that the kernel writes: its position │ data, mapped twice
//! record: length u32 (bit 31: not finished, bit 30: given up) │ u32 │ bytes │ zeros to a multiple of 8
//! ```
//!
//! Rule: a record is read after the kernel's position says that it is there, and its place is given back
//! after it was read.

use crate::sys::{self, Map};
use std::io;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Release},
};

const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// A mapped ring buffer.
pub struct Ring {
    ours: *mut u8,
    kernels: *mut u8,
    bytes: usize,
    /// Bytes of a page.
    page: usize,
}

// SAFETY: the mappings belong to the ring and not to a thread.
unsafe impl Send for Ring {}

fn map(fd: i32, bytes: usize, protection: i32, at: usize) -> io::Result<*mut u8> {
    // SAFETY: a new mapping of a file, which replaces none.
    let mapped = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            protection,
            libc::MAP_SHARED,
            fd,
            at as libc::off_t,
        )
    };
    match mapped {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        mapped => Ok(mapped.cast()),
    }
}

impl Ring {
    /// Maps a ring buffer of so many bytes, a power of two.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn map(buffer: &Map, bytes: usize) -> io::Result<Ring> {
        let page = sys::page();
        let ours = map(buffer.fd(), page, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        let kernels = match map(buffer.fd(), page + 2 * bytes, libc::PROT_READ, page) {
            Ok(kernels) => kernels,
            Err(error) => {
                // SAFETY: it was mapped above, and nobody has seen it.
                unsafe { libc::munmap(ours.cast(), page) };
                return Err(error);
            }
        };
        Ok(Ring {
            ours,
            kernels,
            bytes,
            page,
        })
    }

    /// Hands the bytes of every record that is finished to `each`, in the order of their places. Returns how
    /// many there were.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8])) -> usize {
        // SAFETY: both pages are mapped as long as the ring is, and positions are aligned words.
        let (ours, kernels) = unsafe {
            (
                &*self.ours.cast::<AtomicU64>(),
                &*self.kernels.cast::<AtomicU64>(),
            )
        };
        let (mut at, mut count) = (ours.load(Acquire), 0);
        let end = kernels.load(Acquire);
        while at < end {
            let offset = self.page + (at as usize & (self.bytes - 1));
            // SAFETY: a record begins at a multiple of 8 in the data, which is mapped behind the first page.
            let length = unsafe { &*self.kernels.add(offset).cast::<AtomicU32>() }.load(Acquire);
            if length & BUSY != 0 {
                break;
            }
            let bytes = (length & !DISCARDED) as usize;
            if length & DISCARDED == 0 {
                // SAFETY: the record was finished before its length was stored (Acquire above). The data is
                // mapped twice in a row, so a record that wraps is whole. The kernel does not write here
                // until our position has passed it.
                each(unsafe { std::slice::from_raw_parts(self.kernels.add(offset + 8), bytes) });
                count += 1;
            }
            at += (bytes as u64 + 8).next_multiple_of(8);
            ours.store(at, Release);
        }
        count
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: both were mapped by `map`, and nothing borrows from them any more.
        unsafe {
            libc::munmap(self.ours.cast(), self.page);
            libc::munmap(self.kernels.cast(), self.page + 2 * self.bytes);
        }
    }
}

//! Standard error of a process that belongs to somebody else.
//!
//! A program may close descriptor 2 and open a file of its own, which gets the number 2: what was written to
//! the terminal would then be written into that file. So a library that is loaded into a program takes note
//! of what descriptor 2 is when it is loaded ([`note`]), and looks before each message whether it still is
//! that ([`is_the_one`]).
//!
//! Rule: nothing is written to a descriptor 2 that another file has by now, nor to one that was closed when
//! the library was loaded.

use crate::file_id::FileId;
use std::os::fd::AsRawFd;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Device, inode, and 1 if there is one.
static NOTED: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// Descriptor 2, whatever it is.
struct Standard;

impl AsRawFd for Standard {
    fn as_raw_fd(&self) -> i32 {
        libc::STDERR_FILENO
    }
}

/// Takes note of what descriptor 2 is. For the loader, once.
pub fn note() {
    if let Ok(id) = FileId::of(&Standard) {
        let [device, inode] = id.words();
        NOTED[0].store(device, Relaxed);
        NOTED[1].store(inode, Relaxed);
        // Meets the Acquire below.
        NOTED[2].store(1, Release);
    }
}

/// Whether descriptor 2 is what it was when the library was loaded.
pub fn is_the_one() -> bool {
    let [device, inode, noted] = &NOTED;
    let noted = noted.load(Acquire) != 0;
    let before = [device.load(Relaxed), inode.load(Relaxed)];
    noted && FileId::of(&Standard).is_ok_and(|id| id.words() == before)
}

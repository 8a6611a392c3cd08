//! Perf events that sample, and the rings that the kernel puts their samples into: one for each CPU.
//!
//! ```text
//! page with positions: the kernel's at 1024, ours at 1032, where data begins at 1040 │ data
//! record: kind u32 │ u16 │ bytes in all u16 │ body          9 is a sample, 2 says how many were lost
//! ```
//!
//! Rule: a record is read after the kernel's position says that it is there, and its place is given back
//! after it was read.

use crate::sys::{self, Attributes};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};

/// Kinds of events.
const SOFTWARE: u32 = 1;
const TRACEPOINT: u32 = 2;
/// A software event that never happens.
const DUMMY: u64 = 9;
/// What a sample has: PERF_SAMPLE_TID, TIME, REGS_USER, STACK_USER and IDENTIFIER.
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const REGS_USER: u64 = 1 << 12;
const STACK_USER: u64 = 1 << 13;
const IDENTIFIER: u64 = 1 << 16;
/// Flags: exclude_kernel, watermark, use_clockid.
const FLAGS: u64 = 1 << 5 | 1 << 14 | 1 << 25;
/// Requests to an event.
const DISABLE: libc::c_ulong = 0x2401;
const SET_OUTPUT: libc::c_ulong = 0x2405;
const ID: libc::c_ulong = 0x8008_2407;
/// Kinds of records.
const LOST: u32 = 2;
const SAMPLE: u32 = 9;

/// What a perf event samples at a tracepoint.
pub struct Sampled {
    /// Its number in tracefs.
    pub tracepoint: u64,
    /// Registers of the program, by their bits in `perf_regs.h`.
    pub registers: u64,
    /// Bytes of its stack.
    pub stack: u32,
}

fn open(cpu: u32, kind: u32, number: u64, sample: u64, of: &Sampled) -> io::Result<OwnedFd> {
    // struct perf_event_attr. Time is CLOCK_MONOTONIC (1), as the programs of BPF have it. The reader looks
    // into the rings by itself, so the kernel need not wake it: the watermark is never reached.
    let attributes = Attributes::new()
        .put32(0, kind)
        .put32(4, 112)
        .put64(8, number)
        .put64(16, u64::from(sample != 0))
        .put64(24, sample | IDENTIFIER)
        .put64(40, FLAGS)
        .put32(48, u32::MAX)
        .put64(80, of.registers)
        .put32(88, of.stack)
        .put32(92, 1);
    // Of all processes, on this CPU; PERF_FLAG_FD_CLOEXEC.
    // SAFETY: the attributes are longer than they say, and have no pointers.
    let event = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            -1,
            cpu as i32,
            -1,
            8,
        )
    };
    match event {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the kernel just made it for this caller.
        event => Ok(unsafe { OwnedFd::from_raw_fd(event as i32) }),
    }
}

fn request(event: &OwnedFd, what: libc::c_ulong, value: libc::c_ulong) -> io::Result<()> {
    // SAFETY: callers give what the request takes.
    match unsafe { libc::ioctl(event.as_raw_fd(), what as _, value) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Has an event count and sample no more.
pub fn disable(event: &OwnedFd) {
    let _ = request(event, DISABLE, 0);
}

/// The number by which samples name their event.
///
/// # Errors
/// What the kernel says.
pub fn id(event: &OwnedFd) -> io::Result<u64> {
    let mut id = 0u64;
    request(event, ID, (&raw mut id) as libc::c_ulong)?;
    Ok(id)
}

/// How often it has happened.
///
/// # Errors
/// What the kernel says.
pub fn count(event: &OwnedFd) -> io::Result<u64> {
    let mut bytes = [0u8; 8];
    // SAFETY: the kernel writes at most 8 bytes.
    match unsafe { libc::read(event.as_raw_fd(), bytes.as_mut_ptr().cast(), 8) } {
        8 => Ok(u64::from_ne_bytes(bytes)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The ring of one CPU.
pub struct PerfRing {
    /// An event that never happens: it has the ring, so that the ring outlives all others.
    owner: OwnedFd,
    page: *mut u8,
    /// Where data begins: behind one page.
    data: usize,
    bytes: usize,
    /// A record that wraps, in one piece.
    whole: Vec<u8>,
}

// SAFETY: the mapping belongs to the ring and not to a thread.
unsafe impl Send for PerfRing {}

impl PerfRing {
    /// Makes one of so many bytes, a power of two.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new(cpu: u32, bytes: usize) -> io::Result<PerfRing> {
        let nothing = Sampled {
            tracepoint: 0,
            registers: 0,
            stack: 0,
        };
        let data = sys::page();
        let owner = open(cpu, SOFTWARE, DUMMY, 0, &nothing)?;
        // SAFETY: a new mapping of a file, which replaces none.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                data + bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                owner.as_raw_fd(),
                0,
            )
        };
        match page {
            libc::MAP_FAILED => Err(io::Error::last_os_error()),
            page => Ok(PerfRing {
                owner,
                page: page.cast(),
                data,
                bytes,
                whole: Vec::new(),
            }),
        }
    }

    /// Samples `what` on the ring's CPU into the ring.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn sample(&self, cpu: u32, what: &Sampled) -> io::Result<OwnedFd> {
        let stack = if what.stack > 0 { STACK_USER } else { 0 };
        let sample = TID | TIME | REGS_USER | stack;
        let event = open(cpu, TRACEPOINT, what.tracepoint, sample, what)?;
        request(&event, SET_OUTPUT, self.owner.as_raw_fd() as libc::c_ulong)?;
        Ok(event)
    }

    /// Hands the body of every sample to `each`. Whether some found no room.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8])) -> bool {
        // SAFETY: the page is mapped as long as the ring is, and these are aligned words of it.
        let (kernels, ours) = unsafe {
            (
                &*self.page.add(1024).cast::<AtomicU64>(),
                &*self.page.add(1032).cast::<AtomicU64>(),
            )
        };
        // Acquire: the kernel stores its position after the records.
        let (mut at, end) = (ours.load(Acquire), kernels.load(Acquire));
        // SAFETY: so many bytes are mapped behind the page. The kernel writes none of those between our
        // position and its own.
        let data = unsafe { std::slice::from_raw_parts(self.page.add(self.data), self.bytes) };
        let mut any_lost = false;
        while at < end {
            let from = at as usize & (self.bytes - 1);
            // Records begin at a multiple of 8, so these 8 bytes do not wrap.
            let head = u64::from_ne_bytes(data[from..from + 8].try_into().unwrap_or_default());
            let (kind, bytes) = (head as u32, (head >> 48) as usize);
            if bytes < 8 {
                // No record: nothing behind it can be read.
                at = end;
                break;
            }
            let to = from + bytes;
            let record = match data.get(from..to) {
                Some(record) => record,
                None => {
                    self.whole.clear();
                    self.whole.extend(&data[from..]);
                    self.whole.extend(&data[..to - self.bytes]);
                    &self.whole
                }
            };
            match kind {
                SAMPLE => each(&record[8..]),
                LOST => any_lost = true,
                _ => {}
            }
            at += bytes as u64;
        }
        // Release: what was read is read before the kernel writes there again.
        ours.store(at, Release);
        any_lost
    }
}

impl Drop for PerfRing {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and nothing borrows from it any more.
        unsafe { libc::munmap(self.page.cast(), self.data + self.bytes) };
    }
}

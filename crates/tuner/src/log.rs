//! The log of an experiment: which arm began when, on which communicator.
//!
//! One file for each process, `HOST-PID.blocks` in the experiment's folder. It is mapped, so that it survives
//! the process however that ends. Little-endian, as all of this library:
//!
//! ```text
//! byte  what
//!    0  "NSTUNE01"
//!    8  u32 process, u32 arms (the default among them)
//!   16  u64 collectives of a block
//!   24  u32 records that there is room for, u32 1 if NCCL_ALGO or NCCL_PROTO is set
//!   64  the arms as they were asked for, `RING/LL;TREE/SIMPLE`, then zeros
//! 4096  records of 32 bytes; one of kind 0 is not there
//!
//! record: u64 time, ns since 1970; u32 number of the communicator; u16 kind; u16 arm; u64; u64
//!   kind 1, a communicator:  u64 its id; u32 ranks; u32 nodes
//!   kind 2, a block begins:  u32 calls of the block before that NCCL ignored; u32 number of the block;
//!                            u64 collectives before
//! ```
//!
//! For example, block 3 of communicator 0 begins with arm 2 after 600 collectives:
//! `time`, `00 00 00 00`, `02 00`, `02 00`, `00 00 00 00 03 00 00 00`, `58 02 00 00 00 00 00 00`.
//!
//! Rule: a store of a record never waits for a disk's space or for a lock: the file's blocks are allocated
//! and its pages are there before the first. When it is full, records are left out, and blocks go on.

use crate::arms::Experiment;
use std::ffi::CStr;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release};

/// What the file begins with.
pub const MAGIC: [u8; 8] = *b"NSTUNE01";
/// Bytes before the first record.
pub const HEAD: usize = 4096;
/// Bytes of a record.
pub const RECORD: usize = 32;
/// Records that there is room for: 16 384 blocks take 512 KiB.
pub const ROOM: u32 = 16_384;
/// Where the arms stand in the head.
const ARMS_AT: usize = 64;

/// A mapped log, or none, which keeps nothing.
pub struct Log {
    /// Null without a file.
    base: *mut u8,
    /// The next record.
    next: AtomicU32,
    communicators: AtomicU32,
}

// SAFETY: the mapping lives as long as the process, and records are handed out one by one by `next`.
unsafe impl Send for Log {}
// SAFETY: as above.
unsafe impl Sync for Log {}

impl Log {
    /// Makes the file. If it can't be made, what happens is known to nobody, and happens all the same.
    pub fn create(experiment: &Experiment) -> Log {
        Log {
            base: of_experiment(experiment).unwrap_or(std::ptr::null_mut()),
            next: AtomicU32::new(0),
            communicators: AtomicU32::new(0),
        }
    }

    /// A communicator is tuned from now on; gives its number.
    pub fn communicator(&self, id: u64, ranks: usize, nodes: usize) -> u32 {
        let number = self.communicators.fetch_add(1, Relaxed);
        let size = (nodes as u64) << 32 | ranks as u64 & 0xffff_ffff;
        self.record(1, number, 0, id, size);
        number
    }

    /// A block begins.
    pub fn block(&self, communicator: u32, block: u64, arm: usize, refused: u32, calls: u64) {
        let both = (block & 0xffff_ffff) << 32 | u64::from(refused);
        self.record(2, communicator, arm as u16, both, calls);
    }

    fn record(&self, kind: u16, communicator: u32, arm: u16, a: u64, b: u64) {
        // Looked at first, so that the count does not run over in a long job.
        if self.base.is_null() || self.next.load(Relaxed) >= ROOM {
            return;
        }
        let place = self.next.fetch_add(1, Relaxed);
        if place >= ROOM {
            return;
        }
        let at = HEAD + place as usize * RECORD;
        // SAFETY: `place` is below the room, so all of the record is in the mapping; its fields are aligned,
        // because the mapping is, and 32 and 4096 are multiples of 8. Readers are other processes.
        unsafe {
            let at = self.base.add(at);
            AtomicU64::from_ptr(at.cast()).store(now_ns(), Relaxed);
            AtomicU32::from_ptr(at.add(8).cast()).store(communicator, Relaxed);
            AtomicU16::from_ptr(at.add(14).cast()).store(arm, Relaxed);
            AtomicU64::from_ptr(at.add(16).cast()).store(a, Relaxed);
            AtomicU64::from_ptr(at.add(24).cast()).store(b, Relaxed);
            // Last: a record of kind 0 is not there.
            AtomicU16::from_ptr(at.add(12).cast()).store(kind, Release);
        }
    }
}

/// Makes the log of an experiment.
fn of_experiment(experiment: &Experiment) -> Option<*mut u8> {
    let path = experiment
        .out
        .join(format!("{}-{}.blocks", host()?, std::process::id()));
    let mut head = vec![0u8; HEAD];
    head[..8].copy_from_slice(&MAGIC);
    head[8..12].copy_from_slice(&std::process::id().to_le_bytes());
    head[12..16].copy_from_slice(&(experiment.arms.len() as u32).to_le_bytes());
    head[16..24].copy_from_slice(&experiment.block.to_le_bytes());
    head[24..28].copy_from_slice(&ROOM.to_le_bytes());
    head[28..32].copy_from_slice(&u32::from(experiment.is_forced()).to_le_bytes());
    let text = experiment.text.as_bytes();
    head.get_mut(ARMS_AT..ARMS_AT + text.len())?
        .copy_from_slice(text);
    mapped(&path, &head, HEAD + ROOM as usize * RECORD)
}

/// Makes and maps a file of `length` bytes, whose blocks are allocated, and writes its head.
pub(crate) fn mapped(path: &Path, head: &[u8], length: usize) -> Option<*mut u8> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .ok()?;
    // SAFETY: the file is ours and open.
    if unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length as libc::off_t) } != 0 {
        return None;
    }
    // SAFETY: a new mapping of a file that is as long as this.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_POPULATE,
            file.as_raw_fd(),
            0,
        )
    };
    if base == libc::MAP_FAILED || head.len() > length {
        return None;
    }
    let base = base.cast::<u8>();
    // SAFETY: the mapping is longer than the head, and nobody else knows of it yet.
    unsafe { std::ptr::copy_nonoverlapping(head.as_ptr(), base, head.len()) };
    Some(base)
}

/// Nanoseconds since 1970, as the recorder has them.
fn now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills what it is given; it reads the vDSO.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut time) };
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// The host's name, if it can be part of a file's.
pub(crate) fn host() -> Option<String> {
    let mut name = [0u8; 256];
    // SAFETY: the buffer is as long as said, and its last byte stays 0.
    let named = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) } == 0;
    let text = CStr::from_bytes_until_nul(&name).ok()?.to_str().ok()?;
    (named && !text.is_empty() && !text.contains('/')).then(|| text.to_owned())
}

//! The first calls of the driver that are rare and may take long, one by one: allocations, loads of code, IPC
//! opens and mappings.
//!
//! [`make`] makes such a call with a look at the clock before and behind it, counts it, and notes it in a log
//! of fixed size. There is one log for NCCL and one for the program. So the program's many kernels leave room
//! for what NCCL does. The recorder's thread takes the logs out now and then ([`take`]) and writes them into
//! the capture (`writer::timed_calls`). A reader finds from them what the start of a process waited for.
//!
//! Rule: any thread may note a call. It touches its own entry and three words of [`counts`], and neither
//! waits nor allocates. A call that the driver refuses leaves nothing. If a log is full, a call is counted
//! and not noted.

use crate::counts;
use crate::recorder::fork_page::get;
use capture::counts::Count;
use capture::rows::Ticks;
use std::ffi::c_int;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Calls of each log: both together have 128 KiB, of which only what is used is touched.
pub const MOST: usize = 2048;

const OK: c_int = 0;

/// A call as it was noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    /// As what it is counted, by its place in the capture's list of names.
    pub count: usize,
    pub thread: u32,
    pub at: Ticks,
    /// Ticks.
    pub took: u64,
    /// Bytes that were allocated or mapped; 0 if it has none.
    pub bytes: u64,
}

#[repr(C)]
struct Entry {
    /// Ticks.
    at: AtomicU64,
    took: AtomicU64,
    bytes: AtomicU64,
    /// Thread << 8 | count + 1; 0 until all of the entry is there.
    word: AtomicU64,
}

struct Log {
    next: AtomicU32,
    entries: [Entry; MOST],
}

static LOGS: [Log; 2] = [const {
    Log {
        next: AtomicU32::new(0),
        entries: [const {
            Entry {
                at: AtomicU64::new(0),
                took: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
                word: AtomicU64::new(0),
            }
        }; MOST],
    }
}; 2];

/// Makes a call; counts and notes it if the driver accepts it. `nccl`: NCCL calls, and not the program.
/// `bytes` is as what its bytes count, and how many there are.
pub fn make(
    nccl: bool,
    count: Count,
    bytes: (Option<Count>, u64),
    call: impl FnOnce() -> c_int,
) -> c_int {
    let clock = get().map(|recorder| recorder.clock);
    let at = clock.map(|clock| clock.ticks());
    let result = call();
    if result != OK {
        return result;
    }
    counts::add(count, nccl, 1);
    if let Some(of_bytes) = bytes.0 {
        counts::add(of_bytes, nccl, bytes.1);
    }
    if let Some((clock, at)) = clock.zip(at) {
        let took = clock.ticks().since(at);
        if let Some(time) = count.time() {
            counts::add(time, nccl, took);
        }
        LOGS[usize::from(nccl)].note(count, at, took, bytes.1);
    }
    result
}

impl Log {
    fn note(&self, count: Count, at: Ticks, took: u64, bytes: u64) {
        // Looked at first, so that the number of a long job's calls never wraps.
        if self.next.load(Relaxed) as usize >= MOST {
            return;
        }
        let number = self.next.fetch_add(1, Relaxed) as usize;
        let Some(entry) = self.entries.get(number) else {
            return;
        };
        entry.at.store(at.0, Relaxed);
        entry.took.store(took, Relaxed);
        entry.bytes.store(bytes, Relaxed);
        // SAFETY: a plain system call.
        let thread = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
        // Pairs with the Acquire in `take`.
        let word = u64::from(thread) << 8 | (count as u64 + 1);
        entry.word.store(word, Release);
    }
}

/// How many calls were noted until now.
pub fn noted(nccl: bool) -> usize {
    (LOGS[usize::from(nccl)].next.load(Relaxed) as usize).min(MOST)
}

/// The calls from this number on, in their order, up to one that is being stored right now.
pub fn take(nccl: bool, from: usize) -> Vec<Noted> {
    let log = &LOGS[usize::from(nccl)];
    let entries = log.entries.get(from..noted(nccl)).unwrap_or(&[]);
    let whole = entries.iter().map_while(|entry| {
        // Meets the Release in `note`.
        let word = entry.word.load(Acquire);
        let count = usize::try_from((word & 0xff).checked_sub(1)?).ok()?;
        Some(Noted {
            count,
            thread: (word >> 8) as u32,
            at: Ticks(entry.at.load(Relaxed)),
            took: entry.took.load(Relaxed),
            bytes: entry.bytes.load(Relaxed),
        })
    });
    whole.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_notes_no_more_and_a_half_stored_call_waits() {
        // The log of tests alone: `make` is not called without a recorder.
        let log = &LOGS[1];
        log.note(Count::IpcOpen, Ticks(7), 3, 0);
        log.next.fetch_add(1, Relaxed);
        log.note(Count::GpuAllocation, Ticks(9), 4, 100);
        let first = take(true, 0);
        assert_eq!(first.len(), 1);
        assert_eq!((first[0].at, first[0].took), (Ticks(7), 3));
        assert_eq!(first[0].count, Count::IpcOpen as usize);
        let whole = &log.entries[1];
        whole.word.store(1 << 8 | 1, Release);
        let later = take(true, 1);
        assert_eq!(later.len(), 2);
        assert_eq!((later[1].bytes, later[1].at), (100, Ticks(9)));
        (0..MOST as u64 + 9).for_each(|i| log.note(Count::Mapping, Ticks(i), 0, 0));
        assert_eq!((noted(true), take(true, 0).len()), (MOST, MOST));
        assert_eq!(log.next.load(Relaxed) as usize, MOST);
        assert!(take(true, MOST).is_empty());
    }

    #[test]
    fn what_the_driver_returns_is_returned() {
        for result in [0, 2] {
            let bytes = (Some(Count::GpuBytes), 8);
            assert_eq!(make(false, Count::GpuAllocation, bytes, || result), result);
        }
    }
}

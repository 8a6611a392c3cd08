//! What the host asked the driver for while a window is open.
//!
//! Functions of ours before the driver's ([`crate::driver_watch`]) note each call in a [`Log`] of fixed size.
//! Outside of windows they only look at [`OPEN`], count what CUPTI would make slower, and call on.
//!
//! Rule: any thread may note a call; the recorder's thread reads the log after the window is closed and its
//! last writers have had time to finish.

use crate::pages;
use capture::windows::{Ask, Asked};
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Calls that are kept of a window: 2.5 MiB, of which only what is used is touched.
pub const MOST: usize = 1 << 16;

/// Whether a window is open.
static OPEN: AtomicBool = AtomicBool::new(false);

/// One call.
#[repr(C)]
struct Entry {
    at: AtomicU64,
    /// Ticks << 8 | kind + 1; 0 while it is being stored.
    word: AtomicU64,
    object: AtomicU64,
    thread: AtomicU32,
    stream: AtomicU32,
}

static ENTRIES: AtomicPtr<Entry> = AtomicPtr::new(std::ptr::null_mut());
static NEXT: AtomicU32 = AtomicU32::new(0);
/// Launches of kernels and copies, and of graphs, that were not noted.
static LAUNCHES: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Whether calls are to be noted now.
#[inline(always)]
pub fn open() -> bool {
    OPEN.load(Relaxed)
}

/// Counts a call that is not noted.
#[inline(always)]
pub fn pass(kind: Ask) {
    match kind {
        Ask::Launch | Ask::Copy => LAUNCHES[0].fetch_add(1, Relaxed),
        Ask::LaunchGraph => LAUNCHES[1].fetch_add(1, Relaxed),
        _ => 0,
    };
}

/// Launches of kernels and copies, and of graphs, outside of windows.
pub fn launches() -> [u64; 2] {
    [0, 1].map(|i| LAUNCHES[i].load(Relaxed))
}

/// Makes the log, once; false if there is no memory for it.
pub fn make() -> bool {
    pages::map_once(&ENTRIES, MOST * std::mem::size_of::<Entry>())
}

fn entries() -> &'static [Entry] {
    let entries = ENTRIES.load(Acquire);
    if entries.is_null() {
        return &[];
    }
    // SAFETY: `make` mapped this many; zeroed memory is valid for atomics.
    unsafe { std::slice::from_raw_parts(entries, MOST) }
}

/// Calls are noted from now on.
pub fn begin() {
    NEXT.store(0, Relaxed);
    OPEN.store(true, Release);
}

/// No more calls are noted.
pub fn end() {
    OPEN.store(false, Release);
}

/// Notes a call.
pub fn note(kind: Ask, at: u64, took: u64, thread: u32, stream: u32, object: u64) {
    let number = NEXT.fetch_add(1, Relaxed);
    let Some(entry) = entries().get(number as usize) else {
        return;
    };
    entry.at.store(at, Relaxed);
    entry.object.store(object, Relaxed);
    entry.thread.store(thread, Relaxed);
    entry.stream.store(stream, Relaxed);
    entry.word.store(took << 8 | (kind as u64 + 1), Release);
}

/// How many calls were noted since the window was opened, those without room included.
pub fn count() -> usize {
    NEXT.load(Relaxed) as usize
}

/// Takes the calls out, by time. To be called once, when the window is closed.
pub fn take() -> Vec<Asked> {
    let used = count().min(MOST);
    let mut asked = Vec::with_capacity(used);
    for entry in &entries()[..used.min(entries().len())] {
        // Meets the Release in `note`. A thread that was stopped in between leaves nothing.
        let word = entry.word.swap(0, Acquire);
        let kind = match word & 0xff {
            1 => Ask::Launch,
            2 => Ask::LaunchGraph,
            3 => Ask::Copy,
            4 => Ask::Record,
            5 => Ask::Wait,
            6 => Ask::Synchronise,
            _ => continue,
        };
        asked.push(Asked {
            at: entry.at.load(Relaxed),
            took: word >> 8,
            kind,
            thread: entry.thread.load(Relaxed),
            stream: entry.stream.load(Relaxed),
            object: entry.object.load(Relaxed),
        });
    }
    NEXT.store(0, Relaxed);
    asked.sort_by_key(|a| a.at);
    asked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_note_and_one_takes() {
        assert!(make() && make());
        begin();
        assert!(open());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for i in 0..1000u64 {
                        note(Ask::Wait, 4 * i + u64::from(thread), i, thread, 7, 0x57);
                    }
                });
            }
        });
        end();
        let asked = take();
        assert_eq!(asked.len(), 4000);
        assert!(asked.windows(2).all(|pair| pair[0].at < pair[1].at));
        assert_eq!(
            (asked[5].kind, asked[5].took, asked[5].thread),
            (Ask::Wait, 1, 1)
        );
        assert!(take().is_empty() && !open());
        // More than there is room for are counted.
        begin();
        (0..MOST as u64 + 5).for_each(|i| note(Ask::Launch, i, 0, 0, 0, 0));
        end();
        assert_eq!((count(), take().len()), (MOST + 5, MOST));
    }
}

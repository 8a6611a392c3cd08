//! What the host asked the driver for while a window is open.
//!
//! Functions of ours before the driver's ([`crate::driver_watch`]) note each call in a [`Log`] of fixed size.
//! Outside of windows they only look at [`OPEN`], count for [`super::price`], and call on.
//!
//! Rule: any thread may note a call; the recorder reads the log after the window is closed and its
//! last writers have had time to finish.

use crate::{driver_time, pages, seats};
use capture::rows::{AtomicTicks, Ticks};
use capture::windows::{DriverCall, DriverCallKind};
use std::ffi::c_int;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::Duration;

/// Calls that are kept of a window: 2.5 MiB, of which only what is used is touched.
pub const MOST: usize = 1 << 16;

/// Whether a window is open.
static OPEN: AtomicBool = AtomicBool::new(false);

/// One call.
#[repr(C)]
struct Entry {
    at: AtomicTicks,
    /// Ticks << 8 | kind + 1; 0 while it is being stored.
    word: AtomicU64,
    object: AtomicU64,
    thread: AtomicU32,
    stream: AtomicU32,
}

static ENTRIES: AtomicPtr<Entry> = AtomicPtr::new(std::ptr::null_mut());
static NEXT: AtomicU32 = AtomicU32::new(0);
/// What was not noted: see [`HostActivity`].
static LAUNCHES: AtomicU64 = AtomicU64::new(0);
static GRAPHS: AtomicU64 = AtomicU64::new(0);
static WAITED: AtomicU64 = AtomicU64::new(0);

/// Whether they are counted.
static COUNTS: AtomicBool = AtomicBool::new(true);
/// Threads that launched kernels, each at the place of its number. A thread may push another one out: which
/// of two such threads waits is then known in part. Thread-local storage would be allocated at its first use,
/// in front of the driver.
static LAUNCHERS: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

/// The place of the calling thread, and its number.
#[inline(always)]
fn launcher() -> (&'static AtomicU64, u64) {
    let thread = seats::thread();
    // Numbers are addresses, of which the low bits are alike.
    (
        &LAUNCHERS[(thread >> 12 ^ thread >> 20) as usize % LAUNCHERS.len()],
        thread,
    )
}

/// What the host did outside of windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostActivity {
    /// Launches of kernels, and copies and fills.
    pub launches: u64,
    /// Launches of graphs.
    pub graphs: u64,
    /// For how long threads that launch kernels stood still for their GPU.
    pub waited: Duration,
}

/// Whether calls are to be noted now.
#[inline(always)]
pub fn open() -> bool {
    OPEN.load(Relaxed)
}

/// Makes a call that is not noted, and counts it. `ticks` reads the clock.
#[inline(always)]
pub fn pass(
    kind: DriverCallKind,
    ticks: impl Fn() -> Ticks,
    call: impl FnOnce() -> c_int,
) -> c_int {
    let counts = COUNTS.load(Relaxed);
    match kind {
        DriverCallKind::Synchronise => return wait(counts, ticks, call),
        DriverCallKind::LaunchGraph => {
            if counts {
                GRAPHS.fetch_add(1, Relaxed);
            }
            // Its time is in its own row.
            return call();
        }
        _ if counts => {
            LAUNCHES.fetch_add(1, Relaxed);
        }
        _ => {}
    }
    let (place, thread) = launcher();
    if place.load(Relaxed) != thread {
        place.store(thread, Relaxed);
    }
    // It may find no room.
    let since = ticks();
    let result = call();
    driver_time::took(ticks().since(since));
    result
}

/// A call that waits for the GPU.
fn wait(counts: bool, ticks: impl Fn() -> Ticks, call: impl FnOnce() -> c_int) -> c_int {
    if !launches() {
        return call();
    }
    let since = ticks();
    let result = call();
    let took = ticks().since(since);
    if counts {
        WAITED.fetch_add(took, Relaxed);
    }
    driver_time::took(took);
    result
}

/// Whether the calling thread launches kernels.
#[inline(always)]
fn launches() -> bool {
    let (place, thread) = launcher();
    place.load(Relaxed) == thread
}

/// A call that is noted took so many ticks.
pub fn took(kind: DriverCallKind, ticks: u64) {
    match kind {
        DriverCallKind::LaunchGraph => {}
        DriverCallKind::Synchronise if !launches() => {}
        _ => driver_time::took(ticks),
    }
}

/// What the host did outside of windows until now. `time` makes a time of a number of ticks.
pub fn passed(time: impl Fn(u64) -> Duration) -> HostActivity {
    HostActivity {
        launches: LAUNCHES.load(Relaxed),
        graphs: GRAPHS.load(Relaxed),
        waited: time(WAITED.load(Relaxed)),
    }
}

/// Nobody will ask for [`passed`] any more.
pub fn count_no_more() {
    COUNTS.store(false, Relaxed);
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
pub fn note(kind: DriverCallKind, at: Ticks, took: u64, thread: u32, stream: u32, object: u64) {
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
pub fn take() -> Vec<DriverCall> {
    let used = count().min(MOST);
    let mut asked = Vec::with_capacity(used);
    for entry in &entries()[..used.min(entries().len())] {
        // Meets the Release in `note`. A thread that was stopped in between leaves nothing.
        let word = entry.word.swap(0, Acquire);
        let kind = match word & 0xff {
            1 => DriverCallKind::Launch,
            2 => DriverCallKind::LaunchGraph,
            3 => DriverCallKind::Copy,
            4 => DriverCallKind::Record,
            5 => DriverCallKind::Wait,
            6 => DriverCallKind::Synchronise,
            _ => continue,
        };
        asked.push(DriverCall {
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
    use std::cell::Cell;

    #[test]
    fn only_threads_that_launch_wait_for_their_gpu() {
        let time = Cell::new(100);
        let ticks = || Ticks(time.replace(time.get() + 40));
        let before = passed(Duration::from_nanos);
        assert_eq!(pass(DriverCallKind::Synchronise, ticks, || 7), 7);
        assert_eq!(passed(Duration::from_nanos), before);
        assert_eq!(pass(DriverCallKind::Launch, ticks, || 0), 0);
        assert_eq!(pass(DriverCallKind::Copy, ticks, || 0), 0);
        assert_eq!(pass(DriverCallKind::LaunchGraph, ticks, || 3), 3);
        assert_eq!(pass(DriverCallKind::Synchronise, ticks, || 8), 8);
        let after = passed(Duration::from_nanos);
        assert_eq!(after.launches - before.launches, 2);
        assert_eq!(after.graphs - before.graphs, 1);
        assert_eq!(after.waited - before.waited, Duration::from_nanos(40));
    }

    #[test]
    fn threads_note_and_one_takes() {
        assert!(make() && make());
        begin();
        assert!(open());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for i in 0..1000u64 {
                        note(
                            DriverCallKind::Wait,
                            Ticks(4 * i + u64::from(thread)),
                            i,
                            thread,
                            7,
                            0x57,
                        );
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
            (DriverCallKind::Wait, 1, 1)
        );
        assert!(take().is_empty() && !open());
        // More than there is room for are counted.
        begin();
        (0..MOST as u64 + 5).for_each(|i| note(DriverCallKind::Launch, Ticks(i), 0, 0, 0, 0));
        end();
        assert_eq!((count(), take().len()), (MOST + 5, MOST));
    }
}

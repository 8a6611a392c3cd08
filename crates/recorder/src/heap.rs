//! The plugin's heap: memory that is used up ends no process.
//!
//! In Rust, an allocation that fails ends the process. Threads of the program are kept from that one by one:
//! they ask first ([`pages::are_spare`]), or allocate in a way that may fail (`try_reserve`). The
//! recorder's own threads need none of this. They wait in [`Heap`] until there is memory again. To the job,
//! that is as if a file system did not answer: the live part keeps the calls for which it has room, others
//! are counted, and the end waits for a flush as long as it always does.
//!
//! Rule: none of our threads waits here with a lock that the program's threads take. While it holds one, an
//! allocation may fail ([`MayFail`]), and so must be one for which that is no harm.

use crate::recorder::messages::say;
use crate::{pages, seats};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::Duration;

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// See the module.
struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;

/// A thread of the recorder's own.
struct Own {
    /// [`seats::thread`]; 0 before it began. A forked child has none of them, and a thread of its own in
    /// such a place would wait, too.
    thread: AtomicU64,
    /// How many things it does in which an allocation may fail.
    may_fail: AtomicU32,
}

static OWN: [Own; 2] = [const {
    Own {
        thread: AtomicU64::new(0),
        may_fail: AtomicU32::new(0),
    }
}; 2];

/// The calling thread is the recorder's: the one that writes (0), or the one that asks the driver (1).
pub fn waits_on_this_thread(which: usize) {
    OWN[which].may_fail.store(0, Relaxed);
    OWN[which].thread.store(seats::thread(), Release);
}

fn own() -> Option<&'static Own> {
    let me = seats::thread();
    OWN.iter().find(|own| own.thread.load(Acquire) == me)
}

/// Until it is dropped, an allocation on this thread fails if there is no memory, whosever the thread is.
pub struct MayFail(());

impl MayFail {
    pub fn from_here() -> MayFail {
        if let Some(own) = own() {
            own.may_fail.fetch_add(1, Relaxed);
        }
        MayFail(())
    }
}

impl Drop for MayFail {
    fn drop(&mut self) {
        if let Some(own) = own() {
            own.may_fail.fetch_sub(1, Relaxed);
        }
    }
}

/// What `act` gives once there is memory for it: `None` says that there was none. On a thread of the
/// recorder's own only.
pub fn when_there_is_memory<T>(mut act: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(result) = act() {
            return result;
        }
        std::thread::sleep(PAUSE);
    }
}

/// On a thread of the recorder's own, waits until there is some memory to spare: for what is going to
/// allocate under a lock that is not ours.
pub fn wait_for_spare_memory() {
    if own().is_some() {
        when_there_is_memory(|| pages::are_spare().then_some(()));
    }
}

/// A copy of a slice; `None` if there is no memory.
pub fn copied<T: Copy>(slice: &[T]) -> Option<Vec<T>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(slice.len()).ok()?;
    copy.extend_from_slice(slice);
    Some(copy)
}

#[inline]
fn until_there_is_some(allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let memory = allocate();
    if memory.is_null() {
        return wait_for(&allocate);
    }
    memory
}

#[cold]
fn wait_for(allocate: &dyn Fn() -> *mut u8) -> *mut u8 {
    let Some(own) = own() else {
        return std::ptr::null_mut();
    };
    while own.may_fail.load(Relaxed) == 0 {
        static SAID: AtomicBool = AtomicBool::new(false);
        if !SAID.swap(true, Relaxed) {
            say(format_args!(
                "the process may have no more memory: the recorder's thread waits for some. Until then, \
                calls stay in the live part, and those for which it has no room are counted"
            ));
        }
        std::thread::sleep(PAUSE);
        let memory = allocate();
        if !memory.is_null() {
            return memory;
        }
    }
    std::ptr::null_mut()
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        counted::one();
        // SAFETY: as the caller's.
        until_there_is_some(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        counted::one();
        // SAFETY: as the caller's.
        until_there_is_some(|| unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        counted::one();
        // SAFETY: as the caller's; where it fails, the memory is as it was.
        until_there_is_some(|| unsafe { System.realloc(memory, layout, size) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        counted::one();
        // SAFETY: as the caller's.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Counts what one thread allocates, for the test that callbacks allocate nothing. Not in release builds.
pub mod counted {
    #[cfg(debug_assertions)]
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// The thread, as `pthread_self` has it; 0 none.
    #[cfg(debug_assertions)]
    pub static THREAD: AtomicU64 = AtomicU64::new(0);
    /// What it allocated and freed.
    #[cfg(debug_assertions)]
    pub static COUNT: AtomicU64 = AtomicU64::new(0);

    #[inline]
    pub(super) fn one() {
        #[cfg(debug_assertions)]
        {
            let thread = THREAD.load(Relaxed);
            // SAFETY: a plain call, which allocates nothing.
            if thread != 0 && thread == unsafe { libc::pthread_self() } {
                COUNT.fetch_add(1, Relaxed);
            }
        }
    }
}

//! Which handle of the other plugin belongs to a handle of ours.
//!
//! NCCL carries one handle per event, and it is ours. This table finds the other plugin's by it. NCCL names a
//! parent long after the parent was stopped, so nothing says when an entry is not needed any more. A new
//! entry takes the place of the oldest in its set. The other plugin then gets no more of that old event, and
//! its children come without a parent.
//!
//! Rule: a lookup waits for nobody, and never finds the handle of another event.

use crate::array;
use std::sync::atomic::{
    fence, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Sets; a power of two. With [`WAYS`], 65 536 events.
const SETS: usize = 1 << 13;
const WAYS: usize = 8;

/// The newest events' handles.
pub struct Handles(&'static [Set]);

/// All zeros is an empty one.
struct Set {
    entries: [Entry; WAYS],
    /// The entry that is written next.
    next: AtomicU32,
}

struct Entry {
    /// Odd while a thread writes the entry. Only that thread may write it then.
    version: AtomicU32,
    /// Our handle; 0 none.
    ours: AtomicU64,
    theirs: AtomicU64,
}

impl Entry {
    /// Writes both handles; `false` if another thread is writing here.
    fn write(&self, ours: u64, theirs: u64) -> bool {
        let version = self.version.load(Relaxed);
        let written = version | 1;
        let take = || {
            self.version
                .compare_exchange(version, written, Acquire, Relaxed)
        };
        if version == written || take().is_err() {
            return false;
        }
        // A reader that sees a new value sees the odd version, too.
        fence(Release);
        self.ours.store(ours, Relaxed);
        self.theirs.store(theirs, Relaxed);
        self.version.store(version.wrapping_add(2), Release);
        true
    }

    /// The other plugin's handle; `None` if ours is not here, or was written meanwhile.
    fn read(&self, ours: u64) -> Option<u64> {
        let version = self.version.load(Acquire);
        if version & 1 == 1 || self.ours.load(Relaxed) != ours {
            return None;
        }
        let theirs = self.theirs.load(Relaxed);
        fence(Acquire);
        (self.version.load(Relaxed) == version).then_some(theirs)
    }
}

impl Handles {
    /// An empty table; `None` if there is no memory.
    pub fn new() -> Option<Handles> {
        // SAFETY: zeros are values of atomic integers.
        Some(Handles(unsafe { array::zeros(SETS) }?))
    }

    fn set(&self, ours: u64) -> &Set {
        // The upper bits of a product depend on all bits of the handle.
        let hash = ours.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 51;
        &self.0[hash as usize % SETS]
    }

    /// Notes an event. A handle that is there already, because our table gave it out again, gets a new value.
    /// It is not noted if other threads write all places where it may stand.
    pub fn put(&self, ours: u64, theirs: u64) {
        let set = self.set(ours);
        let known = set
            .entries
            .iter()
            .find(|entry| entry.ours.load(Relaxed) == ours);
        if known.is_some_and(|entry| entry.write(ours, theirs)) {
            return;
        }
        let next = || set.next.fetch_add(1, Relaxed) as usize % WAYS;
        (0..WAYS).any(|_| set.entries[next()].write(ours, theirs));
    }

    /// The other plugin's handle; `None` if it has none, or if that is too long ago.
    pub fn get(&self, ours: u64) -> Option<u64> {
        self.set(ours)
            .entries
            .iter()
            .find_map(|entry| entry.read(ours))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_events_are_found_and_old_ones_are_gone() {
        let handles = Handles::new().expect("memory");
        let ours = |n: u64| (n << 20) | 0xbeef;
        for n in 1..=400_000 {
            handles.put(ours(n), n);
            assert_eq!(handles.get(ours(n)), Some(n));
            // A collective of 64 channels with 500 others under way.
            if let Some(old) = n.checked_sub(32_000).filter(|old| *old > 0) {
                assert_eq!(handles.get(ours(old)), Some(old), "after 32 000 events");
            }
        }
        assert_eq!(handles.get(ours(1)), None);
        assert_eq!(handles.get(0x1234), None);
        handles.put(ours(400_000), 7);
        assert_eq!(handles.get(ours(400_000)), Some(7));
    }

    /// All threads write in one set, so a thread that stands still in the middle of an entry is overtaken by
    /// eight others in no time.
    #[test]
    fn threads_never_find_the_handle_of_another_event() {
        let handles = Handles::new().expect("memory");
        let first = handles.set(0xbeef);
        let one_set: Vec<u64> = (0..)
            .map(|n: u64| n << 16 | 0xbeef)
            .filter(|ours| std::ptr::eq(handles.set(*ours), first))
            .take(64)
            .collect();
        std::thread::scope(|scope| {
            for thread in 0..8usize {
                let (handles, one_set) = (&handles, &one_set);
                scope.spawn(move || {
                    for n in 0..200_000usize {
                        let own = one_set[(n % 8) * 8 + thread];
                        handles.put(own, own ^ 0xffff);
                        for look in [own, one_set[n % 64]] {
                            let found = handles.get(look);
                            assert!(found.is_none_or(|theirs| theirs == look ^ 0xffff));
                        }
                    }
                });
            }
        });
    }
}

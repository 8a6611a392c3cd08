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
    /// Our handle; 0 none, or being written.
    ours: AtomicU64,
    theirs: AtomicU64,
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
    pub fn put(&self, ours: u64, theirs: u64) {
        let set = self.set(ours);
        let known = set.entries.iter().find(|e| e.ours.load(Relaxed) == ours);
        let entry = known.unwrap_or_else(|| {
            let next = set.next.fetch_add(1, Relaxed);
            &set.entries[next as usize % WAYS]
        });
        entry.ours.store(0, Relaxed);
        // A reader that sees the new value sees that the entry was emptied before.
        fence(Release);
        entry.theirs.store(theirs, Relaxed);
        entry.ours.store(ours, Release);
    }

    /// The other plugin's handle; `None` if it has none, or if that is too long ago.
    pub fn get(&self, ours: u64) -> Option<u64> {
        let entries = &self.set(ours).entries;
        let entry = entries.iter().find(|e| e.ours.load(Acquire) == ours)?;
        let theirs = entry.theirs.load(Relaxed);
        fence(Acquire);
        (entry.ours.load(Relaxed) == ours).then_some(theirs)
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

    #[test]
    fn threads_never_find_the_handle_of_another_event() {
        let handles = Handles::new().expect("memory");
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let handles = &handles;
                scope.spawn(move || {
                    for n in 1..200_000u64 {
                        let ours = (n % 50_000) << 18 | thread << 16 | 0xbeef;
                        handles.put(ours, ours ^ 0xffff);
                        for look in [ours, (n % 50_000) << 18 | (thread ^ 1) << 16 | 0xbeef] {
                            let found = handles.get(look);
                            assert!(found.is_none_or(|theirs| theirs == look ^ 0xffff));
                        }
                    }
                });
            }
        });
    }
}

//! Executable graphs by their handles.
//!
//! A launch looks its graph up in a table that is never locked; graphs are made and destroyed under the lock
//! of [`super::Graphs`]. The table is open addressed, with linear probing. A handle that is removed leaves a
//! mark, so that the handles behind it are still found. A new handle takes the first mark on its way, and
//! marks with nothing behind them are cleared.
//!
//! Rule: a handle is in the table once at most, and only the holder of the lock changes it.

use super::contents::Content;
use crate::array;
use capture::live::MOST_GRAPHS;
use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Places; twice as many as there can be entries, so that probes stay short. Most are never touched, and take
/// no memory then.
const PLACES: usize = 2 * MOST_GRAPHS as usize;
/// A handle that was removed. No driver gives it out: handles are addresses.
const REMOVED: u64 = u64::MAX;

struct ExecSlot {
    handle: AtomicU64,
    entry: AtomicU64,
}

/// The table.
pub struct Execs {
    places: &'static [ExecSlot],
    /// What each executes; under the lock.
    contents: UnsafeCell<HashMap<u64, Content>>,
}

impl Execs {
    /// An empty table that lives as long as the process. `None` if there is no memory.
    pub fn new() -> Option<Execs> {
        Some(Execs {
            // SAFETY: zeros are free places.
            places: unsafe { array::zeros(PLACES) }?,
            contents: UnsafeCell::new(HashMap::new()),
        })
    }

    /// The first place where a handle may be.
    fn start(&self, handle: u64) -> usize {
        // Handles are addresses, which differ in the middle bits.
        (handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize
    }

    fn place(&self, at: usize) -> &ExecSlot {
        &self.places[at % PLACES]
    }

    /// The places where a handle may be, in order.
    fn probe(&self, handle: u64) -> impl Iterator<Item = &ExecSlot> {
        let start = self.start(handle);
        (0..PLACES).map(move |i| self.place(start + i))
    }

    /// The entry of a handle.
    #[inline]
    pub fn find(&self, handle: u64) -> Option<u32> {
        if handle == 0 || handle == REMOVED {
            return None;
        }
        for place in self.probe(handle) {
            // Meets the Release in `insert`.
            match place.handle.load(Acquire) {
                0 => return None,
                there if there == handle => return Some(place.entry.load(Relaxed) as u32),
                _ => {}
            }
        }
        None
    }

    /// What an executable graph executes. Under the lock.
    pub fn content(&self, handle: u64) -> Option<&Content> {
        // SAFETY: the caller holds the lock.
        unsafe { &*self.contents.get() }.get(&handle)
    }

    /// Adds a handle that is not there; false if the table is full, or there is no memory. Under the lock.
    pub fn insert(&self, handle: u64, entry: u32, content: Content) -> bool {
        if handle == 0 || handle == REMOVED {
            return false;
        }
        // SAFETY: the caller holds the lock.
        let contents = unsafe { &mut *self.contents.get() };
        if contents.try_reserve(1).is_err() {
            return false;
        }
        let free = |place: &&ExecSlot| matches!(place.handle.load(Relaxed), 0 | REMOVED);
        let Some(place) = self.probe(handle).find(free) else {
            return false;
        };
        place.entry.store(entry.into(), Relaxed);
        place.handle.store(handle, Release);
        contents.insert(handle, content);
        true
    }

    /// Removes a handle; its entry, if it was there. Under the lock.
    pub fn remove(&self, handle: u64) -> Option<u32> {
        let entry = self.find(handle)?;
        let start = self.start(handle);
        let there = |i: &usize| self.place(start + i).handle.load(Relaxed) == handle;
        let mut at = start + (0..PLACES).find(there)?;
        self.place(at).handle.store(REMOVED, Release);
        // Without this, a process that makes and destroys graphs all the time would fill the table with
        // marks.
        while self.place(at + 1).handle.load(Relaxed) == 0
            && self.place(at).handle.load(Relaxed) == REMOVED
        {
            self.place(at).handle.store(0, Release);
            at += PLACES - 1;
        }
        // SAFETY: the caller holds the lock.
        unsafe { &mut *self.contents.get() }.remove(&handle);
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_found_after_others_came_and_went() {
        let execs = Execs::new().expect("memory");
        let (rounds, n) = if cfg!(miri) { (2, 20) } else { (20, 1000u64) };
        for round in 0..rounds {
            let handle = |i: u64| 0x7f00_0000_0000 + 64 * (3 * round * n + i);
            for i in 0..n {
                assert!(execs.insert(handle(i), (n * round + i) as u32, Content::default()));
            }
            for i in 0..n {
                assert_eq!(execs.find(handle(i)), Some((n * round + i) as u32));
            }
            assert_eq!(execs.find(handle(n)), None);
            for i in 0..n {
                assert_eq!(execs.remove(handle(i)), Some((n * round + i) as u32));
                assert_eq!(execs.remove(handle(i)), None);
            }
        }
        let marks = execs.places.iter();
        assert_eq!(marks.filter(|p| p.handle.load(Relaxed) != 0).count(), 0);
        assert_eq!((execs.find(0), execs.find(u64::MAX)), (None, None));
        assert!(!execs.insert(0, 1, Content::default()));
    }
}

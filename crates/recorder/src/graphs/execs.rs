//! Executable graphs by their handles.
//!
//! A launch looks its graph up in a table that is never locked; graphs are made and destroyed under the lock
//! of [`super::Graphs`]. The table is open addressed, with linear probing. A handle that is removed leaves a
//! mark, so that the handles behind it are still found. A new handle takes the first mark on its way, and
//! marks with nothing behind them are cleared. Once half of its places are taken, a table of twice as many
//! takes its place. The old one stays in memory, because a launch may be looking there.
//!
//! Rule: a handle is in the table once at most, and only the holder of the lock changes it.

use super::contents::Content;
use crate::array;
use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Places of the first table; a power of two, as of all.
const FIRST: usize = 4096;
/// A handle that was removed. No driver gives it out: handles are addresses.
const REMOVED: u64 = u64::MAX;

struct ExecSlot {
    handle: AtomicU64,
    entry: AtomicU64,
}

/// The places of a table.
struct Places(&'static [ExecSlot]);

impl Places {
    /// So many free ones, which live as long as the process. `None` if there is no memory.
    fn new(count: usize) -> Option<&'static Places> {
        // SAFETY: zeros are free places.
        array::leaked(Places(unsafe { array::zeros(count) }?))
    }

    /// The place so far behind the first one of a handle.
    fn place(&self, handle: u64, further: usize) -> &ExecSlot {
        // Handles are addresses, which differ in the middle bits.
        let start = (handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        &self.0[start.wrapping_add(further) & (self.0.len() - 1)]
    }

    /// The places where a handle may be, in order.
    fn probe(&self, handle: u64) -> impl Iterator<Item = &ExecSlot> {
        (0..self.0.len()).map(move |further| self.place(handle, further))
    }

    /// Puts a handle that is not there into its first free place.
    fn put(&self, handle: u64, entry: u64) -> bool {
        let free = |place: &&ExecSlot| matches!(place.handle.load(Relaxed), 0 | REMOVED);
        let Some(place) = self.probe(handle).find(free) else {
            return false;
        };
        place.entry.store(entry, Relaxed);
        place.handle.store(handle, Release);
        true
    }

    /// The same handles in a table of twice as many places. `None` if there is no memory.
    fn doubled(&self) -> Option<&'static Places> {
        let places = Places::new(2 * self.0.len())?;
        for place in self.0 {
            let handle = place.handle.load(Relaxed);
            if !matches!(handle, 0 | REMOVED) {
                places.put(handle, place.entry.load(Relaxed));
            }
        }
        Some(places)
    }
}

/// The table.
pub struct Execs {
    places: AtomicPtr<Places>,
    /// What each executes; under the lock.
    contents: UnsafeCell<HashMap<u64, Content>>,
}

impl Execs {
    /// An empty table that lives as long as the process. `None` if there is no memory.
    pub fn new() -> Option<Execs> {
        Some(Execs {
            places: AtomicPtr::new(std::ptr::from_ref(Places::new(FIRST)?).cast_mut()),
            contents: UnsafeCell::new(HashMap::new()),
        })
    }

    #[inline]
    fn places(&self) -> &'static Places {
        // SAFETY: it points to places that live as long as the process. Meets the Release in `insert`.
        unsafe { &*self.places.load(Acquire) }
    }

    /// The entry of a handle.
    #[inline]
    pub fn find(&self, handle: u64) -> Option<u32> {
        if handle == 0 || handle == REMOVED {
            return None;
        }
        for place in self.places().probe(handle) {
            // Meets the Release in `put`.
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

    /// Adds a handle that is not there; false if there is no memory. Under the lock.
    pub fn insert(&self, handle: u64, entry: u32, content: Content) -> bool {
        if handle == 0 || handle == REMOVED {
            return false;
        }
        // SAFETY: the caller holds the lock.
        let contents = unsafe { &mut *self.contents.get() };
        if contents.try_reserve(1).is_err() {
            return false;
        }
        let places = self.places();
        if 2 * contents.len() >= places.0.len() {
            // Without memory for more, the table there is serves until its last place is taken.
            if let Some(doubled) = places.doubled() {
                let doubled = std::ptr::from_ref(doubled).cast_mut();
                self.places.store(doubled, Release);
            }
        }
        let put = self.places().put(handle, entry.into());
        if put {
            contents.insert(handle, content);
        }
        put
    }

    /// Removes a handle; its entry, if it was there. Under the lock.
    pub fn remove(&self, handle: u64) -> Option<u32> {
        let entry = self.find(handle)?;
        let places = self.places();
        let there = |i: &usize| places.place(handle, *i).handle.load(Relaxed) == handle;
        let mut at = (0..places.0.len()).find(there)?;
        places.place(handle, at).handle.store(REMOVED, Release);
        // Without this, a process that makes and destroys graphs all the time would fill the table with
        // marks.
        while places.place(handle, at + 1).handle.load(Relaxed) == 0
            && places.place(handle, at).handle.load(Relaxed) == REMOVED
        {
            places.place(handle, at).handle.store(0, Release);
            at += places.0.len() - 1;
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
        let marks = execs.places().0.iter();
        assert_eq!(marks.filter(|p| p.handle.load(Relaxed) != 0).count(), 0);
        // More than the first table has places for.
        let many = if cfg!(miri) { 10 } else { 20_000u64 };
        let handle = |i: u64| 0x7e00_0000_0000 + 64 * i;
        for i in 0..many {
            assert!(execs.insert(handle(i), i as u32, Content::default()));
        }
        assert!((0..many).all(|i| execs.find(handle(i)) == Some(i as u32)));
        assert!((0..many).all(|i| execs.remove(handle(i)) == Some(i as u32)));
        assert_eq!((execs.find(0), execs.find(u64::MAX)), (None, None));
        assert!(!execs.insert(0, 1, Content::default()));
    }
}

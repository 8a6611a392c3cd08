//! Tables that are indexed round.
//!
//! Rule: the length is a power of two, so that any number finds an entry. A callback then neither divides nor
//! can panic, whatever number a handle carries.

use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Relaxed, Release},
};

/// A table of 2^n entries, never empty, that lives as long as the process. It may grow.
pub struct Round<T: 'static> {
    first: *const T,
    /// One less than the length. The memory of so many entries is there.
    mask: AtomicUsize,
}

// SAFETY: it hands out shared references only.
unsafe impl<T: Sync> Sync for Round<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Send for Round<T> {}

impl<T> Round<T> {
    /// `None` unless there are 2^n of `entries`.
    pub fn new(entries: &'static [T]) -> Option<Self> {
        // SAFETY: the slice has so many.
        unsafe { Round::of(entries.as_ptr(), entries.len()) }
    }

    /// The table that begins at `first` with `len` entries. `None` unless these are 2^n.
    ///
    /// # Safety
    /// So many entries are there as long as the process lives.
    pub unsafe fn of(first: *const T, len: usize) -> Option<Self> {
        let mask = AtomicUsize::new(len.wrapping_sub(1));
        len.is_power_of_two().then_some(Round { first, mask })
    }

    /// Makes the table longer. Who learns of a new entry by an Acquire, or from one who did, finds it.
    ///
    /// # Safety
    /// As for [`Round::of`].
    pub unsafe fn grow(&self, len: usize) {
        if len.is_power_of_two() && len > self.len() {
            self.mask.store(len - 1, Release);
        }
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.mask.load(Relaxed) + 1
    }

    /// The entry at `i` modulo the length.
    #[inline]
    pub fn at(&self, i: usize) -> &'static T {
        // SAFETY: `of` and `grow` saw 2^n entries, and `mask` is one less.
        unsafe { &*self.first.add(i & self.mask.load(Relaxed)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_finds_an_entry() {
        let four = Round::new(&[0, 1, 2, 3]).expect("a power of two");
        assert_eq!(four.len(), 4);
        for i in [0, 3, 4, 7, usize::MAX] {
            assert_eq!(*four.at(i), i & 3);
        }
    }

    #[test]
    fn a_table_that_has_grown_finds_the_new_entries() {
        static EIGHT: [usize; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
        // SAFETY: there are eight.
        let table = unsafe { Round::of(EIGHT.as_ptr(), 2) }.expect("a power of two");
        assert_eq!((table.len(), *table.at(7)), (2, 1));
        for (asked, len) in [(3, 2), (8, 8), (4, 8)] {
            // SAFETY: as above.
            unsafe { table.grow(asked) };
            assert_eq!((table.len(), *table.at(7)), (len, 7 % len));
        }
    }

    #[test]
    fn only_powers_of_two_are_indexed_round() {
        for not in [&[][..], &[1, 2, 3], &[1, 2, 3, 4, 5, 6]] {
            assert!(Round::new(not).is_none());
        }
    }
}

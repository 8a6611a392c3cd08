//! Tables that are indexed round.
//!
//! Rule: the length is a power of two, so that any number finds an entry: a callback neither divides nor has a way to
//! panic, whatever number a handle carries.

use std::ops::Deref;

/// A table of 2^n entries, never empty.
pub struct Round<S> {
    entries: S,
    mask: usize,
}

impl<T, S: Deref<Target = [T]>> Round<S> {
    /// `None` unless there are 2^n of `entries`.
    pub fn new(entries: S) -> Option<Self> {
        let mask = entries.len().wrapping_sub(1);
        entries
            .len()
            .is_power_of_two()
            .then_some(Round { entries, mask })
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.mask + 1
    }

    /// The entry at `i` modulo the length.
    #[inline]
    pub fn at(&self, i: usize) -> &T {
        // SAFETY: `new` saw 2^n entries, of which none can be taken away, and `mask` is one less.
        unsafe { self.entries.get_unchecked(i & self.mask) }
    }
}

impl<T> Round<&'static [T]> {
    /// The same, for as long as the entries live.
    #[inline]
    pub fn of(&self, i: usize) -> &'static T {
        // SAFETY: as for `at`.
        unsafe { self.entries.get_unchecked(i & self.mask) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_finds_an_entry() {
        let four = Round::new(vec![0, 1, 2, 3].into_boxed_slice()).expect("a power of two");
        assert_eq!(four.len(), 4);
        for i in [0, 3, 4, 7, usize::MAX] {
            assert_eq!(*four.at(i), i & 3);
        }
    }

    #[test]
    fn only_powers_of_two_are_indexed_round() {
        for n in [0, 3, 6] {
            assert!(Round::new(vec![0u8; n].into_boxed_slice()).is_none());
        }
    }
}

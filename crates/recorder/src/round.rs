//! Tables that are indexed round.
//!
//! Rule: the length is a power of two, so that any number finds an entry: a callback neither divides nor has a way to
//! panic, whatever number a handle carries.

/// A table of 2^n entries, never empty, that lives as long as the process.
pub struct Round<T: 'static> {
    entries: &'static [T],
    mask: usize,
}

impl<T> Round<T> {
    /// `None` unless there are 2^n of `entries`.
    pub fn new(entries: &'static [T]) -> Option<Self> {
        let mask = entries.len().wrapping_sub(1);
        entries
            .len()
            .is_power_of_two()
            .then_some(Round { entries, mask })
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entry at `i` modulo the length.
    #[inline]
    pub fn at(&self, i: usize) -> &'static T {
        // SAFETY: `new` saw 2^n entries, and `mask` is one less.
        unsafe { self.entries.get_unchecked(i & self.mask) }
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
    fn only_powers_of_two_are_indexed_round() {
        for not in [&[][..], &[1, 2, 3], &[1, 2, 3, 4, 5, 6]] {
            assert!(Round::new(not).is_none());
        }
    }
}

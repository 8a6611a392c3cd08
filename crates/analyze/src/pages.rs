//! A table by numbers that are near each other, as those of calls are.
//!
//! Rule: a number out of line costs a page of `N` entries and no more.

use std::collections::HashMap;

/// What is known of each number.
pub(crate) struct Pages<T, const N: usize> {
    /// What is known of a number before anything is.
    empty: T,
    /// Index in `pages`, by number / `N`.
    numbers: HashMap<u64, u32>,
    pages: Vec<Box<[T; N]>>,
    /// The page that was used last and its index: calls come in order.
    last: Option<(u64, u32)>,
}

impl<T: Copy, const N: usize> Pages<T, N> {
    pub(crate) fn new(empty: T) -> Pages<T, N> {
        Pages {
            empty,
            numbers: HashMap::new(),
            pages: Vec::new(),
            last: None,
        }
    }

    pub(crate) fn get(&self, number: u64) -> T {
        let page = self.numbers.get(&(number / N as u64));
        page.map_or(self.empty, |page| {
            self.pages[*page as usize][number as usize % N]
        })
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u64) -> &mut T {
        let page = number / N as u64;
        let index = match self.last {
            Some((last, index)) if last == page => index,
            _ => self.turn_to(page),
        };
        &mut self.pages[index as usize][number as usize % N]
    }

    fn turn_to(&mut self, page: u64) -> u32 {
        let next = self.pages.len() as u32;
        let index = *self.numbers.entry(page).or_insert(next);
        if index == next {
            self.pages.push(Box::new([self.empty; N]));
        }
        self.last = Some((page, index));
        index
    }

    /// The numbers of all pages, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.numbers.iter().flat_map(|(page, index)| {
            let entries = (0..).zip(self.pages[*index as usize].iter());
            entries.map(move |(at, entry): (u64, _)| (page * N as u64 + at, entry))
        })
    }
}

//! The entries of executable graphs, in which launches are counted.
//!
//! The first [`MOST_GRAPHS`] are in the live part, so that a killed process leaves them. What a program has
//! alive beyond that has entries on the heap. These reach the trace with the next flush, as all do. Until
//! then only this process knows them, which [`Header::graphs_full`] says.
//!
//! Rule: entries stay where they are, and are used again once they are free. Only the holder of the lock of
//! [`super::Graphs`] takes and frees them.

use super::Grow;
use crate::array;
use capture::graphs::Exec;
use capture::live::{Header, View, MOST_GRAPHS};
use std::cell::UnsafeCell;
use std::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Relaxed, Release},
};

/// Tables on the heap, each twice as long as the one before. Together there are more entries than numbers.
const TABLES: usize = 16;

/// All entries. The index of an entry on the heap is [`MOST_GRAPHS`] and its place there.
pub struct Entries {
    live: View<'static>,
    heap: [AtomicPtr<Exec>; TABLES],
    /// Under the lock.
    state: UnsafeCell<Taken>,
}

#[derive(Default)]
struct Taken {
    /// Entries that were freed.
    free: Vec<u32>,
    /// Entries that were ever taken, in the live part and on the heap.
    live: usize,
    heap: usize,
    /// Entries on the heap that are taken, and how many of them the header tells.
    in_use: u32,
    told: u32,
}

/// Entries of a table on the heap.
const fn length(table: usize) -> usize {
    (MOST_GRAPHS as usize) << table
}

/// The table on the heap that has a place, and where there.
fn of_heap(place: usize) -> (usize, usize) {
    let table = (place / length(0) + 1).ilog2() as usize;
    (table, place - (length(table) - length(0)))
}

impl Entries {
    /// Those of this live part.
    pub fn new(live: &View<'static>) -> Entries {
        Entries {
            live: *live,
            heap: Default::default(),
            state: UnsafeCell::default(),
        }
    }

    /// An entry that was taken.
    #[inline]
    pub fn at(&self, index: u32) -> &'static Exec {
        // The table never becomes shorter.
        match index.checked_sub(MOST_GRAPHS) {
            None => &self.live.graphs()[index as usize],
            Some(place) => {
                let (table, place) = of_heap(place as usize);
                &self.table(table)[place]
            }
        }
    }

    /// A table on the heap; empty as long as nobody needed it.
    fn table(&self, table: usize) -> &'static [Exec] {
        // Meets the Release in `take`.
        let first = self
            .heap
            .get(table)
            .map_or(std::ptr::null_mut(), |t| t.load(Acquire));
        if first.is_null() {
            return &[];
        }
        // SAFETY: so many entries are there as long as the process lives.
        unsafe { std::slice::from_raw_parts(first, length(table)) }
    }

    /// All tables in order, each with the index of its first entry: that of the live part, and those on the
    /// heap. Entries without a number are free.
    pub fn tables(&self) -> impl Iterator<Item = (u32, &'static [Exec])> + '_ {
        // Before table n on the heap are as many entries as in it, those of the live part included.
        let heap = (0..TABLES).map(|table| (length(table) as u32, self.table(table)));
        let heap = heap.take_while(|(_, table)| !table.is_empty());
        std::iter::once((0, self.live.graphs())).chain(heap)
    }

    /// A free entry; `None` if there is no memory. Under the lock.
    pub fn take(&self, grow: Grow) -> Option<u32> {
        // SAFETY: the caller holds the lock.
        let state = unsafe { &mut *self.state.get() };
        if let Some(index) = state.free.pop() {
            self.count(index, 1);
            return Some(index);
        }
        let there = self.live.graphs().len();
        let longer = |most: usize| most < MOST_GRAPHS as usize && grow(there, 2 * there);
        if state.live < there || longer(there) {
            state.live += 1;
            return Some(state.live as u32 - 1);
        }
        let (table, _) = of_heap(state.heap);
        if self.table(table).is_empty() {
            // SAFETY: zeros are a free entry.
            let entries = unsafe { array::zeros::<Exec>(length(table)) }?;
            self.heap
                .get(table)?
                .store(entries.as_ptr().cast_mut(), Release);
        }
        let index = u32::try_from(MOST_GRAPHS as usize + state.heap).ok()?;
        state.heap += 1;
        self.count(index, 1);
        Some(index)
    }

    /// Frees an entry. Under the lock.
    pub fn free(&self, index: u32) {
        self.at(index).number.store(0, Release);
        self.count(index, -1);
        // SAFETY: the caller holds the lock.
        let state = unsafe { &mut *self.state.get() };
        // Without memory to remember it, it is not used again.
        if state.free.try_reserve(1).is_ok() {
            state.free.push(index);
        }
    }

    /// Says of how many graphs only this process knows the newest launches: all on the heap, or none if they
    /// are `written`. Under the lock.
    pub fn tell(&self, written: bool) {
        // SAFETY: the caller holds the lock.
        let state = unsafe { &mut *self.state.get() };
        let now = if written { 0 } else { state.in_use };
        let header: &Header = self.live.header();
        // Others count there, too, so only the difference is added; it may be negative.
        let more = now.wrapping_sub(state.told);
        header.graphs_full.fetch_add(more, Relaxed);
        state.told = now;
    }

    /// An entry was taken, or freed.
    fn count(&self, index: u32, change: i32) {
        if index >= MOST_GRAPHS {
            // SAFETY: the caller holds the lock.
            let state = unsafe { &mut *self.state.get() };
            state.in_use = state.in_use.wrapping_add_signed(change);
            self.tell(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_on_the_heap_is_in_one_table() {
        let mut expected = (0, 0);
        for place in 0..4 * length(0) {
            assert_eq!(of_heap(place), expected);
            expected.1 += 1;
            if expected.1 == length(expected.0) {
                expected = (expected.0 + 1, 0);
            }
        }
        let (table, place) = of_heap((u32::MAX - MOST_GRAPHS) as usize);
        assert!(table < TABLES && place < length(table));
    }
}

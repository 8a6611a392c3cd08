//! The ring of free slots: how callers take rows and the recorder's thread gives them back.
//!
//! Takers compare-and-swap `born` forward; what they swapped from is their ticket, and the ring's cell at
//! that ticket names the slot that is now theirs. The one giver stores a slot into the cell at `given` and
//! then moves `given` on (Release), which takers meet with an Acquire load. Slots go round oldest first.
//!
//! A cell is overwritten only after its ticket's slot was given back, because there are no fewer cells than
//! slots. The giver gives a ticket's slot back only after it has read the cell. So the giver may read the
//! cell of any ticket that it has not yet dealt with.
//!
//! Rule: a slot is owned by one taker, or by the giver, or is in the ring; never two of these. The model
//! check in `tests/all/model.rs` runs this file's code on loom's atomics.

use crate::round::Round;
use crate::word::AtomicWord;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The cells of a ring. Relaxed access is enough: `born` and `given` order it.
pub trait Cells {
    /// How many; a power of two.
    fn len(&self) -> u64;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The slot in a cell.
    fn get(&self, cell: u64) -> u32;
    /// Puts a slot into a cell.
    fn set(&self, cell: u64, slot: u32);
}

impl Cells for Round<AtomicU32> {
    #[inline]
    fn len(&self) -> u64 {
        Round::len(self) as u64
    }
    #[inline]
    fn get(&self, cell: u64) -> u32 {
        self.at(cell as usize).load(Relaxed)
    }
    #[inline]
    fn set(&self, cell: u64, slot: u32) {
        self.at(cell as usize).store(slot, Relaxed);
    }
}

/// The ring. `born` lives elsewhere (in the live part) and is passed in.
pub struct FreeRing<C, W> {
    cells: C,
    given: Line<W>,
}

/// A cache line of its own: what the giver writes often, takers needn't fetch with what they read.
#[repr(align(64))]
struct Line<W>(W);

impl<C: Cells, W: AtomicWord> FreeRing<C, W> {
    /// A ring in which the first `slots` slots are free. `given` is 0 and so must `born` be. There are as
    /// many cells as there may ever be slots: a further slot is given as one that was used.
    pub fn new(cells: C, slots: u64, given: W) -> Self {
        for slot in 0..slots {
            cells.set(slot, slot as u32);
        }
        given.release(slots);
        FreeRing {
            cells,
            given: Line(given),
        }
    }

    #[inline]
    fn cell(&self, ticket: u64) -> u64 {
        ticket & (self.cells.len() - 1)
    }

    /// Takes the slot that has been free longest: (ticket, slot), or `None` when no slot is free.
    #[inline]
    pub fn take(&self, born: &W) -> Option<(u64, u32)> {
        loop {
            let ticket = born.relaxed();
            if ticket >= self.given.0.acquire() {
                return None;
            }
            let slot = self.cells.get(self.cell(ticket));
            if born.swap_from(ticket, ticket + 1) {
                return Some((ticket, slot));
            }
        }
    }

    /// The slot that `ticket` took. Only for the giver, for a ticket whose slot it has not given back.
    #[inline]
    pub fn slot_of(&self, ticket: u64) -> u32 {
        self.cells.get(self.cell(ticket))
    }

    /// The slot that the taker after `ticket` is likely to get: a hint for prefetching.
    #[inline]
    pub fn next_of(&self, ticket: u64) -> u32 {
        self.cells.get(self.cell(ticket + 1))
    }

    /// Gives `slot` back. Only one thread gives.
    #[inline]
    pub fn give(&self, slot: u32) {
        let given = self.given.0.relaxed();
        self.cells.set(self.cell(given), slot);
        self.given.0.release(given + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::sync::Mutex;

    static CELLS: [AtomicU32; 4] = [const { AtomicU32::new(0) }; 4];

    #[test]
    fn slots_go_round_oldest_first_and_each_has_one_owner() {
        let cells = Round::new(&CELLS).expect("a power of two");
        let (ring, born) = (
            FreeRing::new(cells, 4, AtomicU64::new(0)),
            AtomicU64::new(0),
        );
        let in_order: Vec<_> = std::iter::from_fn(|| ring.take(&born)).collect();
        assert_eq!(in_order, [(0, 0), (1, 1), (2, 2), (3, 3)]);
        [2, 0].into_iter().for_each(|slot| ring.give(slot));
        assert_eq!(
            [ring.take(&born), ring.take(&born)],
            [Some((4, 2)), Some((5, 0))]
        );
        [1, 3, 2, 0].into_iter().for_each(|slot| ring.give(slot));
        // Two threads take, and this one gives back what they used.
        let (used, rounds) = (Mutex::new(Vec::new()), if cfg!(miri) { 40 } else { 4000 });
        let owners: [AtomicU32; 4] = std::array::from_fn(|_| AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        let (_, slot) = loop {
                            match ring.take(&born) {
                                Some(taken) => break taken,
                                None => std::thread::yield_now(),
                            }
                        };
                        assert_eq!(owners[slot as usize].fetch_add(1, Relaxed), 0);
                        owners[slot as usize].fetch_sub(1, Relaxed);
                        used.lock().expect("sound").push(slot);
                    }
                });
            }
            let mut given = 0;
            while given < 2 * rounds {
                let slots = std::mem::take(&mut *used.lock().expect("sound"));
                given += slots.len();
                slots.into_iter().for_each(|slot| ring.give(slot));
                std::thread::yield_now();
            }
        });
        assert_eq!(born.load(Relaxed), 6 + 2 * rounds as u64);
    }
}

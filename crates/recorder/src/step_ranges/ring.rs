//! Steps on their way to the recorder's thread: a ring of bounded size, for any number of threads.
//!
//! A slot has a turn: in round `n`, it is free at `2 n`, and has a mark at `2 n + 1`. A thread takes the next
//! place by a compare-and-swap, fills in its slot, and stores the turn last (Release). The recorder's thread
//! loads the turn first (Acquire), and frees the slot for the next round.
//!
//! Rule: nothing waits. If the ring is full, the mark is counted and gone.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Marks that may wait. The recorder's thread takes them every few milliseconds; before there is one, these
/// are the steps without NCCL.
pub const ROOM: usize = 4096;
/// Threads that take the same place at once are few.
const TRIES: usize = 64;

/// Two times of CLOCK_MONOTONIC, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub from: u64,
    pub to: u64,
}

struct Slot {
    turn: AtomicU64,
    from: AtomicU64,
    to: AtomicU64,
}

impl Slot {
    const fn free() -> Slot {
        Slot {
            turn: AtomicU64::new(0),
            from: AtomicU64::new(0),
            to: AtomicU64::new(0),
        }
    }
}

/// See the module.
pub struct Ring {
    /// The next place to fill in.
    head: AtomicU64,
    /// The next place to take. Only the recorder's thread stores to it.
    tail: AtomicU64,
    dropped: AtomicU64,
    slots: [Slot; ROOM],
}

impl Ring {
    /// An empty one, of zeros.
    pub const fn new() -> Ring {
        Ring {
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            slots: [const { Slot::free() }; ROOM],
        }
    }

    fn slot(&self, place: u64) -> (&Slot, u64) {
        let room = ROOM as u64;
        (&self.slots[(place % room) as usize], 2 * (place / room))
    }

    /// Adds a mark, if there is room.
    pub fn push(&self, mark: Mark) {
        for _ in 0..TRIES {
            let place = self.head.load(Relaxed);
            let (slot, free) = self.slot(place);
            let turn = slot.turn.load(Acquire);
            if turn < free {
                break;
            }
            let is_next = turn == free
                && self
                    .head
                    .compare_exchange(place, place + 1, Relaxed, Relaxed)
                    .is_ok();
            if is_next {
                slot.from.store(mark.from, Relaxed);
                slot.to.store(mark.to, Relaxed);
                slot.turn.store(free + 1, Release);
                return;
            }
        }
        self.dropped();
    }

    /// Counts a mark that has no room.
    pub fn dropped(&self) {
        self.dropped.fetch_add(1, Relaxed);
    }

    /// Takes all marks, in order; returns how many had no room since the last time.
    pub fn take(&self, mut each: impl FnMut(Mark)) -> u64 {
        let mut place = self.tail.load(Relaxed);
        loop {
            let (slot, free) = self.slot(place);
            if slot.turn.load(Acquire) != free + 1 {
                break;
            }
            each(Mark {
                from: slot.from.load(Relaxed),
                to: slot.to.load(Relaxed),
            });
            slot.turn.store(free + 2, Release);
            place += 1;
        }
        self.tail.store(place, Relaxed);
        self.dropped.swap(0, Relaxed)
    }

    /// Forgets all marks, in a forked child: one of its parent's threads may have been about to fill in a
    /// place, and is not there any more.
    pub fn clear(&self) {
        let (tail, head) = (self.tail.load(Relaxed), self.head.load(Acquire));
        for place in tail..head {
            let (slot, free) = self.slot(place);
            slot.turn.store(free + 2, Release);
        }
        self.tail.store(head, Relaxed);
        self.dropped.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_ring_counts_and_goes_on() {
        let ring = Box::new(Ring::new());
        for round in 0..3 {
            for at in 0..ROOM as u64 + 5 {
                ring.push(Mark {
                    from: round,
                    to: at,
                });
            }
            let mut taken = Vec::new();
            assert_eq!(ring.take(|mark| taken.push(mark)), 5);
            assert_eq!(taken.len(), ROOM);
            assert!(taken.iter().zip(0..).all(|(mark, at)| mark.to == at));
            assert!(taken.iter().all(|mark| mark.from == round));
            assert_eq!(ring.take(|_| ()), 0);
        }
        ring.push(Mark { from: 1, to: 2 });
        // A thread that took a place and was left behind by a fork.
        ring.head.fetch_add(1, Relaxed);
        ring.clear();
        ring.push(Mark { from: 3, to: 4 });
        let mut taken = Vec::new();
        ring.take(|mark| taken.push(mark));
        assert_eq!(taken, [Mark { from: 3, to: 4 }]);
    }

    #[test]
    fn marks_of_many_threads_are_taken_once_and_whole() {
        let ring = Box::new(Ring::new());
        let (mut taken, mut dropped) = (Vec::new(), 0);
        std::thread::scope(|scope| {
            let pushed: Vec<_> = (0..4u64)
                .map(|thread| {
                    let ring = &ring;
                    scope.spawn(move || {
                        for at in 0..20_000 {
                            let of = thread << 32 | at;
                            ring.push(Mark { from: of, to: !of });
                        }
                    })
                })
                .collect();
            while pushed.iter().any(|thread| !thread.is_finished()) {
                dropped += ring.take(|mark| taken.push(mark));
            }
        });
        dropped += ring.take(|mark| taken.push(mark));
        assert!(taken.iter().all(|mark| mark.to == !mark.from));
        assert_eq!(taken.len() as u64 + dropped, 80_000);
        for thread in 0..4 {
            let of = taken.iter().filter(|mark| mark.from >> 32 == thread);
            assert!(of.map(|mark| mark.from).is_sorted());
        }
    }
}

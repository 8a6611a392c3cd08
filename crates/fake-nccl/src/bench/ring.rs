//! Operations on their way from the calling thread to the progress thread.

use crate::event::Handle;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Operations on their way to the progress thread: each with its Coll handle, and the number of its plugin.
pub(super) struct Ring {
    pub(super) slots: Box<[AtomicU64]>,
    pub(super) head: AtomicU64,
    pub(super) tail: AtomicU64,
}

pub(super) const SLOTS: usize = 1 << 16;

/// Slots of one operation: handles are 64 bits, so the number of the plugin has a slot of its own.
const LANE: u64 = 2;

impl Ring {
    pub(super) fn push(&self, lane: u64, handle: Handle) {
        let at = self.head.load(Relaxed);
        // Pairs with the Release in `pop`: the slot is read before it is written again.
        while at - self.tail.load(Acquire) >= SLOTS as u64 / LANE {
            std::hint::spin_loop();
        }
        let slot = (at * LANE) as usize % SLOTS;
        self.slots[slot].store(lane, Relaxed);
        self.slots[slot + 1].store(handle.0 as u64, Relaxed);
        // Pairs with the Acquire in `pop`.
        self.head.store(at + 1, Release);
    }

    pub(super) fn pop(&self) -> Option<(usize, Handle)> {
        let at = self.tail.load(Relaxed);
        if at == self.head.load(Acquire) {
            return None;
        }
        let slot = (at * LANE) as usize % SLOTS;
        let found = (
            self.slots[slot].load(Relaxed) as usize,
            Handle(self.slots[slot + 1].load(Relaxed) as usize),
        );
        self.tail.store(at + 1, Release);
        Some(found)
    }

    pub(super) fn drained(&self) -> bool {
        self.tail.load(Acquire) == self.head.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_keeps_order_and_lanes() {
        let ring = Ring {
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
        };
        for i in 0..100_000u64 {
            ring.push(i % 2, Handle(i as usize));
            assert_eq!(ring.pop(), Some(((i % 2) as usize, Handle(i as usize))));
        }
        assert!(ring.drained() && ring.pop().is_none());
    }
}

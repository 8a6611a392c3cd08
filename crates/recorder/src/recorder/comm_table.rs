//! The private half of the communicators' table, which grows by chunks.
//!
//! A slot names the same communicator here and in `capture::live::Comm`. [`CommTable::at`] finds a slot's
//! [`CommState`] whatever number a handle carries: chunks that are not made yet stand for the first one. Uids
//! are given out in order and never again, so [`CommTable::newest`] finds the slot of a uid in a table of its
//! lowest bits.
//!
//! Rule: a chunk is made under the lock of inits, before a slot in it is given out, and never freed.

use super::communicators::CommState;
use crate::array;
use std::sync::atomic::{
    AtomicPtr, AtomicU16, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Slots that there may be; the last 16-bit number stands for none.
pub const MOST: usize = u16::MAX as usize;
const CHUNK: usize = 256;
const CHUNKS: usize = 256;

type Chunk = [CommState; CHUNK];

/// See the module.
pub struct CommTable {
    chunks: [AtomicPtr<Chunk>; CHUNKS],
    slots: &'static [AtomicU16; 1 << 16],
    /// Slots of which the definition is not staged as it is now.
    pub changed: SlotSet,
    /// Slots of communicators that were finalized, until the recorder's thread takes note of it.
    pub ended: SlotSet,
}

impl CommTable {
    /// With room for the first chunk. `None` if there is no memory.
    pub fn new() -> Option<CommTable> {
        let first = std::ptr::from_ref(chunk()?).cast_mut();
        Some(CommTable {
            chunks: std::array::from_fn(|_| AtomicPtr::new(first)),
            // SAFETY: zeros are values of atomic integers.
            slots: unsafe { array::zeroed()? },
            changed: SlotSet::new()?,
            ended: SlotSet::new()?,
        })
    }

    /// The state of a slot.
    #[inline]
    pub fn at(&self, slot: u16) -> &'static CommState {
        let chunk = self.chunks[usize::from(slot) / CHUNK].load(Acquire);
        // SAFETY: every place has a chunk, which is never freed.
        unsafe { &(*chunk)[usize::from(slot) % CHUNK] }
    }

    /// Makes a slot's chunk, if it is not there. False if there is no memory.
    pub fn make_room(&self, slot: u16) -> bool {
        let number = usize::from(slot) / CHUNK;
        let [first, place] = [0, number].map(|n| self.chunks[n].load(Relaxed));
        if number != 0 && place == first {
            let Some(chunk) = chunk() else { return false };
            self.chunks[number].store(std::ptr::from_ref(chunk).cast_mut(), Release);
        }
        true
    }

    /// The slot of the newest communicator with these lowest bits of its uid.
    #[inline]
    pub fn newest(&self, uid: u32) -> u16 {
        self.slots[uid as usize & 0xffff].load(Relaxed)
    }

    /// Says where a new communicator is.
    pub fn place(&self, uid: u32, slot: u16) {
        self.slots[uid as usize & 0xffff].store(slot, Relaxed);
    }
}

/// A set of slots, of a fixed size: a bit for each.
pub struct SlotSet(&'static [AtomicU64; (1 << 16) / 64]);

impl SlotSet {
    /// An empty one. `None` if there is no memory.
    fn new() -> Option<SlotSet> {
        // SAFETY: zeros are values of atomic integers.
        Some(SlotSet(unsafe { array::zeroed()? }))
    }

    /// Puts a slot in.
    pub fn put(&self, slot: u16) {
        let slot = usize::from(slot);
        self.0[slot / 64].fetch_or(1 << (slot % 64), Release);
    }

    /// Whether a slot is in it.
    pub fn has(&self, slot: u16) -> bool {
        let slot = usize::from(slot);
        self.0[slot / 64].load(Acquire) & 1 << (slot % 64) != 0
    }

    /// Takes up to `most` slots out.
    pub fn take(&self, most: usize) -> Vec<u16> {
        let mut found = Vec::new();
        for (number, word) in self.0.iter().enumerate() {
            if found.len() >= most {
                break;
            }
            if word.load(Relaxed) == 0 {
                continue;
            }
            let mut bits = word.swap(0, AcqRel);
            while bits != 0 && found.len() < most {
                found.push((number * 64) as u16 + bits.trailing_zeros() as u16);
                bits &= bits - 1;
            }
            if bits != 0 {
                word.fetch_or(bits, Release);
            }
        }
        found
    }
}

fn chunk() -> Option<&'static Chunk> {
    // SAFETY: zeros are a free slot: all of it is atomic integers and pointers.
    unsafe { array::zeroed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_slot_has_a_state_and_slots_in_use_have_their_own() {
        let table = CommTable::new().expect("memory");
        let same = |a: u16, b: u16| std::ptr::eq(table.at(a), table.at(b));
        assert!(same(u16::MAX, 255) && !same(3, 4));
        assert!(table.make_room(1000) && table.make_room(1001));
        assert!(!same(1000, 1000 % 256) && !same(1000, 1001) && same(999, 999));
    }

    #[test]
    fn each_slot_is_taken_once() {
        let slots = SlotSet::new().expect("memory");
        assert!(slots.take(9).is_empty());
        for slot in [65_534, 0, 64, 63, 64] {
            slots.put(slot);
        }
        assert!(slots.has(64) && !slots.has(65));
        assert_eq!(slots.take(3), [0, 63, 64]);
        assert_eq!(slots.take(3), [65_534]);
        assert!(slots.take(3).is_empty() && !slots.has(64));
    }
}

//! When something that was taken away from callbacks may be used again.
//!
//! A callback looks up whose row it is, and stores to it a little later. Meanwhile the recorder's thread may
//! retire the row: the callback's store would land in the row's next call. So each thread has a *seat*. A
//! callback sits down before it looks ([`Epoch::enter`]), with the number of the epoch that it sees, and
//! stands up after its last store ([`Epoch::leave`]). What is retired goes into [`Quarantine`] with the
//! number of the epoch, and is used again only when nobody sits there since that epoch or an earlier one.
//!
//! ```text
//! callback                               recorder's thread
//! seat = epoch                           row is retired: no new look finds it
//! (barrier)                              quarantine it with the epoch; epoch += 1
//! look: is it retired?                   (barrier)
//! store to it                            look at all seats: nobody sits since that epoch: use it again
//! seat = 0 (Release)
//! ```
//!
//! The two barriers meet: either the callback sees that the row is retired, or the recorder's thread sees the
//! callback's seat. [`crate::seats`] has the seats, and the barriers.
//!
//! Rule: one thread retires, advances and gives back. The model check in `tests/all/model.rs` runs this
//! file's code on loom's atomics.

use crate::word::AtomicWord;
use std::collections::VecDeque;

/// The number of the present epoch. A seat that holds 0 is empty.
///
/// Epochs with odd numbers are those in which callbacks put up their own barriers.
pub struct Epoch<W>(W);

impl<W: AtomicWord> Epoch<W> {
    /// The first epoch, in which callbacks put up their own barriers.
    pub fn new(now: W) -> Self {
        now.release(1);
        Epoch(now)
    }

    /// Sits down. The caller calls `barrier` behind this, before its first look at what may be retired.
    /// Returns what [`Epoch::leave`] wants. A callback may run inside another one of its thread, if a signal
    /// handler calls NCCL. The seat is then kept for the outer one.
    #[inline(always)]
    pub fn enter(&self, seat: &W, barrier: impl FnOnce()) -> u64 {
        // Acquire meets the Release in `advance`: who sees the new epoch sees what was retired before it.
        let now = self.0.acquire();
        let before = seat.relaxed();
        if before == 0 {
            seat.store(now);
        }
        if now & 1 == 1 {
            barrier();
        }
        before
    }

    /// Stands up. The Release meets the Acquire in [`oldest`]: who sees the empty seat sees the stores.
    #[inline(always)]
    pub fn leave(seat: &W, before: u64) {
        seat.release(before);
    }

    /// The present epoch.
    #[inline]
    pub fn now(&self) -> u64 {
        self.0.relaxed()
    }

    /// Begins the next epoch. The caller puts a barrier behind this, before it looks at the seats.
    pub fn advance(&self) {
        self.0.release(self.0.relaxed() + 2);
    }

    /// Begins the next epoch. From then on callbacks put up their own barriers if they did not, and do not
    /// if they did.
    pub fn turn(&self) {
        self.0.release(self.0.relaxed() + 1);
    }
}

/// The earliest epoch since which somebody sits; `u64::MAX` if nobody does.
pub fn oldest<'a, W: AtomicWord + 'a>(seats: impl Iterator<Item = &'a W>) -> u64 {
    seats
        .map(AtomicWord::acquire)
        .filter(|since| *since != 0)
        .min()
        .unwrap_or(u64::MAX)
}

/// Slots that were retired and may not be used yet, oldest first.
#[derive(Default)]
pub struct Quarantine(VecDeque<(u64, u32)>);

impl Quarantine {
    /// With room for so many.
    pub fn with_capacity(slots: usize) -> Self {
        Quarantine(VecDeque::with_capacity(slots))
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts in a slot that was retired in that epoch.
    pub fn put(&mut self, epoch: u64, slot: u32) {
        self.0.push_back((epoch, slot));
    }

    /// The epoch in which the newest of them was retired.
    pub fn newest(&self) -> Option<u64> {
        self.0.back().map(|(epoch, _)| *epoch)
    }

    /// Takes out a slot that may be used again, if nobody sits since before epoch `oldest`.
    pub fn take(&mut self, oldest: u64) -> Option<u32> {
        let (epoch, slot) = *self.0.front()?;
        if epoch >= oldest {
            return None;
        }
        self.0.pop_front();
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn a_slot_waits_for_those_who_sat_down_before_it_was_retired() {
        let (epoch, seats) = (Epoch::new(AtomicU64::new(0)), [0, 0].map(AtomicU64::new));
        let mut quarantine = Quarantine::default();
        let first = epoch.enter(&seats[0], || ());
        quarantine.put(epoch.now(), 7);
        epoch.advance();
        // Who sits down now finds it retired.
        let second = epoch.enter(&seats[1], || ());
        assert_eq!(quarantine.take(oldest(seats.iter())), None);
        Epoch::leave(&seats[0], first);
        assert_eq!(quarantine.take(oldest(seats.iter())), Some(7));
        Epoch::leave(&seats[1], second);
        assert_eq!(oldest(seats.iter()), u64::MAX);
        assert!(quarantine.is_empty());
    }

    #[test]
    fn who_sits_down_twice_sits_until_both_have_stood_up() {
        let (epoch, seat) = (Epoch::new(AtomicU64::new(0)), AtomicU64::new(0));
        let outer = epoch.enter(&seat, || ());
        epoch.advance();
        let inner = epoch.enter(&seat, || ());
        Epoch::leave(&seat, inner);
        assert_eq!(seat.relaxed(), 1);
        Epoch::leave(&seat, outer);
        assert_eq!(seat.relaxed(), 0);
    }
}

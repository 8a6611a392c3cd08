//! NCCL's activation mask: which events NCCL announces. It may change while a job runs.
//!
//! NCCL reads the mask at each event, and keeps it in its own data. The recorder stores it at each init.
//! Somebody else may store to it later: `ncclras CONTROL PROFILER_MASK none` (NCCL 2.31) clears it on all
//! ranks of a running job. From then on, calls are made and not announced. So the recorder's thread compares
//! the mask again and again ([`Masks::missing`]), and an init looks at the mask that it overwrites.
//!
//! Rule: NCCL's memory is read only while a communicator is alive, and never by following an address that may
//! be gone. A caller whose mask is on a stack, or allocated, may give that memory to something else.

use crate::interpose::{memory, objects};
use nccl_abi::event;
use std::ffi::c_int;
use std::sync::atomic::{
    AtomicI32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// Copies of NCCL in a process whose masks are followed.
const COPIES: usize = 4;
/// What every release of NCCL announces if it is asked to. Releases take back bits that they do not know.
const BASIC: u32 = (event::COLL | event::P2P) as u32;

/// The masks of a process.
pub struct Masks {
    /// What the recorder asks for.
    wanted: u32,
    copies: [OfOne; COPIES],
    /// What was missing from a mask when an init overwrote it, or at the end, since that was asked for.
    overwritten: AtomicU64,
}

/// The mask of one copy of NCCL.
#[derive(Default)]
struct OfOne {
    /// Where its mask is; 0 not known.
    at: AtomicUsize,
    /// What it announced when the mask was read first; 0 not read.
    at_first: AtomicU64,
}

impl Masks {
    pub fn new(wanted: u32) -> Masks {
        Masks {
            wanted,
            copies: Default::default(),
            overwritten: AtomicU64::new(0),
        }
    }

    /// An init stores what the recorder wants, and `more` that another plugin wants.
    ///
    /// # Safety
    /// `mask` is the address of NCCL's mask.
    pub unsafe fn store(&self, mask: *mut c_int, more: u32) {
        let wanted = (self.wanted | more) as i32;
        // SAFETY: as the caller promises. NCCL's threads read it with atomic loads.
        let before = unsafe { AtomicI32::from_ptr(mask) }.swap(wanted, Relaxed) as u32;
        let address = mask as usize;
        if let Some(known) = self.copies.iter().find(|c| c.at.load(Acquire) == address) {
            let missing = known.asked(self.wanted) & !before;
            self.overwritten.fetch_or(missing.into(), Relaxed);
            return;
        }
        if !objects::have(address as u64) {
            return;
        }
        let free = |copy: &&OfOne| {
            let taken = copy.at.compare_exchange(0, address, Release, Relaxed);
            taken.is_ok()
        };
        // Of more copies than there is room for, some are not followed.
        let _ = self.copies.iter().find(free);
    }

    /// The last communicator ends, and NCCL may be unloaded then: looks once more.
    pub fn forget(&self) {
        self.overwritten
            .fetch_or(self.missing().unwrap_or(0).into(), Relaxed);
        for copy in &self.copies {
            copy.at.store(0, Release);
            copy.at_first.store(0, Release);
        }
    }

    /// Events that are asked for and not announced now, by any copy of NCCL. `None` if there is no
    /// communicator.
    pub fn missing(&self) -> Option<u32> {
        let missing = |copy: &OfOne| {
            let at = copy.at.load(Acquire);
            let now = (at != 0).then(|| memory::read_u32(at as u64)).flatten()?;
            if copy.at_first.load(Acquire) == 0 {
                copy.at_first.store(1 << 32 | u64::from(now), Release);
            }
            // Forgotten meanwhile: what was read is no mask.
            (copy.at.load(Acquire) == at).then(|| copy.asked(self.wanted) & !now)
        };
        self.copies
            .iter()
            .filter_map(missing)
            .reduce(|all, missing| all | missing)
    }

    /// Events that were missing when inits overwrote a mask, or at the end, since the last time.
    pub fn take_overwritten(&self) -> u32 {
        self.overwritten.swap(0, Relaxed) as u32
    }
}

impl OfOne {
    /// What the recorder wants, and this copy of NCCL announced at first.
    fn asked(&self, wanted: u32) -> u32 {
        wanted & (BASIC | self.at_first.load(Acquire) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_that_somebody_else_changes_is_seen() {
        let wanted = BASIC | event::COLL_API as u32;
        let masks = Masks::new(wanted);
        assert_eq!(masks.missing(), None);
        static NCCL: AtomicI32 = AtomicI32::new(0);
        let address = NCCL.as_ptr();
        let set = |value: u32| NCCL.store(value as i32, Relaxed);
        // SAFETY: ours.
        unsafe { masks.store(address, 0) };
        assert_eq!((masks.missing(), masks.take_overwritten()), (Some(0), 0));
        set(0);
        assert_eq!(masks.missing(), Some(wanted));
        // More than was asked for is no loss.
        set(wanted | 1 << 20);
        assert_eq!(masks.missing(), Some(0));
        // Nobody looked between the change and the next init.
        set(BASIC);
        // SAFETY: ours.
        unsafe { masks.store(address, 0) };
        assert_eq!(masks.take_overwritten(), event::COLL_API as u32);
        assert_eq!((masks.missing(), masks.take_overwritten()), (Some(0), 0));
        set(0);
        masks.forget();
        assert_eq!((masks.missing(), masks.take_overwritten()), (None, wanted));
    }

    #[test]
    fn what_a_release_does_not_know_is_not_missed() {
        static NCCL: AtomicI32 = AtomicI32::new(0);
        let masks = Masks::new(BASIC | event::COLL_API as u32);
        // SAFETY: ours.
        unsafe { masks.store(NCCL.as_ptr(), 0) };
        NCCL.store(BASIC as i32, Relaxed);
        assert_eq!(masks.missing(), Some(0));
    }

    #[test]
    fn memory_that_may_become_something_else_is_not_read_as_a_mask() {
        let wanted = BASIC | event::COLL_API as u32;
        let masks = Masks::new(wanted);
        let mut on_the_stack = 0;
        let mut allocated = Box::new(0);
        for mask in [&raw mut on_the_stack, &raw mut *allocated] {
            // SAFETY: ours.
            unsafe { masks.store(mask, 0) };
        }
        assert_eq!((on_the_stack, *allocated), (wanted as i32, wanted as i32));
        assert_eq!(masks.missing(), None);
    }
}

//! Calls of the driver, counted: launches, allocations, IPC opens, loads of code, mappings and
//! synchronisations, by NCCL and by the program.
//!
//! [`crate::driver_watch`] has a function of ours before each of these functions of the driver, and one of
//! its own for the pointers that libnccl keeps. So a call is known to be NCCL's or the program's without a
//! look at the stack. [`add`] counts it. The recorder's thread writes [`totals`] into the capture now and
//! then (`writer::setup`).
//!
//! Rule: a count costs the calling thread one addition to a word that other threads seldom touch. Nothing
//! here waits, allocates, or fails a call.

use crate::seats;
use capture::counts::{Count, NAMES};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Counts of one kind of caller, by [`Count`].
pub type Totals = [u64; NAMES.len()];

/// Threads that count into words of their own, as a rule.
const SHARDS: usize = 16;

/// On cache lines of its own, with what stands behind it for NCCL.
#[repr(align(128))]
struct Shard([[AtomicU64; NAMES.len()]; 2]);

static COUNTS: [Shard; SHARDS] =
    [const { Shard([const { [const { AtomicU64::new(0) }; NAMES.len()] }; 2]) }; SHARDS];
/// A library was seen that is NCCL by its name.
static NCCL_SEEN: AtomicBool = AtomicBool::new(false);

/// Counts so many. `nccl`: NCCL called, and not the program.
#[inline(always)]
pub fn add(count: Count, nccl: bool, so_many: u64) {
    let thread = seats::thread();
    // Numbers are addresses, of which the low bits are alike.
    let shard = &COUNTS[(thread >> 12 ^ thread >> 20) as usize % SHARDS];
    shard.0[usize::from(nccl)][count as usize].fetch_add(so_many, Relaxed);
}

/// What was counted until now.
pub fn totals(nccl: bool) -> Totals {
    let mut totals = Totals::default();
    for shard in &COUNTS {
        let words = &shard.0[usize::from(nccl)];
        for (total, word) in totals.iter_mut().zip(words) {
            *total = total.wrapping_add(word.load(Relaxed));
        }
    }
    totals
}

/// NCCL's pointers lead to functions of its own from now on.
pub fn nccl_is_seen() {
    NCCL_SEEN.store(true, Relaxed);
}

/// Whether NCCL's calls are told from the program's. They are not if NCCL is linked into another library.
pub fn nccl_is_told_apart() -> bool {
    NCCL_SEEN.load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_threads_and_callers_add_up() {
        let before = [totals(false), totals(true)];
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        add(Count::GpuBytes, true, 3);
                        add(Count::IpcOpen, false, 1);
                    }
                });
            }
        });
        let grown = |nccl: bool, count: Count| {
            totals(nccl)[count as usize] - before[usize::from(nccl)][count as usize]
        };
        assert_eq!(grown(true, Count::GpuBytes), 24_000);
        assert_eq!(grown(false, Count::IpcOpen), 8_000);
        assert_eq!(grown(true, Count::IpcOpen), 0);
        assert_eq!(NAMES[Count::ContextSync as usize], "context_syncs");
    }
}

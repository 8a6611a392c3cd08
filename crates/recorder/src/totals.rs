//! The table of totals: calls without a row, counted by kind of call.
//!
//! [`total`] finds the entry of a kind, or makes it. The recorder's thread uses it for calls that it folds
//! (`writer/folding.rs`), and a callback for a call that found no free row.
//!
//! Rule: an entry's key is stored before its state says so (Release), and never changes.

use capture::live::{Total, View};
use capture::rotated::Key;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The key of a call that never had a row: its algorithm is not known.
pub fn key_of_birth(comm: u32, count: u64, [func, datatype]: [u8; 2], flags: u8) -> Key {
    Key {
        comm,
        count,
        names: [func, datatype, 0, 0],
        flags,
        nchannels: 0,
    }
}

/// The entry of a key, which is made if there is none: its index and itself. `None` if the table is full.
pub fn total<'a>(live: &View<'a>, key: &Key) -> Option<(usize, &'a Total)> {
    let totals = live.totals();
    let mut hash = u64::from(key.comm)
        ^ key.count.rotate_left(17)
        ^ u64::from(u32::from_le_bytes(key.names)) << 32;
    hash = (hash ^ u64::from(key.flags) << 8 ^ u64::from(key.nchannels))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let start = (hash >> 40) as usize;
    // Bounded: a callback may be the caller.
    for probe in 0..64.min(totals.len()) {
        let at = (start + probe) % totals.len();
        let entry = &totals[at];
        let mut state = entry.state.load(Acquire);
        if state == 0 {
            match entry.state.compare_exchange(0, 1, Acquire, Acquire) {
                Ok(_) => {
                    entry.comm.store(key.comm, Relaxed);
                    entry.count.store(key.count, Relaxed);
                    for (to, from) in entry.names.iter().zip(key.names) {
                        to.store(from, Relaxed);
                    }
                    entry.flags.store(key.flags, Relaxed);
                    entry.nchannels.store(key.nchannels, Relaxed);
                    entry.min.store(u64::MAX, Relaxed);
                    entry.state.store(2, Release);
                    live.header().totals_used.fetch_add(1, Relaxed);
                    return Some((at, entry));
                }
                Err(now) => state = now,
            }
        }
        // Another thread may just be making an entry here. It is passed over: a second entry with the same
        // key does no harm.
        if state == 2 && holds(entry, key) {
            return Some((at, entry));
        }
    }
    None
}

fn holds(entry: &Total, key: &Key) -> bool {
    entry.comm.load(Relaxed) == key.comm
        && entry.count.load(Relaxed) == key.count
        && std::array::from_fn::<u8, 4, _>(|i| entry.names[i].load(Relaxed)) == key.names
        && entry.flags.load(Relaxed) == key.flags
        && entry.nchannels.load(Relaxed) == key.nchannels
}

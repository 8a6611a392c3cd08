//! NCCL's own predictions: the table of costs that it hands to a tuner before each collective.
//!
//! NCCL estimates how many µs a collective takes by each algorithm and protocol, and takes the cheapest. A
//! tuner gets that table. [`Costs`] keeps one table for each kind of call, and `ncclscope model` holds it
//! beside what was measured. NCCL's choice stays as it is.
//!
//! One file for each process, `costs-HOST-PID.bin` in the folder of [`VARIABLE`]. It is mapped, so that it
//! survives the process however that ends. Little-endian:
//!
//! ```text
//! byte  what
//!    0  "NSCOST01"
//!    8  u32 process, u32 records that there is room for
//!   16  u64 calls that found no room
//! 4096  records of 192 bytes, in no order
//!
//! record:  0 u64 key: a hash of what the record is of; 0 if there is no record
//!          8 u64 the communicator's id, 0 below version 5
//!         16 u64 bytes, as nccl-tests counts them
//!         24 u32 ranks, u32 nodes
//!         32 u32 number of the function, u32 operations that NCCL joined into one
//!         40 u32 buffers: 0 not registered, 1 registered, 2 not told (below version 4)
//!         44 u32 1 if the record is whole
//!         48 u64 calls of this kind
//!         56 u32 algorithms, u32 protocols
//!         64 f32[32] µs, a row of protocols for each algorithm; -1 can't run here
//! ```
//!
//! For example, an AllReduce (4) of 1 MiB on 8 ranks, made twice: `key`, `id`, `00 00 10 00 00 00 00 00`,
//! `08 00 00 00`, `01 00 00 00`, `04 00 00 00`, `01 00 00 00`, `00 00 00 00`, `01 00 00 00`,
//! `02 00 00 00 00 00 00 00`, `07 00 00 00`, `03 00 00 00`, the table.
//!
//! Rule: a call never waits for a disk's space or for a lock, as in [`crate::log`].

use crate::log::{host, mapped};
use std::ffi::c_int;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release};
use std::sync::OnceLock;

/// The variable with the folder that costs are kept in.
pub const VARIABLE: &str = "NCCLSCOPE_COSTS";
/// What the file begins with.
pub const MAGIC: [u8; 8] = *b"NSCOST01";
/// Bytes before the first record.
pub const HEAD: usize = 4096;
/// Bytes of a record.
pub const RECORD: usize = 192;
/// Records that there is room for: they take 384 KiB.
pub const ROOM: usize = 2048;
/// Where the table stands in a record, and how many entries have room there.
const TABLE: (usize, usize) = (64, 32);
/// Where the head has the calls that found no room.
const LEFT_OUT: usize = 16;
/// Places that are looked at for a record.
const PROBES: usize = 16;

/// The mapped file.
pub struct Costs {
    base: *mut u8,
}

// SAFETY: the mapping lives as long as the process, and all of it is used through atomics.
unsafe impl Send for Costs {}
// SAFETY: as above.
unsafe impl Sync for Costs {}

/// What a call is of.
#[derive(Clone, Copy, Debug)]
pub struct CallKind {
    /// The communicator's id, or 0.
    pub id: u64,
    /// Its ranks.
    pub ranks: u32,
    /// Its nodes.
    pub nodes: u32,
    /// NCCL's number of the function.
    pub function: c_int,
    /// Bytes.
    pub bytes: usize,
    /// Operations that NCCL joined.
    pub joined: c_int,
    /// Whether the buffers are registered, if NCCL tells.
    pub registered: Option<bool>,
}

impl CallKind {
    fn registered(&self) -> u32 {
        self.registered.map_or(2, u32::from)
    }

    /// Never 0.
    fn key(&self) -> u64 {
        let parts = [
            self.id,
            u64::from(self.ranks) << 32 | u64::from(self.nodes),
            self.bytes as u64,
            u64::from(self.function as u32) << 32 | u64::from(self.joined as u32),
            u64::from(self.registered()),
        ];
        let mix = |hash: u64, part: u64| {
            let z = (hash ^ part).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (z ^ (z >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb) ^ (z >> 32)
        };
        parts.into_iter().fold(0x9e37_79b9_7f4a_7c15, mix).max(1)
    }
}

/// The process's file; `None` if nobody asked for one, or it can't be made.
pub fn costs() -> Option<&'static Costs> {
    static COSTS: OnceLock<Option<Costs>> = OnceLock::new();
    let make = || {
        let folder = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty())?;
        Costs::create(Path::new(&folder))
    };
    COSTS.get_or_init(make).as_ref()
}

impl Costs {
    /// Makes the file in a folder that is there.
    fn create(folder: &Path) -> Option<Costs> {
        let path = folder.join(format!("costs-{}-{}.bin", host()?, std::process::id()));
        let mut head = vec![0u8; HEAD];
        head[..8].copy_from_slice(&MAGIC);
        head[8..12].copy_from_slice(&std::process::id().to_le_bytes());
        head[12..16].copy_from_slice(&(ROOM as u32).to_le_bytes());
        let base = mapped(&path, &head, HEAD + ROOM * RECORD)?;
        Some(Costs { base })
    }

    /// Keeps the table of a kind of call, once, and counts the call.
    pub fn keep(&self, of: &CallKind, table: &[f32], algorithms: usize, protocols: usize) {
        let key = of.key();
        for probe in 0..PROBES {
            let at = HEAD + (key as usize).wrapping_add(probe) % ROOM * RECORD;
            // SAFETY: the record is in the mapping, which is aligned, as 4096 and 192 are multiples of 8.
            let claimed = unsafe { AtomicU64::from_ptr(self.base.add(at).cast()) };
            match claimed.compare_exchange(0, key, Relaxed, Relaxed) {
                Ok(_) => self.write(at, of, table, algorithms, protocols),
                Err(other) if other != key => continue,
                Err(_) => {}
            }
            self.long(at + 48).fetch_add(1, Relaxed);
            return;
        }
        self.long(LEFT_OUT).fetch_add(1, Relaxed);
    }

    fn write(&self, at: usize, of: &CallKind, table: &[f32], algorithms: usize, protocols: usize) {
        let (start, room) = TABLE;
        self.long(at + 8).store(of.id, Relaxed);
        self.long(at + 16).store(of.bytes as u64, Relaxed);
        for (offset, value) in [
            (24, of.ranks),
            (28, of.nodes),
            (32, of.function as u32),
            (36, of.joined as u32),
            (40, of.registered()),
            (56, algorithms as u32),
            (60, protocols as u32),
        ] {
            self.word(at + offset).store(value, Relaxed);
        }
        for (index, cost) in table.iter().take(room).enumerate() {
            self.word(at + start + 4 * index)
                .store(cost.to_bits(), Relaxed);
        }
        // Last: readers leave out what is not whole.
        self.word(at + 44).store(1, Release);
    }

    /// Eight bytes of the file.
    fn long(&self, at: usize) -> &AtomicU64 {
        // SAFETY: callers pass multiples of 8 that lie in the head or in a record.
        unsafe { AtomicU64::from_ptr(self.base.add(at).cast()) }
    }

    /// Four bytes of the file.
    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: callers pass multiples of 4 that lie in a record.
        unsafe { AtomicU32::from_ptr(self.base.add(at).cast()) }
    }

    /// Whether a record is whole.
    #[cfg(test)]
    fn is_whole(&self, slot: usize) -> bool {
        self.word(HEAD + slot * RECORD + 44)
            .load(std::sync::atomic::Ordering::Acquire)
            == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(bytes: usize, registered: Option<bool>) -> CallKind {
        CallKind {
            id: 7,
            ranks: 8,
            nodes: 1,
            function: 4,
            bytes,
            joined: 1,
            registered,
        }
    }

    #[test]
    fn a_table_is_kept_once_for_each_kind_of_call_and_a_full_file_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let costs = Costs::create(folder.path()).expect("made");
        let table = [1.5f32, -1.0, 3.0, 4.0];
        for _ in 0..3 {
            costs.keep(&kind(1 << 20, Some(false)), &table, 2, 2);
        }
        costs.keep(&kind(1 << 20, Some(true)), &[9.0; 4], 2, 2);
        let whole = || {
            (0..ROOM)
                .filter(|slot| costs.is_whole(*slot))
                .collect::<Vec<_>>()
        };
        assert_eq!(whole().len(), 2);
        let of = |registered: u32| {
            let slots = whole();
            let slot = slots
                .into_iter()
                .find(|s| costs.word(HEAD + s * RECORD + 40).load(Relaxed) == registered);
            HEAD + slot.expect("kept") * RECORD
        };
        assert_eq!(costs.long(of(0) + 48).load(Relaxed), 3);
        let third = costs.word(of(0) + 64 + 8).load(Relaxed);
        assert_eq!(f32::from_bits(third), 3.0);
        assert_eq!(costs.long(of(1) + 48).load(Relaxed), 1);
        // More kinds than there is room for.
        for bytes in 0..2 * ROOM {
            costs.keep(&kind(bytes, None), &table, 2, 2);
        }
        let kept = whole().len() - 2;
        let left_out = costs.long(LEFT_OUT).load(Relaxed) as usize;
        assert!(kept <= ROOM && left_out > 0);
        assert_eq!(kept + left_out, 2 * ROOM);
    }
}

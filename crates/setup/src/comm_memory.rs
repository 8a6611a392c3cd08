//! What NCCL counts as the memory of a communicator, as the recorder asks it ([`crate::recorded`]).
//!
//! ```text
//! ncclscope comm_memory at_ns=1795413000000000000 comm=94200 rank=0 nranks=2 device=0 total=910163968
//! ```
//!
//! Rule: a line without a moment, a communicator or its total is no line. Unknown names are left out.

use std::collections::BTreeMap;

/// How a line goes on behind [`crate::recorded::OWN`].
pub const COMM_MEMORY: &str = "comm_memory ";

/// The memory of a communicator's rank at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommMemory {
    /// When it was asked for, ns since 1970.
    pub at_ns: i64,
    /// NCCL's pointer to the communicator, which tells those of a process apart.
    pub comm: u64,
    /// Its rank.
    pub rank: u32,
    /// Ranks in it.
    pub nranks: u32,
    /// CUDA device.
    pub device: Option<u32>,
    /// GPU memory, bytes.
    pub total: u64,
    /// Of that, what a suspended communicator keeps.
    pub persistent: u64,
    /// Of that, what a suspended communicator gives back.
    pub suspendable: u64,
    /// Whether it was suspended at that moment. NCCL leaves its other counts as they were.
    pub is_suspended: bool,
}

impl CommMemory {
    /// GPU memory that it held at that moment, bytes.
    pub fn held(&self) -> u64 {
        if self.is_suspended {
            self.total.saturating_sub(self.suspendable)
        } else {
            self.total
        }
    }

    /// From what stands behind [`COMM_MEMORY`].
    pub fn parse(text: &str) -> Option<CommMemory> {
        let pairs = text
            .split_ascii_whitespace()
            .map(|word| word.split_once('='));
        let of: BTreeMap<&str, &str> = pairs.collect::<Option<_>>()?;
        let number = |name: &str| of.get(name)?.parse::<u64>().ok();
        let small = |name: &str| of.get(name)?.parse::<u32>().ok();
        Some(CommMemory {
            at_ns: i64::try_from(number("at_ns")?).ok()?,
            comm: number("comm")?,
            rank: small("rank")?,
            nranks: small("nranks")?,
            device: small("device").filter(|device| *device != u32::MAX),
            total: number("total")?,
            persistent: number("persistent").unwrap_or(0),
            suspendable: number("suspendable").unwrap_or(0),
            is_suspended: number("suspended").is_some_and(|is| is != 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_and_a_part_of_one_is_not() {
        let text = "at_ns=9 comm=77 rank=1 nranks=2 device=4294967295 total=30 persistent=20 new=1";
        let read = CommMemory::parse(text).expect("well formed");
        assert_eq!((read.comm, read.rank, read.nranks), (77, 1, 2));
        assert_eq!((read.device, read.total), (None, 30));
        assert_eq!((read.persistent, read.suspendable), (20, 0));
        assert_eq!(read.held(), 30);
        let text =
            "at_ns=9 comm=77 rank=1 nranks=2 total=30 persistent=20 suspendable=10 suspended=1";
        assert_eq!(CommMemory::parse(text).map(|read| read.held()), Some(20));
        for text in [
            "",
            "at_ns=9 comm=77 rank=1 nranks=2",
            "total=1 x",
            "at_ns=-1 comm=1",
        ] {
            assert_eq!(CommMemory::parse(text), None, "{text}");
        }
    }
}

//! Which of NCCL's stamps are not their call's, as seen on H200.
//!
//! Here because both ends decide by it: the recorder, which keeps totals of calls that have no row, and the
//! reader.

use crate::live::{flag, part};

/// Algorithms whose kernels stamp their end by a warp that does not wait for the others. Sends and receives
/// do so too.
const EARLY: [&str; 3] = ["TREE", "NVLS", "NVLS_TREE"];

/// The first release with stamps that an all-to-all with itself spoils, and the first that a Broadcast spoils
/// (seen on 2.28.9 and 2.30.7, and on 2.32.3).
const SPOILT_BY_SELF: u32 = 22600;
const SPOILT_BY_BROADCAST: u32 = 23100;

/// Whether kernels of this algorithm stamp their end too early.
pub fn stops_early(algorithm: &str) -> bool {
    EARLY.contains(&algorithm)
}

/// Whether, from the group of such a call on, NCCL's counters of stamps are out of step on its communicator.
/// `nccl` is the release's number, as 22809.
pub fn spoils(nccl: u32, is_broadcast: bool, is_to_itself: bool, flags: u8, parts: u16) -> bool {
    if flags & flag::CAPTURED != 0 || nccl < SPOILT_BY_SELF {
        false
    } else if nccl < SPOILT_BY_BROADCAST {
        is_to_itself && flags & flag::P2P != 0
    } else {
        is_broadcast && parts & part::ENQUEUED == 0
    }
}

//! One call in the live part: a [`Row`], and the bits of its words.

use crate::fields::{call_fields, Live};
use std::sync::atomic::AtomicU64;

/// Words that say what became of a call, by [`Row::flags`].
pub mod flag {
    /// The call was made while a CUDA graph was captured: a template, not an execution.
    pub const CAPTURED: u8 = 1;
    /// One execution of a captured call, seen at a graph replay.
    pub const REPLAY: u8 = 2;
    /// A send or a receive.
    pub const P2P: u8 = 4;
    /// No API event announced it (ABI below v5): born at Coll or P2p.
    pub const LEGACY: u8 = 8;
    /// In the totals only: the entry's calls have GPU times, so that its histogram is of one kind.
    pub const TIMED: u8 = 128;
}

/// Bits of [`Row::parts`]: what NCCL has said about the call since its birth.
pub mod part {
    /// Coll, P2p or CeColl start: NCCL has planned and enqueued it.
    pub const ENQUEUED: u8 = 1;
    /// Coll or P2p stop.
    pub const ENQUEUE_DONE: u8 = 2;
    /// A KernelLaunch was paired with it.
    pub const LAUNCHED: u8 = 4;
    /// A copy-engine collective (no kernel).
    pub const COPY_ENGINE: u8 = 8;
    /// A symmetric-memory kernel.
    pub const SYMMETRIC: u8 = 16;
    /// The launch times may be another plan's.
    pub const LAUNCH_AMBIGUOUS: u8 = 32;
    /// Its launch lies between two CUDA events: GPU times are the host's, see [`super::Row::k_start`].
    pub const EVENTS: u8 = 64;
    /// Its launch was left out of the sample that is timed.
    pub const UNSAMPLED: u8 = 128;
}

/// Bits of [`Row::verdict`]: evidence against the stamps of this call, gathered where it is.
pub mod verdict {
    /// A stamp equals the one of another call on the same communicator and channel that was not launched
    /// with it.
    pub const REPEATED: u16 = 1;
    /// Overlaps a call of another launch on the same communicator and channel.
    pub const BACKWARDS: u16 = 2;
    /// A stop is earlier than its start.
    pub const NEGATIVE: u16 = 4;
    /// Overlaps another call of the same launch on a channel: the time of their batch, not of the call.
    pub const FUSED: u16 = 8;
    /// A stamp was zero or missing.
    pub const MISSING: u16 = 16;
    /// A fact about this call came after its row was sealed.
    pub const LATE: u16 = 32;
}

/// States of [`Row::word`].
pub mod row_state {
    /// Free; the upper bits keep the generation.
    pub const FREE: u64 = 0;
    /// Alive: the fields of line A are readable.
    pub const ALIVE: u64 = 2;
    /// Bits of a ticket in the word.
    pub const TICKET_BITS: u32 = 44;
    /// Bits of a generation in the word.
    pub const GENERATION_BITS: u32 = 18;

    /// The ticket in a word.
    #[inline]
    pub fn ticket(word: u64) -> u64 {
        (word >> 2) & ((1 << TICKET_BITS) - 1)
    }

    /// The generation in a word.
    #[inline]
    pub fn generation(word: u64) -> u64 {
        word >> (TICKET_BITS + 2)
    }

    /// The word of a row.
    #[inline]
    pub fn word(generation: u64, ticket: u64, state: u64) -> u64 {
        generation << (TICKET_BITS + 2) | (ticket & ((1 << TICKET_BITS) - 1)) << 2 | state
    }
}

macro_rules! row {
    ($(
        #[doc = $doc:literal]
        $who:ident $name:ident: $type:tt $(= $column:literal $(<< $bits:literal)? $($coding:ident)?)?;
    )*) => {
        /// One call, updated in place from birth until it is sealed: four cache lines, each with one writing
        /// thread.
        #[repr(C, align(64))]
        pub struct Row {
            /// `generation << 46 | ticket << 2 | state`.
            ///
            /// Birth: the caller takes a slot off the ring of free slots, stores the fields of line A, then
            /// ALIVE (Release). The Acquire loads of the recorder's thread and of readers meet it.
            ///
            /// Death: once the row is in a block or in the totals, the recorder's thread stores FREE with
            /// the next generation, clears lines B to D, and puts the slot back on the ring (Release). The
            /// next caller that takes the slot meets that (Acquire).
            pub word: AtomicU64,
            $(
                #[doc = $doc]
                pub $name: Live<$type>,
            )*
        }
    };
}
call_fields!(row);

/// The waits of network steps, in the order of [`Row::waits`].
pub const WAITS: [&str; 6] = [
    "send_gpu",
    "send_peer",
    "send_network",
    "recv_network",
    "recv_flush",
    "recv_gpu",
];

const _: () = assert!(std::mem::size_of::<Row>() == 256);
const _: () = assert!(std::mem::offset_of!(Row, t_launch0) == 64);
const _: () = assert!(std::mem::offset_of!(Row, k_start) == 128);
const _: () = assert!(std::mem::offset_of!(Row, ops_started) == 192);

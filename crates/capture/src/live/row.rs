//! One call in the live part: a [`Row`] of 320 bytes, and the bits of its words.
//!
//! ```text
//! line A, the calling thread
//!   0 word │ 8 t_api │ 16 count │ 24 group │ 32 stream │ 40 comm │ 44 root
//!   48 func │ 49 datatype │ 50 flags │ 51 - │ 52 template │ 56 t_end
//! line B, the thread that launches
//!   64 t_launch0 │ 72 t_launch1 │ 80 t_enqueue │ 88 seq │ 96 user_tag │ 104 peer
//!   108 algorithm │ 109 protocol │ 110 variant │ 111 nchannels │ 112 nwarps │ 113 error │ 114 parts
//!   116 ce_batches │ 118 - │ 120 event │ 124 thread
//! line C, the thread that delivers kernel events
//!   128 stamp_start │ 136 stamp_stop │ 144 k_seen │ 152 k_started │ 154 k_stopped │ 156 verdict │ 158 -
//!   160 phase_stop, 2 │ 176 -
//! line D, the network proxy's thread
//!   192 ops_started │ 196 ops_stopped │ 200 steps │ 204 net_seen │ 208 bytes_sent │ 216 bytes_received
//!   224 waits, 6 │ 248 net_longest │ 252 net_link
//! line E, the recorder's thread
//!   256 event_start │ 264 event_ns │ 272 event_error │ 276 waiter │ 280 send_buffer │ 288 recv_buffer
//!   296 waited │ 300 stack │ 304 on_gpu │ 308 driver │ 312 asked
//! ```
//!
//! Example: line A of an AllReduce of 1024 elements on communicator 1 with ticket 5, entered at tick
//! 0x10000 and returned at 0x10100. It is the first call in its place, so its generation is 0.
//!
//! ```text
//!  0   16 00 00 00 00 00 00 00   word: generation 0 << 46 | ticket 5 << 2 | ALIVE
//!  8   00 00 01 00 00 00 00 00   t_api
//! 16   00 04 00 00 00 00 00 00   count 1024
//! 24   06 00 00 00 00 00 00 00   group: ticket 5 + 1
//! 32   00 00 00 00 00 00 00 00   stream 0, the default one
//! 40   01 00 00 00 ff ff ff ff   comm 1, root -1
//! 48   01 00 00 00 00 00 00 00   func: string 1; no datatype, flags, template
//! 56   00 01 01 00 00 00 00 00   t_end
//! ```
//!
//! Rule: a line has one writing thread at a time, so no two threads take a cache line from each other.

use crate::fields::{call_fields, GpuTime, Live, Ticks};
use std::sync::atomic::AtomicU64;

/// Bits of [`Row::flags`]: what kind of call it is.
pub mod flag {
    /// The call was made while a CUDA graph was captured: a template, not an execution.
    pub const CAPTURED: u8 = 1;
    /// One execution of a captured call, seen at a graph replay.
    pub const REPLAY: u8 = 2;
    /// A send or a receive.
    pub const P2P: u8 = 4;
    /// No API event announced it (ABI below v5): born at Coll or P2p.
    pub const LEGACY: u8 = 8;
    /// The calls that no GroupApi event brackets: they end at the stop of their Coll or P2p.
    pub const UNGROUPED: u8 = REPLAY | LEGACY;
    /// In the totals only: all calls of the entry have GPU times, so its histogram has one kind of times.
    pub const TIMED: u8 = 128;
}

/// Bits of [`Row::parts`]: what NCCL has said about the call since its birth.
pub mod part {
    /// Coll, P2p or CeColl start: NCCL has planned and enqueued it.
    pub const ENQUEUED: u16 = 1;
    /// Coll or P2p stop.
    pub const ENQUEUE_DONE: u16 = 2;
    /// A KernelLaunch was paired with it.
    pub const LAUNCHED: u16 = 4;
    /// A copy-engine collective (no kernel).
    pub const COPY_ENGINE: u16 = 8;
    /// A symmetric-memory kernel.
    pub const SYMMETRIC: u16 = 16;
    /// The launch times may be another plan's.
    pub const LAUNCH_AMBIGUOUS: u16 = 32;
    /// Two CUDA events are around its launch: see [`super::Row::event_start`].
    pub const EVENTS: u16 = 64;
    /// Its launch was not in the sample that is timed.
    pub const UNSAMPLED: u16 = 128;
}

/// Bits of [`Row::verdict`]: evidence against the stamps of this call.
pub mod verdict {
    /// Another call, not launched with it, has an equal stamp on the same communicator and channel.
    pub const REPEATED: u16 = 1;
    /// Overlaps a call of another launch on the same communicator and channel.
    pub const BACKWARDS: u16 = 2;
    /// A stop is earlier than its start.
    pub const NEGATIVE: u16 = 4;
    /// Overlaps another call of the same launch on a channel, so its time is that of their batch.
    pub const FUSED: u16 = 8;
    /// A stamp was zero or missing.
    pub const MISSING: u16 = 16;
    /// Something about this call came after its row was sealed.
    pub const LATE: u16 = 32;
}

/// What [`Row::waiter`] has: which stream waited for the call, and what is known of its wait.
pub mod waiter {
    /// No stream is known to have waited.
    pub const NONE: u32 = 0;
    /// [`Row::waited`](super::Row::waited) is its time.
    pub const TIMED: u32 = 1;
    /// The call had ended when the stream came to wait.
    pub const ENDED: u32 = 2;
    /// Not timed: the stream was of another context or captured, or no event was to be recorded then.
    pub const UNTIMED: u32 = 3;
    /// The bits of these.
    pub const KIND: u32 = 3;
    /// Ns in a unit of [`Row::waited`](super::Row::waited).
    pub const UNIT: i64 = 16;

    /// A stream by CUDA's id, and what is known.
    pub fn word(stream: u32, kind: u32) -> u32 {
        stream << 2 | kind
    }

    /// A time in units.
    pub fn units(ns: i64) -> i32 {
        let units = (ns + UNIT / 2).div_euclid(UNIT);
        units.clamp(i32::MIN.into(), i32::MAX.into()) as i32
    }
}

/// What [`Row::on_gpu`] has: how far the GPU had come with a call that was open when it was asked.
pub mod on_gpu {
    /// Nobody has asked, or the launch has ended since.
    pub const NOT_ASKED: u32 = 0;
    /// Its stream had not come to its launch.
    pub const NOT_REACHED: u32 = 1;
    /// Its stream had come to its launch, which had not ended.
    pub const BEGUN: u32 = 2;
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
        /// One call, updated in place from birth until it is sealed: five cache lines, each with one writing
        /// thread.
        #[repr(C, align(64))]
        pub struct Row {
            /// `generation << 46 | ticket << 2 | state`.
            ///
            /// Birth: the caller takes a slot off the ring of free slots, stores the fields of line A, then
            /// ALIVE (Release). The Acquire loads of the recorder's thread and of readers meet it.
            ///
            /// Death: the row is in a block or in the totals. The recorder's thread stores FREE with the next
            /// generation, clears lines B to E, and puts the slot back on the ring (Release). The next caller
            /// that takes the slot meets that (Acquire).
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

const _: () = assert!(std::mem::size_of::<Row>() == 320);
const _: () = assert!(std::mem::offset_of!(Row, t_launch0) == 64);
const _: () = assert!(std::mem::offset_of!(Row, stamp_start) == 128);
const _: () = assert!(std::mem::offset_of!(Row, ops_started) == 192);
const _: () = assert!(std::mem::offset_of!(Row, event_start) == 256);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn line_a_is_as_in_the_example() {
        // SAFETY: a Row is 320 bytes of atomic integers, for which any bytes are values.
        let row: Row = unsafe { std::mem::zeroed() };
        row.word
            .store(row_state::word(0, 5, row_state::ALIVE), Relaxed);
        row.t_api.store(Ticks(0x10000), Relaxed);
        row.count.store(1024, Relaxed);
        row.group.store(6, Relaxed);
        row.comm.store(1, Relaxed);
        row.root.store(-1i32 as u32, Relaxed);
        row.func.store(1, Relaxed);
        row.t_end.store(Ticks(0x10100), Relaxed);
        // SAFETY: as above.
        let bytes: [u8; 320] = unsafe { std::mem::transmute(row) };
        let example = include_str!("row.rs").lines().filter_map(|line| {
            let (offset, bytes) = line.strip_prefix("//! ")?.split_at_checked(2)?;
            offset.trim().parse::<usize>().ok()?;
            bytes.get(..27)
        });
        let example = example.flat_map(str::split_whitespace);
        let example: Vec<u8> = example
            .map(|byte| u8::from_str_radix(byte, 16).expect("a byte in hex"))
            .collect();
        assert_eq!(bytes[..64], example);
    }
}

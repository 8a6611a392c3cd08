//! One call in the live part: a [`Row`], and the bits of its words.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicU8};

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
    /// A stamp equals the one of another call on the same communicator and channel that was not launched with it.
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

/// One call, updated in place from birth until it is sealed. Four cache lines, each with one writing thread.
#[repr(C, align(64))]
pub struct Row {
    // Line A: the calling thread.
    /// `generation << 46 | ticket << 2 | state`. Birth: the caller takes a slot off the ring of free slots, stores the
    /// fields of this line, then ALIVE (Release), which the Acquire loads of the recorder's thread and of readers
    /// meet. Death: the recorder's thread stores FREE with the next generation once the row is in a block or in the
    /// totals, clears lines B to D, and puts the slot back on the ring (Release), which the next taker meets (Acquire).
    pub word: AtomicU64,
    /// API call entered, ticks.
    pub t_api: AtomicU64,
    /// Elements, as the program gave them.
    pub count: AtomicU64,
    /// Group ticket + 1; 0 none.
    pub group: AtomicU64,
    /// cudaStream_t, as a number.
    pub stream: AtomicU64,
    /// Communicator uid.
    pub comm: AtomicU32,
    /// Root, or -1.
    pub root: AtomicU32,
    /// String id.
    pub func: AtomicU8,
    /// String id.
    pub datatype: AtomicU8,
    /// [`flag`] bits.
    pub flags: AtomicU8,
    /// 0.
    pub spare_a: AtomicU8,
    /// For a replay: its template's number + 1.
    pub template: AtomicU32,
    /// The API call returned (GroupApi stop; Group stop below v5), ticks; 0 not yet, or to be read from the group.
    pub t_end: AtomicU64,

    // Line B: the thread that launches.
    /// KernelLaunch start, ticks; 0 unknown.
    pub t_launch0: AtomicU64,
    /// KernelLaunch stop, ticks; 0 unknown.
    pub t_launch1: AtomicU64,
    /// Coll, P2p or CeColl start, ticks; 0 not yet.
    pub t_enqueue: AtomicU64,
    /// NCCL's seqNumber + 1; 0 none.
    pub seq: AtomicU64,
    /// v7 userTag.
    pub user_tag: AtomicU64,
    /// Peer of a send or receive + 1; 0 unknown.
    pub peer: AtomicU32,
    /// String id.
    pub algorithm: AtomicU8,
    /// String id.
    pub protocol: AtomicU8,
    /// String id of v7's kernelVariant.
    pub variant: AtomicU8,
    /// [`part`] bits.
    pub parts: AtomicU8,
    /// Channels that NCCL says it uses.
    pub nchannels: AtomicU8,
    /// Warps per channel.
    pub nwarps: AtomicU8,
    /// Copy-engine: batches.
    pub ce_batches: AtomicU16,
    /// Number of the CUDA events around its launch, where it has [`part::EVENTS`].
    pub event: AtomicU32,
    /// Send buffer (`full` mode).
    pub send_buffer: AtomicU64,

    // Line C: the thread that delivers kernel events, or the recorder's thread where times are of CUDA events.
    /// Earliest start stamp over channels, GPU ns; 0 none. Of CUDA events: the first one's time, ticks.
    pub k_start: AtomicU64,
    /// Latest stop stamp over channels, GPU ns; 0 none. Of CUDA events: `k_start` and the ns between the two.
    pub k_stop: AtomicU64,
    /// Host time of the newest kernel callback, ticks.
    pub k_seen: AtomicU64,
    /// Channels started and stopped.
    pub k_started: AtomicU16,
    /// See `k_started`.
    pub k_stopped: AtomicU16,
    /// [`verdict`] bits.
    pub verdict: AtomicU16,
    /// 0.
    pub spare_c: AtomicU16,
    /// v7 phases, initial sync and compute: latest end over channels, GPU ns; 0 none.
    pub phase_stop: [AtomicU64; 2],
    /// Receive buffer (`full` mode); written by the launching thread before any kernel event exists.
    pub recv_buffer: AtomicU64,
    /// Of CUDA events: error of `k_start`, ns.
    pub k_error: AtomicU32,
    /// 0.
    pub spare_c2: AtomicU32,

    // Line D: the network proxy's thread.
    /// ProxyOps started and stopped.
    pub ops_started: AtomicU32,
    /// See `ops_started`.
    pub ops_stopped: AtomicU32,
    /// Steps finished.
    pub steps: AtomicU32,
    /// Host time of the newest network callback, ticks >> 10.
    pub net_seen: AtomicU32,
    /// Bytes accepted by the network.
    pub bytes_sent: AtomicU64,
    /// Bytes received.
    pub bytes_received: AtomicU64,
    /// Time in each of [`WAITS`], summed over steps, in units of 64 ticks.
    pub waits: [AtomicU32; 6],
    /// Of its network operations, how long the one that was longest in the network's hands was there, in units of 64 ticks;
    /// see [`crate::net_op::NetOp::held`].
    pub net_longest: AtomicU32,
    /// That one: peer + 1, << 1 | 1 sends; 0 none.
    pub net_link: AtomicU32,
}

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

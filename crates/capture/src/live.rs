//! The live part: one process's open rows, totals, counters and unwritten blocks, in memory that outlives the process.
//!
//! ```text
//! Header 4096 B │ Strings │ Comms │ Groups │ Totals │ Histogram pages │ Rows │ Network operations │ Staging
//! ```
//!
//! Every field is an atomic that one thread at a time stores to, so a reader (the recorder's own thread, another
//! process, or a report after the writer's death) sees whole values. What orders them is said at each field; the
//! life of a row is at [`Row::word`].
//!
//! The logical trace file is the bytes of the newest file up to [`Header::staged_base`], then the first
//! [`Header::staged_len`] bytes of the staging area, so a write that was cut short is made good from the live part.

use crate::net_op::NetOp;
use std::mem::offset_of;
use std::sync::atomic::{
    AtomicU16, AtomicU32, AtomicU64, AtomicU8, Ordering::Acquire, Ordering::Relaxed,
};

/// Starts a live part.
pub const MAGIC: u64 = u64::from_le_bytes(*b"NCSLIVE1");

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

/// Why a call has no row of its own, or a callback no effect; indexes into [`Header::lost`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Cause {
    /// No free row: the table was full of calls that had not finished or not been written.
    RowsFull = 0,
    /// The trace file reached `NCCLSCOPE_MAX_SIZE`.
    SizeLimit = 1,
    /// The trace file could not be written (disk full, quota, folder gone).
    WriteFailed = 2,
    /// A captured call whose later replays can't be named: more captured calls than the template table holds.
    TemplatesFull = 3,
    /// The totals table was full too, so the call is in no table. It is also counted under its first cause, but for
    /// `profile` mode, where there is none.
    TotalsFull = 4,
}

/// Names of the [`Cause`]s, in order, as reports print them.
pub const CAUSES: [&str; 5] = [
    "rows_full",
    "size_limit",
    "write_failed",
    "templates_full",
    "totals_full",
];

/// Callbacks that had no row to go to, and why; indexes into [`Header::odd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Odd {
    /// A handle that this process never gave out (another process's, or garbage).
    ForeignHandle = 0,
    /// A handle whose row has been sealed since.
    StaleHandle = 1,
    /// A null handle.
    NullHandle = 2,
    /// A type bit that the ABI does not define.
    UnknownType = 3,
    /// A state that the ABI does not define, or one that does not fit the handle.
    UnknownState = 4,
    /// A context that this process never gave out, or one already finalized.
    StaleContext = 5,
    /// A ProxyOp on behalf of another process (PXN).
    ForeignPid = 6,
    /// A stop for something already stopped.
    DoubleStop = 7,
    /// A Coll or P2p whose announcing row is gone or was never given.
    Orphan = 8,
    /// A child of a call that has no row.
    Rowless = 9,
    /// More communicators than the table holds.
    CommsFull = 10,
    /// More distinct strings than the table holds.
    StringsFull = 11,
    /// A group entry was recycled before its calls were sealed.
    GroupLost = 12,
    /// A panic was caught at the boundary; recording is off since.
    Panic = 13,
    /// Callback records dropped in `callbacks` mode because the buffer was full.
    CallbacksDropped = 14,
    /// An aged ProxyOp, ProxyStep or KernelCh that was never stopped.
    Unstopped = 15,
    /// A ProxyOp that found no free entry in the table of open network operations.
    NetOpsFull = 16,
}

/// Names of the [`Odd`]s, in order, as reports print them.
pub const ODDS: [&str; 17] = [
    "foreign_handle",
    "stale_handle",
    "null_handle",
    "unknown_type",
    "unknown_state",
    "stale_context",
    "foreign_pid",
    "double_stop",
    "orphan",
    "rowless_child",
    "communicators_full",
    "strings_full",
    "group_lost",
    "panic",
    "callbacks_dropped",
    "unstopped",
    "net_ops_full",
];

/// The three clocks at one moment.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Anchor {
    /// The recorder's clock: TSC ticks, or nanoseconds of CLOCK_MONOTONIC where the TSC is not used.
    pub ticks: AtomicU64,
    /// CLOCK_MONOTONIC, ns.
    pub monotonic: AtomicU64,
    /// CLOCK_REALTIME, ns since 1970.
    pub realtime: AtomicU64,
}

/// What a live part starts with. Sizes and offsets are fixed at creation; the rest moves.
#[repr(C)]
pub struct Header {
    /// [`MAGIC`], stored last at creation (Release).
    pub magic: AtomicU64,
    /// [`crate::FORMAT`].
    pub format: AtomicU32,
    /// Bytes of the whole image.
    pub size: AtomicU32,
    /// Of strings, comms, groups, totals, pages, rows, staging: offset of the first and how many (bytes for staging).
    pub sections: [[AtomicU32; 2]; 7],
    /// Random id shared with the trace file's header.
    pub trace_id: AtomicU64,
    /// The writer, as itself sees its pid.
    pub pid: AtomicU32,
    /// Clock of `ticks`: 0 vDSO monotonic ns, 1 TSC, 2 the aarch64 virtual counter.
    pub clock: AtomicU32,
    /// Start time of the process in clock ticks since boot, field 22 of /proc/PID/stat; tells a recycled pid.
    pub pid_start: AtomicU64,
    /// Inode of the pid name space.
    pub pid_namespace: AtomicU64,
    /// When the live part was made.
    pub first: Anchor,
    /// The newest anchor; `anchor_version` is odd while it changes.
    pub last: Anchor,
    /// See `last`.
    pub anchor_version: AtomicU64,
    /// Rows born: the next ticket. A compare-and-swap at each birth. Announced calls are these and those that found
    /// no row; see [`Header::announced`].
    pub born: AtomicU64,
    /// Tickets below this one have been looked at by the recorder's thread.
    pub drained: AtomicU64,
    /// Rows written to blocks.
    pub sealed: AtomicU64,
    /// Rows folded into the totals.
    pub folded: AtomicU64,
    /// Calls without a row, by [`Cause`].
    pub lost: [AtomicU64; 8],
    /// Callbacks without effect, by [`Odd`].
    pub odd: [AtomicU64; 24],
    /// Bytes in the trace file that is written to, before the staged ones.
    pub staged_base: AtomicU64,
    /// Bytes in the staging area. Stored (Release) after the bytes.
    pub staged_len: AtomicU64,
    /// Next block number.
    pub block_number: AtomicU32,
    /// 0 recording, 1 ended by the last finalize or exit, 2 off after a failure.
    pub state: AtomicU32,
    /// errno of the last failed write, 0 if none.
    pub write_errno: AtomicU32,
    /// Next group ticket.
    pub groups_seen: AtomicU64,
    /// Entries of the totals table in use.
    pub totals_used: AtomicU32,
    /// Histogram pages in use.
    pub pages_used: AtomicU32,
    /// Histogram counts that found no page: in totals, not in percentiles.
    pub pages_full: AtomicU64,
    /// Undo record of the fold in progress; see [`Undo`].
    pub undo: Undo,
    /// Starts of events that were not asked for (RAS can change the mask).
    pub unrequested: AtomicU64,
    /// Bytes of `process`. Stored (Release) after them.
    pub process_len: AtomicU32,
    /// Who this is, the `key=value` lines of [`crate::block::Kind::Process`].
    pub process: [AtomicU8; 2560],
    /// Number of the trace file that is written to, which `staged_base` and `staged_len` are about; stored while nothing
    /// is staged.
    pub trace_number: AtomicU32,
    /// CUDA's error that ended the timing of launches by events; 0 none.
    pub cuda_error: AtomicU32,
    /// Of the open network operations: offset of the first and how many. 0 and 0 in a live part of before there were any.
    pub net_ops: [AtomicU32; 2],
}

impl Header {
    /// Calls that NCCL announced: CollApi and P2pApi starts (Coll and P2p below ABI v5) and graph replays it showed.
    pub fn announced(&self) -> u64 {
        self.born
            .load(Acquire)
            .saturating_add(self.lost[Cause::RowsFull as usize].load(Relaxed))
    }

    /// Offset and count of each section, in the order of [`Section`].
    pub fn stored_sections(&self) -> impl Iterator<Item = &[AtomicU32; 2]> {
        self.sections.iter().chain(std::iter::once(&self.net_ops))
    }
}

/// The facts about the process, from the first [`HEADER_BYTES`] of an image: who left it is known without reading the rest.
///
/// `None` when `start` is no start of a live part of this format.
pub fn facts(start: &[u8]) -> Option<&[u8]> {
    let u32_at = |at: usize| Some(u32::from_le_bytes(start.get(at..at + 4)?.try_into().ok()?));
    let magic = start.get(offset_of!(Header, magic)..)?.get(..8)?;
    let format = u32_at(offset_of!(Header, format))?;
    if magic != MAGIC.to_le_bytes() || format != crate::FORMAT {
        return None;
    }
    let len = u32_at(offset_of!(Header, process_len))? as usize;
    let facts = start.get(offset_of!(Header, process)..offset_of!(Header, trace_number))?;
    facts.get(..len.min(facts.len()))
}

/// The state of a totals entry before the fold in progress, so that a reader can take a half-done fold back.
#[repr(C)]
#[derive(Default)]
pub struct Undo {
    /// Ticket + 1 of the row being folded; 0 when no fold is under way. Set (Release) after the other fields, cleared
    /// (Release) after the row is free.
    pub ticket: AtomicU64,
    /// The entry.
    pub entry: AtomicU32,
    /// `(histogram page + 1) << 6 | bucket`, or 0.
    pub bucket: AtomicU32,
    /// The entry's calls, timed, sum, min, max, host sum before.
    pub before: [AtomicU64; 6],
    /// The bucket's count before.
    pub bucket_before: AtomicU64,
}

/// An interned string: functions, datatypes, algorithms, protocols, kernel variants. Id 0 means none.
#[repr(C)]
pub struct Text {
    /// 0 free, 1 being written, else 2 + bytes. Stored (Release) after the bytes.
    pub len: AtomicU32,
    /// UTF-8 as NCCL gave it, cut at 44 bytes.
    pub bytes: [AtomicU8; 44],
}

/// A communicator of this process, from its init on.
#[repr(C)]
pub struct Comm {
    /// Unique in the trace file, from 1; 0 free. Stored (Release) last.
    pub uid: AtomicU32,
    /// ABI version that NCCL chose.
    pub abi: AtomicU32,
    /// NCCL's commId or commHash; 0 when not known (v1 to v3 before the first call).
    pub hash: AtomicU64,
    /// 0 when not known.
    pub nranks: AtomicU32,
    /// 0 when not known.
    pub nnodes: AtomicU32,
    /// This process's rank in it, -1 when not known.
    pub rank: AtomicU32,
    /// How many communicators with this hash, size and rank this process had before.
    pub generation: AtomicU32,
    /// CUDA device ordinal, -1 when not known.
    pub device: AtomicU32,
    /// 1 once its finalize was called.
    pub finalized: AtomicU32,
    /// Init time, ticks.
    pub t_init: AtomicU64,
    /// Finalize time, ticks; 0 while alive.
    pub t_final: AtomicU64,
    /// GPU UUID's 16 bytes where it could be asked; else 0.
    pub gpu: [AtomicU64; 2],
    /// Bytes of `name`.
    pub name_len: AtomicU32,
    /// The thread that called init.
    pub tid: AtomicU32,
    /// Name given by the program, cut at 96 bytes.
    pub name: [AtomicU8; 96],
}

/// A group of calls: what one GroupApi event brackets. A single call is a group of one.
#[repr(C)]
pub struct Group {
    /// Group ticket + 1; 0 free. Stored (Release) at birth.
    pub word: AtomicU64,
    /// Communicator of its first call (uid).
    pub comm: AtomicU32,
    /// Calls in it so far.
    pub calls: AtomicU32,
    /// GroupApi start, ticks.
    pub t_start: AtomicU64,
    /// State 24: ncclGroupEnd begun, ticks; 0 if not yet.
    pub t_closing: AtomicU64,
    /// GroupApi stop, ticks; 0 if not yet.
    pub t_stop: AtomicU64,
    /// Slot of its first row + 1.
    pub first_row: AtomicU32,
    /// Kernel launches begun.
    pub launches: AtomicU16,
    /// 1 when captured into a graph.
    pub captured: AtomicU8,
    /// Depth as NCCL gives it.
    pub depth: AtomicU8,
    /// Start and end of its newest launch, ticks.
    pub t_launch: [AtomicU64; 2],
}

/// Counts and a histogram for calls that have no row of their own, by what they were.
#[repr(C)]
pub struct Total {
    /// 0 free, 1 being claimed, 2 ready. Stored (Release) after the key.
    pub state: AtomicU32,
    /// Communicator uid.
    pub comm: AtomicU32,
    /// Count of elements per call.
    pub count: AtomicU64,
    /// Strings: function, datatype, algorithm, protocol.
    pub names: [AtomicU8; 4],
    /// [`flag`] bits that all its calls share.
    pub flags: AtomicU8,
    /// Channels.
    pub nchannels: AtomicU8,
    /// 0.
    pub spare: AtomicU16,
    /// Calls that never had a row, counted at birth by the calling thread (`fetch_add`).
    pub rowless: AtomicU64,
    /// Calls whose rows were folded, by the recorder's thread.
    pub calls: AtomicU64,
    /// Those of them with a GPU time.
    pub timed: AtomicU64,
    /// Sum, min and max of GPU durations, ns.
    pub sum: AtomicU64,
    /// See `sum`.
    pub min: AtomicU64,
    /// See `sum`.
    pub max: AtomicU64,
    /// Sum of host durations (API entry to return), ticks.
    pub host: AtomicU64,
    /// Histogram page + 1 by octave of the duration in ns; see [`bucket`].
    pub pages: [AtomicU16; 48],
}

/// 64 histogram counts.
pub type Page = [AtomicU32; 64];

/// The histogram bucket of a duration: (octave, bucket in it).
///
/// Below 64 ns buckets are 1 ns wide; above, each octave has 64 equal buckets, so a value differs from its bucket's
/// middle by at most 1/128 of itself (0.8 %).
pub fn bucket(ns: u64) -> (usize, usize) {
    let ns = ns.min((1 << 53) - 1);
    if ns < 64 {
        return (0, ns as usize);
    }
    let exponent = 63 - ns.leading_zeros() as usize;
    (exponent - 5, (ns >> (exponent - 6)) as usize & 63)
}

/// The middle of a bucket, ns.
pub fn bucket_middle(octave: usize, index: usize) -> u64 {
    if octave == 0 {
        return index as u64;
    }
    let shift = octave - 1;
    let low = (64 + index as u64) << shift;
    low + ((1u64 << shift) >> 1)
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
const _: () = assert!(std::mem::size_of::<Group>() == 64);
const _: () = assert!(std::mem::size_of::<Text>() == 48);
const _: () = assert!(std::mem::size_of::<Header>() <= HEADER_BYTES);

/// Communicators of a standard layout.
pub const COMMS: usize = 256;
/// Groups of a standard layout.
pub const GROUPS: usize = 2048;
/// Open network operations of a standard layout, at most: one for two rows.
const NET_OPS: u32 = 4096;

/// Bytes kept for the [`Header`].
pub const HEADER_BYTES: usize = 4096;

/// How many of each thing a live part holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Interned strings, at most 255.
    pub strings: u32,
    /// Communicators; a power of two.
    pub comms: u32,
    /// Groups; a power of two.
    pub groups: u32,
    /// Totals entries.
    pub totals: u32,
    /// Histogram pages.
    pub pages: u32,
    /// Rows; a power of two.
    pub rows: u32,
    /// Staging bytes.
    pub staging: u32,
    /// Open network operations; a power of two.
    pub net_ops: u32,
}

/// A section of the live part, in the header's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(usize)]
pub enum Section {
    Strings = 0,
    Comms = 1,
    Groups = 2,
    Totals = 3,
    Pages = 4,
    Rows = 5,
    Staging = 6,
    NetOps = 7,
}

/// How many sections there are.
const SECTIONS: usize = 8;

/// How sections lie one behind the other. The staging area is last, of which the end is seldom used: in a child that was
/// forked while another thread looked up a library, glibc's first look-up unmaps where ld.so.cache lay in the parent, and
/// that is where the end of a new mapping may lie.
const ORDER: [Section; SECTIONS] = [
    Section::Strings,
    Section::Comms,
    Section::Groups,
    Section::Totals,
    Section::Pages,
    Section::Rows,
    Section::NetOps,
    Section::Staging,
];

/// Bytes of one element of each section.
const ELEMENT: [usize; SECTIONS] = [
    std::mem::size_of::<Text>(),
    std::mem::size_of::<Comm>(),
    std::mem::size_of::<Group>(),
    std::mem::size_of::<Total>(),
    std::mem::size_of::<Page>(),
    std::mem::size_of::<Row>(),
    1,
    std::mem::size_of::<NetOp>(),
];

impl Layout {
    /// The largest standard layout that fits in `bytes`: rows scale, from 1024 up to 131 072.
    pub fn for_memory(bytes: usize) -> Layout {
        let mut layout = Layout {
            strings: 255,
            comms: COMMS as u32,
            groups: GROUPS as u32,
            totals: 512,
            pages: 1024,
            rows: 1024,
            staging: 256 << 10,
            net_ops: 512,
        };
        while layout.rows < 131_072 {
            let rows = layout.rows * 2;
            let larger = Layout {
                rows,
                net_ops: (rows / 2).min(NET_OPS),
                ..layout
            };
            if larger.bytes() > bytes {
                break;
            }
            layout = larger;
        }
        layout
    }

    fn counts(&self) -> [u32; SECTIONS] {
        [
            self.strings,
            self.comms,
            self.groups,
            self.totals,
            self.pages,
            self.rows,
            self.staging,
            self.net_ops,
        ]
    }

    /// Offset and count of each section.
    pub fn sections(&self) -> [[u32; 2]; SECTIONS] {
        let (mut at, counts) = (HEADER_BYTES, self.counts());
        let mut sections = [[0; 2]; SECTIONS];
        for section in ORDER {
            let (count, element) = (counts[section as usize], ELEMENT[section as usize]);
            sections[section as usize] = [at as u32, count];
            at = (at + count as usize * element).next_multiple_of(4096);
        }
        sections
    }

    /// Bytes of the whole image.
    pub fn bytes(&self) -> usize {
        let [at, count] = self.sections()[Section::Staging as usize];
        (at + count).next_multiple_of(4096) as usize
    }
}

/// A borrowed live part: the mapping of a living process, or a copy read from a file.
#[derive(Clone, Copy)]
pub struct View<'a> {
    base: *const u8,
    sections: [[u32; 2]; SECTIONS],
    _image: std::marker::PhantomData<&'a [AtomicU64]>,
}

// SAFETY: a View only hands out references to atomics.
unsafe impl Send for View<'_> {}
// SAFETY: as above.
unsafe impl Sync for View<'_> {}

macro_rules! section {
    ($(#[$doc:meta])* $name:ident, $section:ident, $type:ty) => {
        $(#[$doc])*
        #[inline]
        pub fn $name(&self) -> &'a [$type] {
            let [at, count] = self.sections[Section::$section as usize];
            // SAFETY: the constructors checked that the section lies in the image, which lives for 'a, and that offsets
            // are page aligned; every field of the element types is an atomic integer, valid for any bytes.
            unsafe { std::slice::from_raw_parts(self.base.add(at as usize).cast(), count as usize) }
        }
    };
}

impl<'a> View<'a> {
    /// Writes the layout into a zeroed image and returns its view. The caller fills in the header and stores
    /// [`MAGIC`] last.
    ///
    /// # Safety
    /// `base` points to `layout.bytes()` zeroed bytes, page aligned, that stay mapped for `'a`.
    pub unsafe fn create(base: *mut u8, layout: &Layout) -> View<'a> {
        let view = View {
            base,
            sections: layout.sections(),
            _image: std::marker::PhantomData,
        };
        let header = view.header();
        for (stored, section) in header.stored_sections().zip(view.sections) {
            stored[0].store(section[0], Relaxed);
            stored[1].store(section[1], Relaxed);
        }
        header.format.store(crate::FORMAT, Relaxed);
        header.size.store(layout.bytes() as u32, Relaxed);
        view
    }

    /// The view of an image made elsewhere.
    ///
    /// `None` when it is no live part of this format, or when its sections do not lie inside `image`.
    pub fn open(image: &'a [AtomicU64]) -> Option<View<'a>> {
        let bytes = std::mem::size_of_val(image);
        let base: *const u8 = image.as_ptr().cast();
        if bytes < HEADER_BYTES || !(base as usize).is_multiple_of(64) {
            return None;
        }
        let mut view = View {
            base,
            sections: [[0; 2]; SECTIONS],
            _image: std::marker::PhantomData,
        };
        let header = view.header();
        if header.magic.load(Acquire) != MAGIC || header.format.load(Relaxed) != crate::FORMAT {
            return None;
        }
        for (i, stored) in header.stored_sections().enumerate() {
            let (at, count) = (stored[0].load(Relaxed), stored[1].load(Relaxed));
            let end = u64::from(at) + u64::from(count) * ELEMENT[i] as u64;
            if at % 4096 != 0 || end > bytes as u64 {
                return None;
            }
            view.sections[i] = [at, count];
        }
        Some(view)
    }

    /// The header.
    #[inline]
    pub fn header(&self) -> &'a Header {
        // SAFETY: the image is at least HEADER_BYTES long and aligned (both constructors).
        unsafe { &*self.base.cast() }
    }

    section!(
        /// Interned strings; id `i` is entry `i - 1`.
        strings, Strings, Text
    );
    section!(
        /// Communicators.
        comms, Comms, Comm
    );
    section!(
        /// Groups; ticket `t` lives in entry `t % len`.
        groups, Groups, Group
    );
    section!(
        /// Totals.
        totals, Totals, Total
    );
    section!(
        /// Histogram pages.
        pages, Pages, Page
    );
    section!(
        /// Rows; ticket `t` lives in entry `t % len`.
        rows, Rows, Row
    );
    section!(
        /// Staged bytes of the trace file.
        staging, Staging, AtomicU8
    );
    section!(
        /// Open network operations; none in a live part of before there were any.
        net_ops, NetOps, NetOp
    );

    /// The string with this id, or none for id 0 and unpublished entries.
    pub fn text(&self, id: u8) -> Option<String> {
        let text = self.strings().get(usize::from(id).checked_sub(1)?)?;
        let len = (text.len.load(Acquire) as usize)
            .checked_sub(2)?
            .min(text.bytes.len());
        let bytes: Vec<u8> = text.bytes[..len].iter().map(|b| b.load(Relaxed)).collect();
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// An owned copy of a live part, 64-byte aligned.
pub struct Image {
    storage: Vec<AtomicU64>,
    skip: usize,
}

impl Image {
    /// `bytes` of zeros.
    pub fn zeroed(bytes: usize) -> Image {
        let storage: Vec<AtomicU64> = (0..bytes.div_ceil(8) + 8)
            .map(|_| AtomicU64::new(0))
            .collect();
        let skip = storage.as_ptr().align_offset(64).min(8);
        Image { storage, skip }
    }

    /// A copy of `bytes`.
    pub fn copy(bytes: &[u8]) -> Image {
        let image = Image::zeroed(bytes.len());
        image.write(0, bytes);
        image
    }

    /// Overwrites the image from byte `at` (a multiple of 8) on; what does not fit is left out.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        let Some(words) = self.words().get(at / 8..) else {
            return;
        };
        for (word, chunk) in words.iter().zip(bytes.chunks(8)) {
            let mut value = word.load(Relaxed).to_le_bytes();
            value[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(value), Relaxed);
        }
    }

    /// The words of the image.
    pub fn words(&self) -> &[AtomicU64] {
        &self.storage[self.skip..]
    }

    /// Its view, if it is a live part.
    pub fn view(&self) -> Option<View<'_>> {
        View::open(self.words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_within_one_percent() {
        for ns in (0..10_000u64).chain((0..5000).map(|i| 97 * i * i * i)) {
            let (octave, index) = bucket(ns);
            let middle = bucket_middle(octave, index);
            assert!(
                middle.abs_diff(ns) as f64 <= 0.01 * ns as f64,
                "{ns} in {octave}/{index}, middle {middle}"
            );
        }
        assert_eq!(bucket(u64::MAX).0, 47);
    }

    #[test]
    fn default_layout_fits_in_four_mebibytes() {
        let layout = Layout::for_memory(4 << 20);
        assert_eq!((layout.rows, layout.net_ops), (8192, 4096));
        assert!(layout.bytes() <= 4 << 20, "{}", layout.bytes());
    }

    #[test]
    fn an_image_opens_and_a_damaged_one_does_not() {
        let layout = Layout::for_memory(0);
        let image = Image::zeroed(layout.bytes());
        assert!(image.view().is_none());
        // SAFETY: the image is zeroed, long enough and outlives the view.
        let view = unsafe { View::create(image.words().as_ptr() as *mut u8, &layout) };
        let header = view.header();
        for (to, from) in header.process.iter().zip(b"pid=7\nhost=n") {
            to.store(*from, Relaxed);
        }
        header.process_len.store(12, Relaxed);
        let start = || -> Vec<u8> {
            let words = image.words()[..HEADER_BYTES / 8].iter();
            words.flat_map(|w| w.load(Relaxed).to_le_bytes()).collect()
        };
        assert_eq!(facts(&start()), None);
        header.magic.store(MAGIC, Relaxed);
        assert_eq!(facts(&start()), Some(&b"pid=7\nhost=n"[..]));
        assert_eq!(facts(&start()[..100]), None);
        header.process_len.store(u32::MAX, Relaxed);
        assert_eq!(facts(&start()).map(<[u8]>::len), Some(2560));
        assert_eq!(image.view().expect("opens").rows().len(), 1024);
        view.header().sections[5][1].store(u32::MAX, Relaxed);
        assert!(image.view().is_none());
    }
}

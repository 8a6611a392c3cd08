//! What lies where in a live part: its [`Header`], and the sections that a [`Layout`] sizes.
//!
//! A section begins at a multiple of 4096. A live part in use keeps room behind communicators, rows and
//! executable graphs for more of them ([`Layout::growing`]). The header says how many there are, and nobody
//! touches the room before. A copy has none ([`dense`]). `Layout::for_memory(0)`, the smallest standard
//! layout, has these:
//!
//! ```text
//!       0   Header                         872448   Network operations, 512 of 192
//!    4096   Strings, 255 of 48             970752   Executable graphs, 2048 of 64
//!   16384   Comms, 256 of 176             1101824   Graph launches, 2048 of 32
//!   61440   Groups, 2048 of 64            1167360   Staging, 262144 bytes
//!  192512   Totals, 512 of 176            1429504   the end
//!  282624   Histogram pages, 1024 of 256
//!  544768   Rows, 1024 of 320
//! ```

use super::{Cause, HistogramPage, Row, Total, Undo};
use crate::format::{Format, Stated};
use crate::graphs::{Exec, Launch};
use crate::net_op::NetOp;
use crate::rows::AtomicTicks;
use std::mem::offset_of;
use std::sync::atomic::{
    AtomicU16, AtomicU32, AtomicU64, AtomicU8,
    Ordering::{Acquire, Relaxed},
};

/// Starts a live part.
pub const MAGIC: u64 = u64::from_le_bytes(*b"NCSLIVE1");

/// The three clocks at one moment.
#[repr(C)]
#[derive(Debug, Default)]
pub struct LiveAnchor {
    /// The recorder's clock: TSC ticks, or ns of CLOCK_MONOTONIC if the TSC is not used.
    pub ticks: AtomicTicks,
    /// CLOCK_MONOTONIC, ns.
    pub monotonic: AtomicU64,
    /// CLOCK_REALTIME, ns since 1970.
    pub realtime: AtomicU64,
}

/// What a live part starts with. Sizes and offsets are fixed at creation; other fields change.
#[repr(C)]
pub struct Header {
    /// [`MAGIC`], stored last at creation (Release).
    pub magic: AtomicU64,
    /// Major number of its [format](crate::format::FORMAT).
    pub major: AtomicU16,
    /// Minor number of its format.
    pub minor: AtomicU16,
    /// Bytes of the whole image, with the room for growth.
    pub size: AtomicU32,
    /// Offset and number of strings, comms, groups, totals, pages, rows and staged bytes. The numbers of
    /// comms and rows grow, as does that of executable graphs: a number is stored (Release) after the memory
    /// is there.
    pub sections: [[AtomicU32; 2]; FIRST_SECTIONS],
    /// Random id shared with the trace file's header.
    pub trace_id: AtomicU64,
    /// The writer's pid, as the writer sees it.
    pub pid: AtomicU32,
    /// Clock of `ticks`: 0 vDSO monotonic ns, 1 TSC, 2 the aarch64 virtual counter.
    pub clock: AtomicU32,
    /// When the process started: field 22 of /proc/PID/stat. Processes with the same pid differ in it.
    pub pid_start: AtomicU64,
    /// Inode of the pid name space.
    pub pid_namespace: AtomicU64,
    /// When the live part was made.
    pub first: LiveAnchor,
    /// The newest anchor; `anchor_version` is odd while it changes.
    pub last: LiveAnchor,
    /// See `last`.
    pub anchor_version: AtomicU64,
    /// Rows born, which is the next ticket. A compare-and-swap at each birth. Calls that found no row are
    /// not in it: see [`Header::announced`].
    pub born: AtomicU64,
    /// The recorder's thread has seen all tickets below this one.
    pub drained: AtomicU64,
    /// Rows written to blocks.
    pub sealed: AtomicU64,
    /// Rows folded into the totals.
    pub folded: AtomicU64,
    /// Calls without a row, by [`Cause`].
    pub lost: [AtomicU64; 8],
    /// Callbacks without effect, by [`Odd`](super::Odd).
    pub odd: [AtomicU64; 24],
    /// Bytes of the present trace file before the staged ones.
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
    /// Times that found no histogram page free: they count in totals, not in percentiles.
    pub pages_full: AtomicU64,
    /// Undo record of the fold in progress; see [`Undo`].
    pub undo: Undo,
    /// Starts of events that the recorder did not ask for (NCCL's RAS can change the mask).
    pub unrequested: AtomicU64,
    /// Bytes of `process`. Stored (Release) after them.
    pub process_len: AtomicU32,
    /// Who this is, the `key=value` lines of [`crate::block::Kind::Process`].
    pub process: [AtomicU8; 2560],
    /// Number of the present trace file, to which `staged_base` and `staged_len` belong. Stored while
    /// nothing is staged.
    pub trace_number: AtomicU32,
    /// CUDA's error that ended the timing by CUDA events; 0 none.
    pub cuda_error: AtomicU32,
    /// Offset and number of open network operations, of executable graphs and of the newest graph launches.
    /// They are 0 in the live part of an older recorder.
    pub later_sections: [[AtomicU32; 2]; 3],
    /// Launches of CUDA graphs, which is the place of the next one in the ring of launches.
    pub graph_launches: AtomicU64,
    /// Launches that the recorder's thread has taken out of the ring.
    pub graph_launches_taken: AtomicU64,
    /// Launches that were overwritten before that: counted, without times.
    pub graph_launches_untimed: AtomicU64,
    /// Captured calls that no graph is known of: what a graph executes they may be a part of.
    pub unplaced: AtomicU32,
    /// Executable graphs with captured calls that have no entry here. They are counted elsewhere in the
    /// process and with each flush in blocks, or not at all for want of memory. 0 of the former at the end.
    pub graphs_full: AtomicU32,
    /// 0 while there are kernel windows; else why there are none, or no more:
    ///
    /// - 1: nobody asked for them.
    /// - 2: there is no CUPTI.
    /// - 3: another tool brings a CUPTI of its own.
    /// - 4: CUPTI failed.
    /// - 5: there was no memory.
    /// - 6: there is no CUDA driver.
    /// - 7: CUPTI would cost too much, because the GPU waits for its host.
    pub windows_off: AtomicU32,
    /// CUPTI's error that ended them; for 7, by how much of the time it would slow the job at most, in units
    /// of 0.01 %.
    pub windows_code: AtomicU32,
    /// Windows that were not opened because another profiler used CUPTI.
    pub windows_yielded: AtomicU32,
    /// How graph launches are seen: bits of [`crate::graphs::sight`].
    pub graph_sight: AtomicU32,
    /// Features that a reader must know; see [`crate::format`]. Both are 0 in a live part of format 1.
    pub required: AtomicU32,
    /// Features that a reader may leave out.
    pub optional: AtomicU32,
    /// Threads that are inside the plugin behind the recorder's (`NCCLSCOPE_CHAIN`).
    pub chain_inside: AtomicU32,
    /// The thread that entered that plugin last; 0 none did.
    pub chain_thread: AtomicU32,
    /// Calls for which that plugin returned an error.
    pub chain_errors: AtomicU32,
}

impl Header {
    /// Calls that NCCL announced: starts of CollApi and P2pApi (Coll and P2p below ABI v5), and graph
    /// replays.
    pub fn announced(&self) -> u64 {
        let born = self.born.load(Acquire);
        let rowless = Cause::WITHOUT_ROW.map(|cause| self.lost[cause as usize].load(Relaxed));
        rowless.into_iter().fold(born, u64::saturating_add)
    }

    /// The `key=value` lines that say who this is.
    pub fn process_text(&self) -> Vec<u8> {
        let len = (self.process_len.load(Acquire) as usize).min(self.process.len());
        let text = &self.process[..len];
        text.iter().map(|byte| byte.load(Relaxed)).collect()
    }

    /// Offset and count of each section, in the order of [`Section`].
    pub fn stored_sections(&self) -> impl Iterator<Item = &[AtomicU32; 2]> {
        self.sections.iter().chain(&self.later_sections)
    }
}

/// Fields of a [`Header`] that say who left a live part, and how far that process was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Start {
    pub trace_id: u64,
    pub pid: u32,
    pub pid_start: u64,
    pub pid_namespace: u64,
    pub born: u64,
    pub sealed: u64,
    pub folded: u64,
    /// Calls that never had a row.
    pub rowless: u64,
    pub state: u32,
    pub staged_base: u64,
    pub staged_len: u64,
    /// Of its newest anchor, ns since 1970.
    pub last_realtime: u64,
}

impl Start {
    /// As [`Header::announced`].
    pub fn announced(&self) -> u64 {
        self.born.saturating_add(self.rowless)
    }
}

/// The [`Start`] of an image from its first [`HEADER_BYTES`], and the facts about its process.
///
/// `None` if `page` is not the start of a live part of a format that this reader knows.
pub fn start(page: &[u8]) -> Option<(Start, &[u8])> {
    let u32_at = |at: usize| Some(u32::from_le_bytes(page.get(at..at + 4)?.try_into().ok()?));
    let u64_at = |at: usize| Some(u64::from_le_bytes(page.get(at..at + 8)?.try_into().ok()?));
    stated(page).filter(|stated| stated.refused().is_none())?;
    let start = Start {
        trace_id: u64_at(offset_of!(Header, trace_id))?,
        pid: u32_at(offset_of!(Header, pid))?,
        pid_start: u64_at(offset_of!(Header, pid_start))?,
        pid_namespace: u64_at(offset_of!(Header, pid_namespace))?,
        born: u64_at(offset_of!(Header, born))?,
        sealed: u64_at(offset_of!(Header, sealed))?,
        folded: u64_at(offset_of!(Header, folded))?,
        rowless: {
            let lost = |cause| u64_at(offset_of!(Header, lost) + 8 * cause as usize);
            let causes = Cause::WITHOUT_ROW.into_iter();
            causes.filter_map(lost).fold(0, u64::saturating_add)
        },
        state: u32_at(offset_of!(Header, state))?,
        staged_base: u64_at(offset_of!(Header, staged_base))?,
        staged_len: u64_at(offset_of!(Header, staged_len))?,
        last_realtime: u64_at(offset_of!(Header, last) + offset_of!(LiveAnchor, realtime))?,
    };
    let len = u32_at(offset_of!(Header, process_len))? as usize;
    let facts = page.get(offset_of!(Header, process)..offset_of!(Header, trace_number))?;
    Some((start, facts.get(..len.min(facts.len()))?))
}

/// What the first page of a live part says of its format; `None` if it is of none.
pub fn stated(page: &[u8]) -> Option<Stated> {
    let u16_at = |at: usize| Some(u16::from_le_bytes(page.get(at..at + 2)?.try_into().ok()?));
    let u32_at = |at: usize| Some(u32::from_le_bytes(page.get(at..at + 4)?.try_into().ok()?));
    let magic = page.get(offset_of!(Header, magic)..)?.get(..8)?;
    (magic == MAGIC.to_le_bytes()).then_some(Stated {
        format: Format {
            major: u16_at(offset_of!(Header, major))?,
            minor: u16_at(offset_of!(Header, minor))?,
        },
        required: u32_at(offset_of!(Header, required))?,
        optional: u32_at(offset_of!(Header, optional))?,
    })
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
    pub t_init: AtomicTicks,
    /// Finalize time, ticks; 0 while alive.
    pub t_final: AtomicTicks,
    /// The GPU's UUID, 16 bytes; 0 if it is not known.
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
    pub t_start: AtomicTicks,
    /// State 24: ncclGroupEnd begun, ticks; 0 if not yet.
    pub t_closing: AtomicTicks,
    /// GroupApi stop, ticks; 0 if not yet.
    pub t_stop: AtomicTicks,
    /// Slot of its first row + 1.
    pub first_row: AtomicU32,
    /// Kernel launches begun.
    pub launches: AtomicU16,
    /// 1 when captured into a graph.
    pub captured: AtomicU8,
    /// Depth as NCCL gives it.
    pub depth: AtomicU8,
    /// Start and end of its newest launch, ticks.
    pub t_launch: [AtomicTicks; 2],
}

const _: () = assert!(std::mem::size_of::<Group>() == 64);
const _: () = assert!(std::mem::size_of::<Text>() == 48);
const _: () = assert!(std::mem::size_of::<Header>() <= HEADER_BYTES);

/// Communicators of a standard layout.
const COMMS: u32 = 256;
/// Communicators that a growing layout has room for.
pub const MOST_COMMS: u32 = 65_536;
/// Bytes that a growing layout takes at first, at most: 8192 rows.
const FIRST: usize = 9 << 19;
/// Groups of a standard layout.
pub const GROUPS: usize = 2048;
/// Open network operations of a standard layout, at most: one for two rows.
const NET_OPS: u32 = 4096;

/// Executable graphs of a standard layout.
const GRAPHS: u32 = 2048;
/// Executable graphs that a growing layout has room for; the recorder counts further ones on its heap. A
/// serving engine with piecewise graphs has a few thousand: 33 pieces for each of 67 sizes are 2211.
pub const MOST_GRAPHS: u32 = 65_536;
/// Graph launches of a standard layout: at 50 000 launches a second, 40 ms until the recorder's thread takes
/// them.
const LAUNCHES: u32 = 2048;

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
    /// Communicators that there is room for, if more than `comms`.
    pub most_comms: u32,
    /// Rows that there is room for, if more than `rows`; a power of two.
    pub most_rows: u32,
    /// Executable graphs with captured calls.
    pub graphs: u32,
    /// Executable graphs that there is room for, if more than `graphs`.
    pub most_graphs: u32,
    /// Newest graph launches; a power of two.
    pub launches: u32,
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
    Graphs = 8,
    Launches = 9,
}

/// How many sections there are.
pub(crate) const SECTIONS: usize = 10;

/// The sections in the order of their offsets. Staging is last because its end is seldom used, and the end of
/// a mapping may go away in a forked child. That happens if another thread of the parent was looking up a
/// library at the fork. Then glibc's first look-up in the child unmaps the place that ld.so.cache had in the
/// parent, and by now the end of a new mapping may be there.
const ORDER: [Section; SECTIONS] = [
    Section::Strings,
    Section::Comms,
    Section::Groups,
    Section::Totals,
    Section::Pages,
    Section::Rows,
    Section::NetOps,
    Section::Graphs,
    Section::Launches,
    Section::Staging,
];

/// Bytes of one element of each section.
pub(crate) const ELEMENT: [usize; SECTIONS] = [
    std::mem::size_of::<Text>(),
    std::mem::size_of::<Comm>(),
    std::mem::size_of::<Group>(),
    std::mem::size_of::<Total>(),
    std::mem::size_of::<HistogramPage>(),
    std::mem::size_of::<Row>(),
    1,
    std::mem::size_of::<NetOp>(),
    std::mem::size_of::<Exec>(),
    std::mem::size_of::<Launch>(),
];

impl Layout {
    /// The largest standard layout that fits in `bytes`. It has from 1024 to 131 072 rows.
    pub fn for_memory(bytes: usize) -> Layout {
        let mut layout = Layout {
            strings: 255,
            comms: COMMS,
            groups: GROUPS as u32,
            totals: 512,
            pages: 1024,
            rows: 1024,
            staging: 256 << 10,
            net_ops: 512,
            most_comms: 0,
            most_rows: 0,
            graphs: GRAPHS,
            most_graphs: 0,
            launches: LAUNCHES,
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

    /// The layout of a recorder that may take up to `bytes`: small at first, with room for [`MOST_COMMS`],
    /// for [`MOST_GRAPHS`], and for as many rows as fit in `bytes`.
    pub fn growing(bytes: usize) -> Layout {
        Layout {
            most_comms: MOST_COMMS,
            most_graphs: MOST_GRAPHS,
            most_rows: Layout::for_memory(bytes).rows,
            ..Layout::for_memory(bytes.min(FIRST))
        }
    }

    /// The same without room for more.
    pub fn fixed(self) -> Layout {
        Layout {
            most_comms: 0,
            most_rows: 0,
            most_graphs: 0,
            ..self
        }
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
            self.graphs,
            self.launches,
        ]
    }

    /// Elements that each section has room for.
    pub fn room(&self) -> [u32; SECTIONS] {
        let mut room = self.counts();
        for (section, most) in [
            (Section::Comms, self.most_comms),
            (Section::Rows, self.most_rows),
            (Section::Graphs, self.most_graphs),
        ] {
            room[section as usize] = room[section as usize].max(most);
        }
        room
    }

    /// Offset and count of each section.
    pub fn sections(&self) -> [[u32; 2]; SECTIONS] {
        let (offsets, counts) = (place(self.room(), &ELEMENT).0, self.counts());
        std::array::from_fn(|i| [offsets[i], counts[i]])
    }

    /// Offsets and lengths, in bytes, of what there is at first: the header and the sections without their
    /// room.
    pub fn used(&self) -> impl Iterator<Item = (usize, usize)> {
        let sections = self.sections().into_iter().zip(ELEMENT);
        let sections = sections.map(|([at, n], element)| (at as usize, n as usize * element));
        std::iter::once((0, HEADER_BYTES)).chain(sections)
    }

    /// Bytes of the whole image.
    pub fn bytes(&self) -> usize {
        place(self.room(), &ELEMENT).1
    }
}

/// Offsets of sections with room for so many elements of so many bytes, and the bytes of all.
fn place(room: [u32; SECTIONS], element: &[usize; SECTIONS]) -> ([u32; SECTIONS], usize) {
    let (mut at, mut offsets) = (HEADER_BYTES, [0; SECTIONS]);
    for section in ORDER.map(|section| section as usize) {
        offsets[section] = at as u32;
        at = (at + room[section] as usize * element[section]).next_multiple_of(4096);
    }
    (offsets, at)
}

/// Where sections with so many elements lie in a copy, which has no room for more: offset and count of each,
/// and the bytes of all. `None` if that is more than a live part may have.
pub fn dense(counts: [u32; SECTIONS]) -> Option<([[u32; 2]; SECTIONS], usize)> {
    dense_of(counts, &ELEMENT)
}

/// The same, with elements of so many bytes.
pub(super) fn dense_of(
    counts: [u32; SECTIONS],
    element: &[usize; SECTIONS],
) -> Option<([[u32; 2]; SECTIONS], usize)> {
    let bytes = |(n, element): (u32, &usize)| (n as usize).saturating_mul(*element);
    let most = counts
        .into_iter()
        .zip(element)
        .map(bytes)
        .fold(0, usize::saturating_add);
    if most > MOST_BYTES {
        return None;
    }
    let (offsets, bytes) = place(counts, element);
    Some((std::array::from_fn(|i| [offsets[i], counts[i]]), bytes))
}

/// Bytes of sections at most: what is more is no live part.
const MOST_BYTES: usize = 256 << 20;

/// Makes the first page of a live part that of a copy with these sections.
pub fn relocate(page: &mut [u8], sections: &[[u32; 2]; SECTIONS], bytes: usize) {
    let mut put = |at: usize, value: u32| {
        if let Some(to) = page.get_mut(at..at + 4) {
            to.copy_from_slice(&value.to_le_bytes());
        }
    };
    put(offset_of!(Header, size), bytes as u32);
    for (i, [at, count]) in sections.iter().enumerate() {
        let stored = stored_at(i);
        put(stored, *at);
        put(stored + 4, *count);
    }
}

/// Where the header has offset and number of a section.
fn stored_at(section: usize) -> usize {
    match section.checked_sub(FIRST_SECTIONS) {
        None => offset_of!(Header, sections) + 8 * section,
        Some(later) => offset_of!(Header, later_sections) + 8 * later,
    }
}

/// Sections of the first recorders.
const FIRST_SECTIONS: usize = 7;

/// Offset and number of each section, as the first page says.
pub(crate) fn stored_in(page: &[u8]) -> Option<[[u32; 2]; SECTIONS]> {
    let u32_at = |at: usize| Some(u32::from_le_bytes(page.get(at..at + 4)?.try_into().ok()?));
    let mut sections = [[0; 2]; SECTIONS];
    for (i, section) in sections.iter_mut().enumerate() {
        *section = [u32_at(stored_at(i))?, u32_at(stored_at(i) + 4)?];
    }
    Some(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_layout_is_as_in_the_example() {
        let layout = Layout::for_memory(0);
        let sections = layout.sections();
        let first = ORDER.map(|section| sections[section as usize]);
        let expected = [
            [4096, 255],
            [16384, 256],
            [61440, 2048],
            [192512, 512],
            [282624, 1024],
            [544768, 1024],
            [872448, 512],
            [970752, 2048],
            [1101824, 2048],
            [1167360, 262144],
        ];
        assert_eq!((first, layout.bytes()), (expected, 1429504));
    }

    #[test]
    fn a_growing_layout_takes_no_more_at_first_and_a_copy_has_no_room() {
        let (small, growing) = (Layout::for_memory(FIRST), Layout::growing(64 << 20));
        assert_eq!(growing.fixed(), small);
        assert_eq!((growing.most_comms, growing.most_rows), (65_536, 131_072));
        let used = |layout: Layout| layout.used().map(|(_, bytes)| bytes).sum::<usize>();
        assert_eq!(used(growing), used(small));
        assert!(growing.bytes() > 40 << 20);
        let counts = growing.sections().map(|[_, count]| count);
        assert_eq!(dense(counts), Some((small.sections(), small.bytes())));
        assert_eq!(dense([u32::MAX; SECTIONS]), None);
        let mut page = vec![7; HEADER_BYTES];
        relocate(&mut page, &small.sections(), small.bytes());
        assert_eq!(stored_in(&page), Some(small.sections()));
    }

    #[test]
    fn a_growing_layout_begins_with_8192_rows_and_little_more_than_four_mebibytes() {
        let layout = Layout::growing(64 << 20).fixed();
        assert_eq!((layout.rows, layout.net_ops), (8192, 4096));
        assert_eq!(layout.bytes(), 4_411_392);
    }
}

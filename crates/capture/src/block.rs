//! Trace files: a header, then checksummed blocks.
//!
//! ```text
//! file header, 40 bytes
//!   0  "NCSTRACE"   8  format: major u16, minor u16   12  header bytes u32 (40)   16  trace id u64
//!   24  required features u32   28  optional features u32   32  crc32 of the bytes before, u32   36  0
//! block header, 24 bytes, each block padded to 8 bytes
//!   0  "NCSB"   4  kind u16   6  major number of the format u16   8  block number u32
//!   12  payload bytes u32   16  crc32 of payload u32   20  crc32 of bytes 0..20 u32
//! ```
//!
//! Each block says its format, so that it can be read if the file's header is damaged. Block numbers count
//! from 0, so a hole or a repeated block shows. The header has a checksum of its own: a damaged payload loses
//! one block, and a damaged header is stepped over by looking for the next `NCSB`.

use crate::format::{is_known, Format, Refused, Stated, FORMAT};

/// Starts a trace file.
pub const FILE_MAGIC: [u8; 8] = *b"NCSTRACE";
/// Starts a block.
pub const BLOCK_MAGIC: [u8; 4] = *b"NCSB";
/// Bytes of a file header.
pub const FILE_HEADER: usize = 40;
/// Bytes of a block header.
pub const BLOCK_HEADER: usize = 24;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum BlockKind {
    /// Who wrote the file: `key=value` lines, UTF-8.
    Process = 1,
    /// Communicators and strings, as [`crate::rows::definitions`].
    Definitions = 2,
    /// Finished calls, as [`crate::rows`].
    Rows = 3,
    /// A clock anchor, as [`crate::live::Anchor`]: three u64.
    Anchor = 4,
    /// Every callback with all its fields, as [`crate::callback`].
    Callbacks = 5,
    /// The recorder's thread has written all that there was; more may follow if NCCL starts again.
    End = 6,
    /// What earlier trace files held that are removed, as [`crate::rotated::Rotated`]; the first block of all
    /// trace files but a process's first.
    Rotated = 7,
    /// CUDA graphs: what they execute and how often, as [`crate::graphs`].
    Graphs = 8,
    /// Launches of CUDA graphs one by one, as [`crate::graphs::put_launches`].
    Launches = 9,
    /// Kernel windows, as [`crate::windows::Window`].
    Windows = 10,
    /// Names of kernels, as [`crate::windows::put_name`].
    Names = 11,
    /// What ran on a GPU in a window, as [`crate::windows::put_activities`].
    GpuActivities = 12,
    /// What the driver was asked for in a window, as [`crate::windows::put_driver_calls`].
    DriverCalls = 13,
    /// What the network did for calls in totals, as [`crate::net_totals`].
    NetTotals = 14,
    /// Who called NCCL: frames and stacks, as [`crate::stacks`].
    Stacks = 15,
    /// What the node sampler's numbers are of, as [`crate::samples`].
    Series = 16,
    /// Figures of a node over time, as [`crate::samples`].
    Samples = 17,
    /// What NCCL said about its set-up, and how long the recorder's own took: lines of text.
    Setup = 18,
    /// When threads were off their CPUs, as [`crate::switches`].
    Switches = 19,
    /// Time in MPI, as [`crate::mpi`].
    Mpi = 20,
}

impl BlockKind {
    /// The kind with this number, if this format has it.
    pub fn from_u16(kind: u16) -> Option<BlockKind> {
        use BlockKind::*;
        let kinds = [
            Process,
            Definitions,
            Rows,
            Anchor,
            Callbacks,
            End,
            Rotated,
            Graphs,
            Launches,
            Windows,
            Names,
            GpuActivities,
            DriverCalls,
            NetTotals,
            Stacks,
            Series,
            Samples,
            Setup,
            Switches,
            Mpi,
        ];
        kinds.into_iter().find(|k| *k as u16 == kind)
    }
}

/// The file header for `trace_id`.
pub fn file_header(trace_id: u64) -> [u8; FILE_HEADER] {
    let mut header = [0; FILE_HEADER];
    header[..8].copy_from_slice(&FILE_MAGIC);
    header[8..10].copy_from_slice(&FORMAT.major.to_le_bytes());
    header[10..12].copy_from_slice(&FORMAT.minor.to_le_bytes());
    header[12..16].copy_from_slice(&(FILE_HEADER as u32).to_le_bytes());
    header[16..24].copy_from_slice(&trace_id.to_le_bytes());
    // No features yet.
    let crc = crc32fast::hash(&header[..FILE_HEADER - 8]);
    header[FILE_HEADER - 8..FILE_HEADER - 4].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Reserves a block header in `out`; the payload is appended after it and [`finish`] fills the header in.
pub fn begin(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.resize(start + BLOCK_HEADER, 0);
    start
}

/// Completes the block begun at `start`: header, checksums and padding.
pub fn finish(out: &mut Vec<u8>, start: usize, kind: BlockKind, number: u32) {
    complete(out, start, kind as u16, FORMAT.major, number);
}

/// Appends a block with this payload and the header of another one, whatever its kind and format.
pub fn put_like(out: &mut Vec<u8>, other: &Block<'_>, payload: &[u8]) {
    let start = begin(out);
    out.extend_from_slice(payload);
    complete(out, start, other.kind, other.major, other.number);
}

fn complete(out: &mut Vec<u8>, start: usize, kind: u16, major: u16, number: u32) {
    let payload = start + BLOCK_HEADER;
    let crc = crc32fast::hash(&out[payload..]);
    let len = (out.len() - payload) as u32;
    let header = &mut out[start..payload];
    header[..4].copy_from_slice(&BLOCK_MAGIC);
    header[4..6].copy_from_slice(&kind.to_le_bytes());
    header[6..8].copy_from_slice(&major.to_le_bytes());
    header[8..12].copy_from_slice(&number.to_le_bytes());
    header[12..16].copy_from_slice(&len.to_le_bytes());
    header[16..20].copy_from_slice(&crc.to_le_bytes());
    let header_crc = crc32fast::hash(&header[..20]);
    header[20..24].copy_from_slice(&header_crc.to_le_bytes());
    while !(out.len() - start).is_multiple_of(8) {
        out.push(0);
    }
}

/// Why a stretch of a trace file could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The file is shorter than its header, or the header's checksum is wrong.
    FileHeader,
    /// The file is of a format that this reader does not know, or needs features that it does not know.
    Format {
        /// What was found.
        found: Refused,
    },
    /// The file has optional features that this reader does not know. The rest is read.
    Features {
        /// A bit each.
        unknown: u32,
    },
    /// No block header where one was due; `bytes` were skipped.
    Skipped {
        /// Offset in the file.
        at: u64,
        /// Length of the stretch.
        bytes: u64,
    },
    /// A block's payload does not match its checksum.
    Payload {
        /// Offset of the block.
        at: u64,
        /// Its number.
        number: u32,
        /// What it held, if known.
        kind: u16,
    },
    /// The file ends inside a block.
    Truncated {
        /// Offset of the block.
        at: u64,
    },
    /// Block numbers jump: `count` blocks are not there.
    Missing {
        /// First missing number.
        first: u32,
        /// How many.
        count: u32,
    },
}

/// A block whose checksums are right.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// What it holds; unknown kinds are passed on for the caller to skip.
    pub kind: u16,
    /// Major number of its format, which is one that this reader knows.
    pub major: u16,
    /// Its number in the file.
    pub number: u32,
    /// Its content.
    pub payload: &'a [u8],
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("2 bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

/// A well-formed block header.
struct Header {
    kind: u16,
    major: u16,
    number: u32,
    len: usize,
    crc: u32,
}

fn header_at(bytes: &[u8], at: usize) -> Option<Header> {
    let header = bytes.get(at..at + BLOCK_HEADER)?;
    if header[..4] != BLOCK_MAGIC || crc32fast::hash(&header[..20]) != u32_at(header, 20) {
        return None;
    }
    Some(Header {
        kind: u16_at(header, 4),
        // Format 1 had 0 here.
        major: u16_at(header, 6).max(1),
        number: u32_at(header, 8),
        len: u32_at(header, 12) as usize,
        crc: u32_at(header, 16),
    })
}

/// What the header of a trace file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Random, the same in the live part.
    pub trace_id: u64,
    /// The format and its features.
    pub stated: Stated,
    /// Bytes of the header: blocks begin behind it.
    pub bytes: usize,
}

/// The header of a trace file.
///
/// # Errors
/// [`Damage::FileHeader`] or [`Damage::Format`].
pub fn read_header(bytes: &[u8]) -> Result<FileHeader, Damage> {
    let damaged = Damage::FileHeader;
    let fixed = bytes.get(..HEADER_1).ok_or(damaged.clone())?;
    let len = u32_at(fixed, 12) as usize;
    let is_length = (HEADER_1..=MOST_HEADER).contains(&len) && len.is_multiple_of(8);
    if fixed[..8] != FILE_MAGIC || !is_length {
        return Err(damaged);
    }
    let header = bytes.get(..len).ok_or(damaged.clone())?;
    if crc32fast::hash(&header[..len - 8]) != u32_at(header, len - 8) {
        return Err(damaged);
    }
    let mut stated = Stated {
        format: Format {
            major: u16_at(header, 8),
            minor: u16_at(header, 10),
        },
        ..Stated::default()
    };
    if len >= FILE_HEADER {
        (stated.required, stated.optional) = (u32_at(header, 24), u32_at(header, 28));
    }
    match stated.refused() {
        Some(found) => Err(Damage::Format { found }),
        None => Ok(FileHeader {
            trace_id: u64::from_le_bytes(header[16..24].try_into().expect("8 bytes")),
            stated,
            bytes: len,
        }),
    }
}

/// Bytes of format 1's header, which is the shortest, and of the longest that is believed.
const HEADER_1: usize = 32;
const MOST_HEADER: usize = 4096;

/// The trace id in a file header.
///
/// # Errors
/// As [`read_header`].
pub fn trace_id(bytes: &[u8]) -> Result<u64, Damage> {
    read_header(bytes).map(|header| header.trace_id)
}

/// Hands every sound block of a trace file to `each`, and every damaged stretch to `damaged`.
///
/// A block seen twice (a crash between a write and its bookkeeping) is handed out once.
pub fn read<'a>(bytes: &'a [u8], each: impl FnMut(Block<'a>), damaged: impl FnMut(Damage)) {
    read_on(bytes, &mut 0, each, damaged);
}

/// As [`read`], for a file that should begin with block `next_number`. Afterwards that is the number with
/// which the next file begins.
pub fn read_on<'a>(
    bytes: &'a [u8],
    next_number: &mut u32,
    each: impl FnMut(Block<'a>),
    mut damaged: impl FnMut(Damage),
) {
    let at = match read_header(bytes) {
        Ok(header) => {
            let unknown = header.stated.unknown();
            if unknown != 0 {
                damaged(Damage::Features { unknown });
            }
            header.bytes
        }
        Err(damage @ Damage::Format { .. }) => return damaged(damage),
        Err(damage) => {
            damaged(damage);
            0
        }
    };
    blocks_from(bytes, at, true, next_number, each, damaged);
}

/// Blocks of a file that is being written, a stretch of it after the other.
///
/// A block that is not whole yet is left for the next stretch, and is no damage.
#[derive(Clone, Debug, Default)]
pub struct Growing {
    /// Where the next stretch begins: an offset in the file.
    pub at: u64,
    /// The number of the next block.
    pub next_number: u32,
    /// The file is of a format that is not known, so no more of it is read.
    pub refused: bool,
}

impl Growing {
    /// Hands the sound blocks of `bytes` to `each`. They are what the file has from [`Growing::at`] on, or
    /// the beginning of that. Returns how many bytes were dealt with; 0 if there is not one whole block.
    pub fn read<'a>(
        &mut self,
        bytes: &'a [u8],
        each: impl FnMut(Block<'a>),
        mut damaged: impl FnMut(Damage),
    ) -> usize {
        let mut from = 0;
        if self.at == 0 {
            if bytes.len() < HEADER_1 {
                return 0;
            }
            match read_header(bytes) {
                Ok(header) => {
                    let unknown = header.stated.unknown();
                    if unknown != 0 {
                        damaged(Damage::Features { unknown });
                    }
                    from = header.bytes;
                }
                Err(damage) => {
                    self.refused = matches!(damage, Damage::Format { .. });
                    damaged(damage);
                }
            }
        }
        let mut refused = self.refused;
        let end = if refused {
            bytes.len()
        } else {
            blocks_from(bytes, from, false, &mut self.next_number, each, |damage| {
                refused |= matches!(damage, Damage::Format { .. });
                damaged(damage);
            })
        };
        self.refused = refused;
        self.at += end as u64;
        end
    }
}

/// Hands out the blocks of `bytes` from `at` on. Returns where the first block is that is not whole: the end,
/// if `is_end` says that nothing can follow.
fn blocks_from<'a>(
    bytes: &'a [u8],
    mut at: usize,
    is_end: bool,
    next_number: &mut u32,
    mut each: impl FnMut(Block<'a>),
    mut damaged: impl FnMut(Damage),
) -> usize {
    let mut skipped_from = None;
    while at < bytes.len() {
        let Some(header) = header_at(bytes, at) else {
            if bytes.len() - at < BLOCK_HEADER && skipped_from.is_none() {
                if is_end && bytes[at..].iter().any(|b| *b != 0) {
                    damaged(Damage::Truncated { at: at as u64 });
                }
                return at;
            }
            skipped_from.get_or_insert(at);
            // Blocks start at multiples of 8.
            at += 8;
            continue;
        };
        if let Some(from) = skipped_from.take() {
            damaged(Damage::Skipped {
                at: from as u64,
                bytes: (at - from) as u64,
            });
        }
        let Header {
            kind,
            major,
            number,
            len,
            crc,
        } = header;
        if !is_known(major) {
            let found = Refused::Format(Format { major, minor: 0 });
            damaged(Damage::Format { found });
            return bytes.len();
        }
        let start = at + BLOCK_HEADER;
        let Some(payload) = bytes.get(start..start.saturating_add(len)) else {
            // A wrong length can't be here (the header's checksum is right), so nothing can follow.
            if is_end {
                damaged(Damage::Truncated { at: at as u64 });
            }
            return at;
        };
        if number >= *next_number {
            if number > *next_number {
                damaged(Damage::Missing {
                    first: *next_number,
                    count: number - *next_number,
                });
            }
            *next_number = number.saturating_add(1);
            if crc32fast::hash(payload) == crc {
                each(Block {
                    kind,
                    major,
                    number,
                    payload,
                });
            } else {
                damaged(Damage::Payload {
                    at: at as u64,
                    number,
                    kind,
                });
            }
        }
        at = start + len;
        at += (8 - (at - (start - BLOCK_HEADER)) % 8) % 8;
    }
    if let Some(from) = skipped_from {
        damaged(Damage::Skipped {
            at: from as u64,
            bytes: (bytes.len() - from) as u64,
        });
    }
    at.min(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Vec<u8> {
        let mut out = file_header(7).to_vec();
        for number in 0..5u32 {
            let start = begin(&mut out);
            out.extend((0..number * 11).map(|i| i as u8));
            finish(&mut out, start, BlockKind::Rows, number);
        }
        out
    }

    fn blocks(bytes: &[u8]) -> (Vec<u32>, Vec<Damage>) {
        let (mut sound, mut damage) = (Vec::new(), Vec::new());
        read(bytes, |b| sound.push(b.number), |d| damage.push(d));
        (sound, damage)
    }

    #[test]
    fn sound_file_reads_back_whole() {
        assert_eq!(blocks(&sample()), (vec![0, 1, 2, 3, 4], vec![]));
        assert_eq!(trace_id(&sample()), Ok(7));
    }

    #[test]
    fn damaged_payload_loses_one_block() {
        let mut bytes = sample();
        let second = FILE_HEADER + BLOCK_HEADER + BLOCK_HEADER + 3;
        bytes[second] ^= 1;
        let (sound, damage) = blocks(&bytes);
        assert_eq!(sound, [0, 2, 3, 4]);
        assert!(matches!(damage[..], [Damage::Payload { number: 1, .. }]));
    }

    #[test]
    fn damaged_header_is_stepped_over() {
        let mut bytes = sample();
        bytes[FILE_HEADER + BLOCK_HEADER + 12] ^= 0xff;
        let (sound, damage) = blocks(&bytes);
        assert_eq!(sound, [0, 2, 3, 4]);
        assert!(matches!(
            damage[..],
            [
                Damage::Skipped { .. },
                Damage::Missing { first: 1, count: 1 }
            ]
        ));
    }

    #[test]
    fn repeated_block_counts_once() {
        let mut bytes = sample();
        let repeat = bytes[FILE_HEADER..].to_vec();
        bytes.extend(repeat);
        assert_eq!(blocks(&bytes).0, [0, 1, 2, 3, 4]);
    }

    /// The sample with some bytes of its file header changed, and its checksum set right.
    fn stating(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let mut bytes = sample();
        change(&mut bytes);
        let crc = crc32fast::hash(&bytes[..32]);
        bytes[32..36].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    #[test]
    fn a_newer_major_number_is_named_and_a_minor_one_is_read() {
        let newer = stating(|bytes| bytes[8] = 9);
        let found = Refused::Format(Format { major: 9, minor: 0 });
        assert_eq!(blocks(&newer), (vec![], vec![Damage::Format { found }]));
        let minor = stating(|bytes| bytes[10] = 7);
        assert_eq!(blocks(&minor), (vec![0, 1, 2, 3, 4], vec![]));
        assert_eq!(
            read_header(&minor)
                .expect("known")
                .stated
                .format
                .to_string(),
            "2.7"
        );
    }

    #[test]
    fn a_required_feature_is_refused_and_an_optional_one_is_told() {
        let required = stating(|bytes| bytes[24] = 4);
        let found = Refused::Features(FORMAT, 4);
        assert_eq!(blocks(&required), (vec![], vec![Damage::Format { found }]));
        let optional = stating(|bytes| bytes[29] = 1);
        let told = vec![Damage::Features { unknown: 1 << 8 }];
        assert_eq!(blocks(&optional), (vec![0, 1, 2, 3, 4], told));
    }

    #[test]
    fn a_longer_header_is_stepped_over() {
        let mut bytes = sample()[..36].to_vec();
        bytes[12] = 48;
        bytes.truncate(32);
        bytes.extend([1, 2, 3, 4, 5, 6, 7, 8]);
        let crc = crc32fast::hash(&bytes);
        bytes.extend(crc.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(&sample()[FILE_HEADER..]);
        assert_eq!(blocks(&bytes), (vec![0, 1, 2, 3, 4], vec![]));
    }

    #[test]
    fn a_block_says_its_format_if_the_file_can_not() {
        let mut bytes = sample();
        bytes[0] ^= 1;
        bytes[FILE_HEADER + 6] = 3;
        let header = FILE_HEADER..FILE_HEADER + 20;
        let crc = crc32fast::hash(&bytes[header.clone()]);
        bytes[header.end..header.end + 4].copy_from_slice(&crc.to_le_bytes());
        let found = Refused::Format(Format { major: 3, minor: 0 });
        assert_eq!(blocks(&bytes).1.last(), Some(&Damage::Format { found }));
    }

    proptest! {
        #[test]
        fn truncated_anywhere_keeps_the_blocks_before(cut in 0usize..500) {
            let bytes = sample();
            let cut = cut.min(bytes.len());
            let (sound, _) = blocks(&bytes[..cut]);
            let whole: Vec<u32> = (0..sound.len() as u32).collect();
            prop_assert_eq!(sound, whole);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..400),
            flips in prop::collection::vec((0usize..500, any::<u8>()), 0..5)) {
            let _ = blocks(&bytes);
            let mut damaged = sample();
            for (at, xor) in flips {
                let n = damaged.len();
                damaged[at % n] ^= xor;
            }
            let _ = blocks(&damaged);
        }
    }
}

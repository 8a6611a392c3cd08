//! Trace files: a header, then checksummed blocks.
//!
//! ```text
//! file header, 32 bytes
//!   0  "NCSTRACE"   8  format u32   12  header bytes u32 (32)   16  trace id u64   24  crc32 of bytes 0..24, u32   28  0
//! block header, 24 bytes, each block padded to 8 bytes
//!   0  "NCSB"   4  kind u16   6  0 u16   8  block number u32   12  payload bytes u32   16  crc32 of payload u32   20  crc32 of bytes 0..20 u32
//! ```
//!
//! Block numbers count from 0, so a hole or a repeated block shows. The header has a checksum of its own: a damaged
//! payload loses one block, and a damaged header is stepped over by looking for the next `NCSB`.

/// Starts a trace file.
pub const FILE_MAGIC: [u8; 8] = *b"NCSTRACE";
/// Starts a block.
pub const BLOCK_MAGIC: [u8; 4] = *b"NCSB";
/// Bytes of a file header.
pub const FILE_HEADER: usize = 32;
/// Bytes of a block header.
pub const BLOCK_HEADER: usize = 24;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
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
    /// What earlier trace files held that are removed, as [`crate::rotated::Rotated`]; the first block of all trace files
    /// but a process's first.
    Rotated = 7,
    /// CUDA graphs: what they execute and how often, as [`crate::graphs`].
    Graphs = 8,
    /// Launches of CUDA graphs one by one, as [`crate::graphs::put_launches`].
    Launches = 9,
    /// Kernel windows, as [`crate::windows::Window`].
    Windows = 10,
    /// Names of kernels, as [`crate::windows::put_name`].
    Names = 11,
    /// What ran on a GPU in a window, as [`crate::windows::put_ran`].
    Ran = 12,
    /// What the driver was asked for in a window, as [`crate::windows::put_asked`].
    Asked = 13,
    /// What the network did for calls in totals, as [`crate::net_totals`].
    NetTotals = 14,
}

impl Kind {
    /// The kind with this number, if this format has it.
    pub fn from_u16(kind: u16) -> Option<Kind> {
        use Kind::*;
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
            Ran,
            Asked,
            NetTotals,
        ];
        kinds.into_iter().find(|k| *k as u16 == kind)
    }
}

/// The file header for `trace_id`.
pub fn file_header(trace_id: u64) -> [u8; FILE_HEADER] {
    let mut header = [0; FILE_HEADER];
    header[..8].copy_from_slice(&FILE_MAGIC);
    header[8..12].copy_from_slice(&crate::FORMAT.to_le_bytes());
    header[12..16].copy_from_slice(&(FILE_HEADER as u32).to_le_bytes());
    header[16..24].copy_from_slice(&trace_id.to_le_bytes());
    let crc = crc32fast::hash(&header[..24]);
    header[24..28].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Reserves a block header in `out`; the payload is appended after it and [`finish`] fills the header in.
pub fn begin(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.resize(start + BLOCK_HEADER, 0);
    start
}

/// Completes the block begun at `start`: header, checksums and padding.
pub fn finish(out: &mut Vec<u8>, start: usize, kind: Kind, number: u32) {
    let payload = start + BLOCK_HEADER;
    let crc = crc32fast::hash(&out[payload..]);
    let len = (out.len() - payload) as u32;
    let header = &mut out[start..payload];
    header[..4].copy_from_slice(&BLOCK_MAGIC);
    header[4..6].copy_from_slice(&(kind as u16).to_le_bytes());
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
    /// The file names a format that this reader does not know.
    Format {
        /// The format found.
        found: u32,
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
    /// Its number in the file.
    pub number: u32,
    /// Its content.
    pub payload: &'a [u8],
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

/// A well-formed block header: (kind, number, payload bytes, payload checksum).
fn header_at(bytes: &[u8], at: usize) -> Option<(u16, u32, usize, u32)> {
    let header = bytes.get(at..at + BLOCK_HEADER)?;
    if header[..4] != BLOCK_MAGIC || crc32fast::hash(&header[..20]) != u32_at(header, 20) {
        return None;
    }
    let kind = u16::from_le_bytes([header[4], header[5]]);
    Some((
        kind,
        u32_at(header, 8),
        u32_at(header, 12) as usize,
        u32_at(header, 16),
    ))
}

/// The trace id in a file header.
///
/// # Errors
/// [`Damage::FileHeader`] or [`Damage::Format`].
pub fn trace_id(bytes: &[u8]) -> Result<u64, Damage> {
    let header = bytes.get(..FILE_HEADER).ok_or(Damage::FileHeader)?;
    if header[..8] != FILE_MAGIC || crc32fast::hash(&header[..24]) != u32_at(header, 24) {
        return Err(Damage::FileHeader);
    }
    match u32_at(header, 8) {
        crate::FORMAT => Ok(u64::from_le_bytes(
            header[16..24].try_into().expect("8 bytes"),
        )),
        found => Err(Damage::Format { found }),
    }
}

/// Hands every sound block of a trace file to `each`, and every damaged stretch to `damaged`.
///
/// A block seen twice (a crash between a write and its bookkeeping) is handed out once.
pub fn read<'a>(bytes: &'a [u8], each: impl FnMut(Block<'a>), damaged: impl FnMut(Damage)) {
    read_on(bytes, &mut 0, each, damaged);
}

/// As [`read`], for a file whose first block should have the number `next_number`, which is then that of the next file's.
pub fn read_on<'a>(
    bytes: &'a [u8],
    next_number: &mut u32,
    mut each: impl FnMut(Block<'a>),
    mut damaged: impl FnMut(Damage),
) {
    let mut at = match trace_id(bytes) {
        Ok(_) => FILE_HEADER,
        Err(damage @ Damage::Format { .. }) => return damaged(damage),
        Err(damage) => {
            damaged(damage);
            0
        }
    };
    let mut skipped_from = None;
    while at < bytes.len() {
        let Some((kind, number, len, crc)) = header_at(bytes, at) else {
            if bytes.len() - at < BLOCK_HEADER && skipped_from.is_none() {
                if bytes[at..].iter().any(|b| *b != 0) {
                    damaged(Damage::Truncated { at: at as u64 });
                }
                return;
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
        let start = at + BLOCK_HEADER;
        let Some(payload) = bytes.get(start..start.saturating_add(len)) else {
            damaged(Damage::Truncated { at: at as u64 });
            // A wrong length can't be here (the header's checksum is right), so nothing can follow.
            return;
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
            finish(&mut out, start, Kind::Rows, number);
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

    #[test]
    fn other_format_is_named() {
        let mut bytes = sample();
        bytes[8] = 9;
        let crc = crc32fast::hash(&bytes[..24]);
        bytes[24..28].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(blocks(&bytes), (vec![], vec![Damage::Format { found: 9 }]));
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
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), flips in prop::collection::vec((0usize..500, any::<u8>()), 0..5)) {
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

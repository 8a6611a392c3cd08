//! Format 1: what a reader does differently for files that recorders before format 2 left. It is never
//! written.
//!
//! - A block of rows does not say how many columns it has ([`SHAPE_COLUMNS`], [`row_columns`]).
//! - One pair of fields held the GPU times of both sources ([`times`]). Of NCCL's stamps it was as in
//!   format 2. Of CUDA events, the first was the start in ticks, and the second the first plus the
//!   nanoseconds between the events.
//! - A row of the live part had 256 bytes, and an executable graph 128 ([`upgrade`]).
//! - The record of an executable graph had two numbers more, which nobody wrote ([`executable`]).
//!
//! Rule: what is read here is made into what format 2 would have, at once. So nothing else knows of format 1.

use crate::format::FORMAT;
use crate::graphs::{Exec, Executable};
use crate::live::{self, part, Header, Image, Row, Section, HEADER_BYTES};
use crate::rows::{GpuTime, Sealed, Ticks};
use crate::varint::Reader;
use std::mem::{offset_of, size_of};

/// Columns of a shape.
pub(crate) const SHAPE_COLUMNS: u64 = 14;

/// Columns of rows: a block ended with the last one that had a value, but had these.
const COLUMNS: std::ops::RangeInclusive<u64> = 31..=34;

/// How many columns of `n` values follow, up to the end of the payload.
pub(crate) fn row_columns(mut reader: Reader, n: usize) -> Option<u64> {
    let mut there = 0;
    while reader.remaining() > 0 {
        reader.skip_column(n)?;
        there += 1;
    }
    COLUMNS.contains(&there).then_some(there)
}

/// Puts the GPU times of a row where they belong. They were decoded as NCCL's stamps.
pub(crate) fn times(row: &mut Sealed, parts: u16) {
    if parts & part::EVENTS == 0 {
        return;
    }
    let (start, stop) = (row.stamp_start.0, row.stamp_stop.0);
    (row.stamp_start, row.stamp_stop) = (GpuTime(0), GpuTime(0));
    (row.event_start, row.event_ns) = events(start, stop);
}

/// Start in ticks and length in ns; 0 and 0 if they are not known.
fn events(start: u64, stop: u64) -> (Ticks, u64) {
    if start == 0 || stop == 0 {
        (Ticks(0), 0)
    } else {
        (Ticks(start), stop.wrapping_sub(start))
    }
}

/// An executable graph, behind its tag.
pub(crate) fn executable(reader: &mut Reader) -> Option<Executable> {
    let found = Executable::read(reader)?;
    let (_completed, _completed_at) = (reader.get()?, reader.get()?);
    Some(found)
}

/// Bytes of one element of each section of a live part.
pub(crate) const ELEMENT: [usize; live::SECTIONS] = {
    let mut element = live::ELEMENT;
    element[Section::Rows as usize] = ROW;
    element[Section::Graphs as usize] = EXEC;
    element
};
const ROW: usize = 256;
const EXEC: usize = 128;

/// Where the fields of a row were, and where they are: both offsets, and how many bytes.
const MOVED: [(usize, usize, usize); 11] = [
    // Line A, and line B up to the names.
    (0, 0, 111),
    (111, offset_of!(Row, parts), 1),
    (112, offset_of!(Row, nchannels), 1),
    (113, offset_of!(Row, nwarps), 1),
    (114, offset_of!(Row, ce_batches), 2),
    (116, offset_of!(Row, event), 4),
    (120, offset_of!(Row, send_buffer), 8),
    // Line C: stamps, channels, verdict and phases.
    (128, offset_of!(Row, stamp_start), 48),
    (176, offset_of!(Row, recv_buffer), 8),
    (184, offset_of!(Row, event_error), 4),
    (192, offset_of!(Row, ops_started), 64),
];

/// The bytes of a row as they are in format 2.
fn row(old: &[u8]) -> [u8; size_of::<Row>()] {
    let mut new = [0; size_of::<Row>()];
    for (from, to, bytes) in MOVED {
        new[to..to + bytes].copy_from_slice(&old[from..from + bytes]);
    }
    if u16::from(old[111]) & part::EVENTS != 0 {
        let at = |at: usize| u64::from_le_bytes(old[at..at + 8].try_into().expect("8 bytes"));
        let (start, ns) = events(at(128), at(136));
        let mut put = |at: usize, value: u64| new[at..at + 8].copy_from_slice(&value.to_le_bytes());
        put(offset_of!(Row, stamp_start), 0);
        put(offset_of!(Row, stamp_stop), 0);
        put(offset_of!(Row, event_start), start.0);
        put(offset_of!(Row, event_ns), ns);
    }
    new
}

/// Makes the first page of a live part one of format 2. All fields of the header stayed where they were.
pub(crate) fn upgrade_page(page: &mut [u8]) {
    let major = &mut page[offset_of!(Header, major)..][..2];
    if major == 1u16.to_le_bytes() {
        major.copy_from_slice(&FORMAT.major.to_le_bytes());
    }
}

/// The live part of an image of format 1 as one of format 2, and its bytes. `None` if its sections do not lie
/// in the image.
pub(crate) fn upgrade(old: &[u8]) -> Option<(Image, usize)> {
    let mut page = old.get(..HEADER_BYTES)?.to_vec();
    let stored = live::stored_in(&page)?;
    let (sections, bytes) = live::dense(stored.map(|[_, count]| count))?;
    let image = Image::zeroed(bytes);
    live::relocate(&mut page, &sections, bytes);
    upgrade_page(&mut page);
    image.write(0, &page);
    for (section, ([from, count], [to, _])) in stored.into_iter().zip(sections).enumerate() {
        let (from, to, count) = (from as usize, to as usize, count as usize);
        let content = old.get(from..from.checked_add(count * ELEMENT[section])?)?;
        if section == Section::Rows as usize {
            for (index, bytes) in content.chunks_exact(ROW).enumerate() {
                image.write(to + index * size_of::<Row>(), &row(bytes));
            }
        } else if section == Section::Graphs as usize {
            for (index, bytes) in content.chunks_exact(EXEC).enumerate() {
                let kept = &bytes[..size_of::<Exec>()];
                image.write(to + index * size_of::<Exec>(), kept);
            }
        } else {
            image.write(to, content);
        }
    }
    Some((image, bytes))
}

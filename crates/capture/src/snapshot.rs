//! Snapshots: the live part as of the last flush, in a file that two writers' turns can't tear.
//!
//! ```text
//! slots of 64 KiB << class: those of class c start at 128 KiB x (2^c - 1), two of them, written in turn
//! by sequence number; a snapshot goes into the smallest class that holds it, and the sound one with the
//! highest sequence counts
//!   0 "NCSSNAP1"  8 sequence u64  16 image bytes u32  20 0  24 payload bytes u32
//!   28 crc32 of bytes 8..28 and payload
//!   payload: spans, each offset u32, length u32 (multiples of 8), bytes
//! ```
//! What no span covers is zero.

use crate::live::{Image, HEADER_BYTES};
use crate::shared;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes before the payload.
pub const HEADER: usize = 32;
const MAGIC: [u8; 8] = *b"NCSSNAP1";

const SMALLEST: u64 = 64 << 10;
/// Slots of the largest class hold 64 MiB, the most that a live part may have, and more.
const CLASSES: u32 = 12;

/// Where a snapshot of `bytes` goes in the file.
pub fn slot_offset(sequence: u64, bytes: usize) -> u64 {
    let class = (0..CLASSES - 1)
        .find(|class| bytes as u64 <= SMALLEST << class)
        .unwrap_or(CLASSES - 1);
    place(class, sequence)
}

fn place(class: u32, sequence: u64) -> u64 {
    2 * SMALLEST * ((1 << class) - 1) + (sequence % 2) * (SMALLEST << class)
}

/// Starts a snapshot in `out`, which is cleared.
pub fn begin(out: &mut Vec<u8>) {
    out.clear();
    out.resize(HEADER, 0);
}

/// Appends a span; `at` and the length are multiples of 8.
pub fn span(out: &mut Vec<u8>, at: usize, bytes: &[std::sync::atomic::AtomicU64]) {
    out.extend((at as u32).to_le_bytes());
    out.extend((std::mem::size_of_val(bytes) as u32).to_le_bytes());
    shared::append(out, bytes);
}

/// Completes a snapshot.
pub fn finish(out: &mut [u8], sequence: u64, image_bytes: usize) {
    let payload = (out.len() - HEADER) as u32;
    out[..8].copy_from_slice(&MAGIC);
    out[8..16].copy_from_slice(&sequence.to_le_bytes());
    out[16..20].copy_from_slice(&(image_bytes as u32).to_le_bytes());
    out[24..28].copy_from_slice(&payload.to_le_bytes());
    let crc = checksum(out);
    out[28..32].copy_from_slice(&crc.to_le_bytes());
}

fn checksum(slot: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&slot[8..28]);
    hasher.update(&slot[HEADER..]);
    hasher.finalize()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize)
}

/// A sound slot at the start of `bytes`: (sequence, slot bytes, image bytes).
fn slot(bytes: &[u8]) -> Option<(u64, &[u8], usize)> {
    if bytes.get(..8)? != MAGIC {
        return None;
    }
    let sequence = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
    let image_bytes = u32_at(bytes, 16)?;
    let slot = bytes.get(..HEADER.checked_add(u32_at(bytes, 24)?)?)?;
    (checksum(slot) == u32_at(bytes, 28)? as u32 && image_bytes <= 1 << 30).then_some((
        sequence,
        slot,
        image_bytes,
    ))
}

/// The newest sound snapshot of a `.snap` file as an image; `None` when there is none.
pub fn read(bytes: &[u8]) -> Option<Image> {
    let places = (0..CLASSES).flat_map(|class| [place(class, 0), place(class, 1)]);
    let sound = places.filter_map(|at| slot(bytes.get(usize::try_from(at).ok()?..)?));
    image(sound.max_by_key(|(sequence, ..)| *sequence)?)
}

/// An image as a file of its own: one slot, so that a checksum covers it. What is zero is left out.
pub fn whole(image: &Image, bytes: usize) -> Vec<u8> {
    const PAGE: usize = HEADER_BYTES / 8;
    let words = image.words().get(..bytes / 8).unwrap_or(image.words());
    let mut out = Vec::new();
    begin(&mut out);
    for (number, page) in words.chunks(PAGE).enumerate() {
        let is_used = |word: &AtomicU64| word.load(Relaxed) != 0;
        if page.iter().any(is_used) {
            span(&mut out, number * HEADER_BYTES, page);
        }
    }
    finish(&mut out, 0, bytes);
    out
}

/// Whether a file begins as [`whole`] writes it.
pub fn is_whole(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// What [`whole`] wrote, and the bytes of the image; `None` if it is damaged.
pub fn read_whole(bytes: &[u8]) -> Option<(Image, usize)> {
    let found = slot(bytes)?;
    let is_all = found.1.len() == bytes.len();
    Some((image(found).filter(|_| is_all)?, found.2))
}

/// The image in a slot.
fn image((_, slot, image_bytes): (u64, &[u8], usize)) -> Option<Image> {
    let image = Image::zeroed(image_bytes);
    let mut rest = &slot[HEADER..];
    while let (Some(at), Some(len)) = (u32_at(rest, 0), u32_at(rest, 4)) {
        image.write(at, rest.get(8..8 + len)?);
        rest = &rest[8 + len..];
    }
    Some(image)
}

/// The first page of the image in the newest snapshot of a `.snap` file. `None` if that is damaged, or of
/// more than `most` bytes.
pub fn first_page(file: &File, most: usize) -> Option<Vec<u8>> {
    let header_at = |at: u64| {
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, at).ok()?;
        let sequence = u64::from_le_bytes(header[8..16].try_into().ok()?);
        let bytes = HEADER.checked_add(u32_at(&header, 24)?)?;
        (header[..8] == MAGIC).then_some((sequence, at, bytes))
    };
    let places = (0..CLASSES).flat_map(|class| [place(class, 0), place(class, 1)]);
    let (_, at, bytes) = places.filter_map(header_at).max()?;
    if bytes > most {
        return None;
    }
    let mut found = vec![0; bytes];
    file.read_exact_at(&mut found, at).ok()?;
    let (_, slot, _) = slot(&found)?;
    let page = slot.get(HEADER + 8..)?.get(..HEADER_BYTES)?;
    // The first span is the header's page.
    let first = u32_at(slot, HEADER)? == 0 && u32_at(slot, HEADER + 4)? >= HEADER_BYTES;
    first.then(|| page.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the image. Miri takes minutes for a megabyte, so large snapshots are left out there.
    const IMAGE: usize = if cfg!(miri) { 8192 } else { 1 << 20 };

    /// Three snapshots in turn, the last one `large` or torn.
    fn file(torn: bool, large: bool) -> Vec<u8> {
        let mut file = Vec::new();
        for sequence in 0..3u64 {
            let mut out = Vec::new();
            begin(&mut out);
            span(&mut out, 16, &[AtomicU64::new(sequence + 100)]);
            if large && sequence == 2 {
                let filler: Vec<AtomicU64> = (0..20_000).map(AtomicU64::new).collect();
                span(&mut out, 4096, &filler);
            }
            finish(&mut out, sequence, IMAGE);
            let at = slot_offset(sequence, out.len()) as usize;
            if file.len() < at + out.len() {
                file.resize(at + out.len(), 0);
            }
            let keep = if torn && sequence == 2 { 36 } else { out.len() };
            file[at..at + keep].copy_from_slice(&out[..keep]);
        }
        file
    }

    fn newest(file: &[u8]) -> Option<u64> {
        Some(read(file)?.words()[2].load(Relaxed))
    }

    #[test]
    fn the_newest_slot_counts_whatever_its_class() {
        assert_eq!(newest(&file(false, false)), Some(102));
        assert!(cfg!(miri) || newest(&file(false, true)) == Some(102));
    }

    #[test]
    fn a_torn_slot_leaves_the_other() {
        assert_eq!(newest(&file(true, false)), Some(101));
        assert!(cfg!(miri) || newest(&file(true, true)) == Some(101));
    }

    #[test]
    fn a_live_part_of_any_size_has_a_slot() {
        assert!(place(CLASSES, 0) - place(CLASSES - 1, 1) >= 64 << 20);
        assert_eq!(slot_offset(1, 100), 64 << 10);
        assert_eq!(slot_offset(0, (64 << 10) + 1), 128 << 10);
    }

    #[test]
    fn no_bit_of_a_whole_image_can_change_without_a_word() {
        let image = Image::zeroed(3 * HEADER_BYTES + 64);
        for (i, word) in image.words().iter().enumerate().step_by(97) {
            // The second page is a hole.
            word.store(if i / 512 == 1 { 0 } else { i as u64 }, Relaxed);
        }
        let bytes = whole(&image, 3 * HEADER_BYTES + 64);
        assert!(is_whole(&bytes) && bytes.len() < 3 * HEADER_BYTES);
        let (read, size) = read_whole(&bytes).expect("sound");
        assert_eq!(size, 3 * HEADER_BYTES + 64);
        let values = |image: &Image| -> Vec<u64> {
            let words = image.words()[..size / 8].iter();
            words.map(|word| word.load(Relaxed)).collect()
        };
        assert_eq!(values(&read), values(&image));
        let step = if cfg!(miri) { 20_011 } else { 7 };
        for bit in (0..bytes.len() * 8).step_by(step) {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(read_whole(&flipped).is_none(), "bit {bit}");
        }
        assert!(read_whole(&bytes[..bytes.len() - 1]).is_none());
    }

    #[test]
    fn damaged_bytes_do_not_panic() {
        for flip in (0..200).step_by(if cfg!(miri) { 50 } else { 1 }) {
            let mut bytes = file(false, false);
            let n = bytes.len();
            bytes[flip % n] ^= 0x55;
            let _ = read(&bytes);
            let _ = read(&bytes[..flip]);
        }
    }
}

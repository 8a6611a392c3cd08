//! Addresses that a library has looked up by itself and keeps in its data.

use super::objects::{Object, Range};
use super::{memory, Wanted};

/// Words that are read at once.
const CHUNK: usize = 8192;

/// Calls `found(address, function)` for each word of an object's data that is a wanted function's address.
///
/// What the dynamic linker has made read-only is left out, because a library can't keep there what it looks
/// up. That leaves a fifth: the largest of CUDA's libraries has 190 MB of it.
pub fn search(object: &Object, wanted: &[Wanted], mut found: impl FnMut(u64, usize)) -> usize {
    if wanted.is_empty() {
        return 0;
    }
    let places = together(wanted.iter().map(|w| w.address).collect());
    let mut chunk = vec![0u64; CHUNK];
    let mut bytes = 0;
    for range in object
        .writable
        .iter()
        .flat_map(|r| outside(*r, object.sealed))
    {
        let mut at = range.start.next_multiple_of(8);
        while at + 8 <= range.end {
            let words = ((range.end - at) / 8).min(CHUNK as u64) as usize;
            let read = memory::read(at, &mut chunk[..words]) / 8;
            if read == 0 {
                // Unloaded meanwhile, or a page that can't be read.
                break;
            }
            bytes += read * 8;
            for (i, word) in chunk[..read].iter().enumerate() {
                // One comparison for each library that is called rules out nearly every word.
                if places
                    .iter()
                    .any(|(lowest, span)| word.wrapping_sub(*lowest) <= *span)
                {
                    if let Some(function) = wanted.iter().position(|w| w.address == *word) {
                        found(at + 8 * i as u64, function);
                    }
                }
            }
            at += 8 * read as u64;
        }
    }
    bytes
}

/// Functions of one library lie closer together, because they stand in one section of code.
const APART: u64 = 16 << 20;

/// The lowest address of each library, and how far above it the highest one is.
fn together(mut addresses: Vec<u64>) -> Vec<(u64, u64)> {
    addresses.sort_unstable();
    let mut places: Vec<(u64, u64)> = Vec::new();
    for address in addresses {
        match places.last_mut() {
            Some((lowest, span)) if address - *lowest - *span < APART => *span = address - *lowest,
            _ => places.push((address, 0)),
        }
    }
    places
}

/// The parts of `range` outside of `hole`.
fn outside(range: Range, hole: Range) -> impl Iterator<Item = Range> {
    let before = Range {
        start: range.start,
        end: range.end.min(hole.start),
    };
    let after = Range {
        start: range.start.max(hole.end),
        end: range.end,
    };
    let parts = if hole.start < hole.end && hole.start < range.end && range.start < hole.end {
        [before, after]
    } else {
        [range, Range::default()]
    };
    parts.into_iter().filter(|part| part.start < part.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_a_library_are_looked_for_together() {
        let (cuda, nccl) = (0x7f00_0000_0000, 0x7f00_4000_0000);
        let found = together(vec![nccl + 8, cuda + 640, cuda, nccl, cuda + (1 << 20)]);
        assert_eq!(found, [(cuda, 1 << 20), (nccl, 8)]);
        assert_eq!(together(Vec::new()), []);
    }

    #[test]
    fn a_hole_is_left_out() {
        let range = |start, end| Range { start, end };
        let parts = |hole| outside(range(16, 64), hole).collect::<Vec<_>>();
        assert_eq!(parts(range(0, 0)), [range(16, 64)]);
        assert_eq!(parts(range(0, 32)), [range(32, 64)]);
        assert_eq!(parts(range(32, 40)), [range(16, 32), range(40, 64)]);
        assert_eq!(parts(range(32, 80)), [range(16, 32)]);
        assert_eq!(parts(range(8, 80)), []);
        assert_eq!(parts(range(64, 80)), [range(16, 64)]);
    }
}

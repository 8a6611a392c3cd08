//! A file of somebody else, read piece by piece.
//!
//! A file that a watched process has mapped belongs to whoever owns the process, who may change or cut it at
//! any moment, or make it look like terabytes. So it is read and never mapped: a page of a mapping that was
//! cut ends the reader by SIGBUS. Nor are another tool's probes in what is read: the kernel puts probes into
//! private mappings only.
//!
//! Rule: [`MOST_AT_ONCE`] and [`MOST_OF_A_FILE`] bound what is read and kept of a file, whatever it says
//! about itself.

use object::ReadRef;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Bound on the bytes of one table. The largest table of symbols that we know of, libtorch_cuda's, is a
/// fifth of this.
const MOST_AT_ONCE: u64 = 128 << 20;
/// Bound on all bytes that are kept of a file.
const MOST_OF_A_FILE: u64 = 512 << 20;
/// Bound on the bytes that are searched for a text, a window at a time.
const MOST_SEARCHED: u64 = 1 << 30;
/// Bytes that are read at once for a name, and when a text is searched.
const WINDOW: u64 = 1 << 16;

/// Offset and length.
type Piece = (u64, u64);

/// What was read of a file. Its pieces stay until it goes.
pub struct Bytes<'f> {
    file: &'f File,
    len: u64,
    /// Bytes that are kept.
    kept: Cell<u64>,
    /// In words, so that structs of a table are aligned as they are in the file.
    pieces: RefCell<HashMap<Piece, Box<[u64]>>>,
}

impl<'f> Bytes<'f> {
    /// Of a regular file; `None` for anything else.
    pub fn of(file: &'f File) -> Option<Bytes<'f>> {
        let meta = file.metadata().ok()?;
        (meta.is_file() && meta.len() > 0).then(|| Bytes {
            file,
            len: meta.len(),
            kept: Cell::new(0),
            pieces: RefCell::default(),
        })
    }

    /// A part of the file; `None` if it is not there (any more), or too much.
    pub fn at(&self, offset: u64, size: u64) -> Option<&[u8]> {
        let end = offset.checked_add(size)?;
        if size > MOST_AT_ONCE || end > self.len {
            return None;
        }
        let mut pieces = self.pieces.borrow_mut();
        let words = match pieces.entry((offset, size)) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(new) => {
                let kept = self.kept.get() + size;
                if kept > MOST_OF_A_FILE {
                    return None;
                }
                let mut words = vec![0u64; (size as usize).div_ceil(8)];
                self.file
                    .read_exact_at(bytes_of(&mut words, size as usize), offset)
                    .ok()?;
                self.kept.set(kept);
                new.insert(words.into_boxed_slice())
            }
        };
        // SAFETY: the box has this many bytes at least. It is neither changed nor dropped before `self` is,
        // because pieces are only ever added, and a move of the map does not move what a box holds.
        Some(unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size as usize) })
    }

    /// Hands parts of a range of the file to `each`, in order, until it returns something. Each begins with
    /// the last `overlap` bytes of the one before. Nothing of it is kept.
    pub fn search<T>(
        &self,
        range: Range<u64>,
        overlap: usize,
        mut each: impl FnMut(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let end = range
            .end
            .min(self.len)
            .min(range.start.saturating_add(MOST_SEARCHED));
        let mut part = Vec::new();
        let mut at = range.start;
        while at < end {
            let before = part.len().saturating_sub(overlap);
            part.drain(..before);
            let kept = part.len();
            let fresh = (end - at).min(16 * WINDOW) as usize;
            part.resize(kept + fresh, 0);
            self.file.read_exact_at(&mut part[kept..], at).ok()?;
            at += fresh as u64;
            if let Some(found) = each(&part) {
                return Some(found);
            }
        }
        None
    }
}

/// The first `size` bytes of `words`.
fn bytes_of(words: &mut [u64], size: usize) -> &mut [u8] {
    assert!(size <= words.len() * 8);
    // SAFETY: so many bytes are there, any byte is valid in both types, and `words` is borrowed meanwhile.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size) }
}

impl<'a> ReadRef<'a> for &'a Bytes<'_> {
    fn len(self) -> Result<u64, ()> {
        Ok(self.len)
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.at(offset, size).ok_or(())
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        let until = |start: u64, end: u64, from: u64| {
            let part = &self.at(start, end.checked_sub(start)?)?[(from - start) as usize..];
            Some(&part[..memchr::memchr(delimiter, part)?])
        };
        let end = range.end.min(self.len);
        // Names lie close together. One that crosses the end of a window is read for itself.
        let window = range.start / WINDOW * WINDOW;
        until(
            window,
            window.saturating_add(WINDOW).min(self.len),
            range.start,
        )
        .filter(|name| range.start + name.len() as u64 <= end)
        .or_else(|| {
            until(
                range.start,
                range.start.saturating_add(WINDOW).min(end),
                range.start,
            )
        })
        .ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_that_is_cut_or_huge_is_an_error_and_nothing_else() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"first\0second\0").expect("written");
        file.set_len(1 << 40).expect("sparse");
        let bytes = Bytes::of(&file).expect("a file");
        assert_eq!(
            (&bytes).read_bytes_at_until(6..1 << 40, 0),
            Ok(&b"second"[..])
        );
        assert_eq!((&bytes).read_bytes_at_until(6..9, 0), Err(()));
        assert_eq!(bytes.at(0, 1 << 39), None);
        assert_eq!(bytes.at(u64::MAX, 2), None);
        let tables = (0..20).filter(|n| bytes.at(n << 30, 100 << 20).is_some());
        assert_eq!(tables.count(), 5);
        file.set_len(6).expect("cut");
        assert_eq!(bytes.at(6, 7), None);
        assert_eq!(bytes.search(0..1 << 40, 0, |_| Some(())), None);
        assert!(Bytes::of(&tempfile::tempfile().expect("a file")).is_none());
    }

    #[test]
    fn a_text_on_the_border_of_two_windows_is_found() {
        let mut file = tempfile::tempfile().expect("a file");
        let text = b"NCCL version 2.30.3";
        let border = 16 * WINDOW as usize;
        let mut data = vec![b'x'; 3 * border];
        data[border - 5..][..text.len()].copy_from_slice(text);
        file.write_all(&data).expect("written");
        let bytes = Bytes::of(&file).expect("a file");
        let found = |overlap| {
            let is_there = |part: &[u8]| memchr::memmem::find(part, text).map(|_| ());
            bytes
                .search(0..data.len() as u64, overlap, is_there)
                .is_some()
        };
        assert_eq!((found(64), found(0)), (true, false));
    }
}

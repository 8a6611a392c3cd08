//! Strings to one-byte ids.
//!
//! NCCL passes static literals, so a pointer seen before is looked up in a small cache without reading the
//! text. The cache is emptied when the last communicator is gone, because NCCL may then be unloaded and its
//! addresses reused.

use capture::live::{Header, Odd, Text, View};
use std::ffi::c_char;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

const CACHE: usize = 256;

/// The pointer cache; the strings themselves live in the live part.
pub struct Interner {
    // pointer << 8 | id; user-space addresses have at most 56 bits, what lies above them is a tag.
    cache: [AtomicU64; CACHE],
}

impl Interner {
    pub const fn new() -> Self {
        Interner {
            cache: [const { AtomicU64::new(0) }; CACHE],
        }
    }

    /// Forgets the pointers, not the strings.
    pub fn forget(&self) {
        self.cache.iter().for_each(|entry| entry.store(0, Relaxed));
    }

    /// The id of the text behind `pointer`; 0 for null and empty ones.
    #[inline(always)]
    pub fn pointer(&self, live: &View, pointer: *const c_char) -> u8 {
        let address = pointer as u64;
        // Fibonacci hashing: the literals of a library lie a few bytes apart, two libraries' many pages.
        let entry = &self.cache[(address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize];
        let found = entry.load(Relaxed) ^ address << 8;
        if found <= 0xff {
            return found as u8;
        }
        self.miss(live, pointer, entry)
    }

    #[cold]
    fn miss(&self, live: &View, pointer: *const c_char, entry: &AtomicU64) -> u8 {
        if pointer.is_null() {
            return 0;
        }
        let mut bytes = [0u8; 44];
        let text = read(pointer, &mut bytes);
        let id = text_id(live, text);
        entry.store((pointer as u64) << 8 | u64::from(id), Relaxed);
        id
    }
}

/// Up to `into.len()` bytes of a C string.
pub fn read(pointer: *const c_char, into: &mut [u8]) -> &[u8] {
    let mut len = 0;
    while len < into.len() {
        // SAFETY: NCCL passes NUL-terminated strings; bytes are read one at a time up to the NUL.
        let byte = unsafe { *pointer.add(len) } as u8;
        if byte == 0 {
            break;
        }
        into[len] = byte;
        len += 1;
    }
    &into[..len]
}

/// The id of `text` in the live part, entered if it is new; 0 when empty or when the table is full.
pub fn text_id(live: &View, text: &[u8]) -> u8 {
    let text = &text[..text.len().min(44)];
    if text.is_empty() {
        return 0;
    }
    for (i, entry) in live.strings().iter().enumerate() {
        let mut len = entry.len.load(Acquire);
        if len == 0 {
            match entry.len.compare_exchange(0, 1, AcqRel, Acquire) {
                Ok(_) => {
                    publish(entry, text);
                    return (i + 1) as u8;
                }
                Err(now) => len = now,
            }
        }
        // Another thread is writing a string here; a duplicate entry does no harm, waiting would.
        if len >= 2 && matches(entry, len, text) {
            return (i + 1) as u8;
        }
    }
    let header: &Header = live.header();
    header.odd[Odd::StringsFull as usize].fetch_add(1, Relaxed);
    0
}

fn publish(entry: &Text, text: &[u8]) {
    for (to, from) in entry.bytes.iter().zip(text) {
        to.store(*from, Relaxed);
    }
    entry.len.store(2 + text.len() as u32, Release);
}

fn matches(entry: &Text, len: u32, text: &[u8]) -> bool {
    len as usize - 2 == text.len()
        && entry
            .bytes
            .iter()
            .zip(text)
            .all(|(a, b)| a.load(Relaxed) == *b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capture::live::{Image, Layout};

    /// A live part with room for three strings.
    fn with_view(each: impl FnOnce(View)) {
        let layout = Layout {
            strings: 3,
            comms: 1,
            groups: 1,
            totals: 1,
            pages: 1,
            rows: 1,
            staging: 8,
            net_ops: 1,
            graphs: 1,
            launches: 1,
            most_comms: 0,
            most_rows: 0,
            most_graphs: 0,
        };
        let image = Image::zeroed(layout.bytes());
        // SAFETY: the image is zeroed, long enough and outlives the view.
        each(unsafe { View::create(image.words().as_ptr() as *mut u8, &layout) });
    }

    #[test]
    fn equal_texts_have_one_id_wherever_they_are() {
        with_view(|view| {
            let interner = Interner::new();
            let (here, there) = (c"AllReduce".to_owned(), c"AllReduce".to_owned());
            let id = interner.pointer(&view, here.as_ptr());
            assert_eq!((id, view.text(id).as_deref()), (1, Some("AllReduce")));
            assert_eq!(interner.pointer(&view, there.as_ptr()), id);
            interner.forget();
            assert_eq!(interner.pointer(&view, here.as_ptr()), id);
            assert_eq!(interner.pointer(&view, std::ptr::null()), 0);
            assert_eq!(interner.pointer(&view, c"".as_ptr()), 0);
        });
    }

    #[test]
    fn a_long_text_is_cut_and_a_full_table_is_counted() {
        with_view(|view| {
            let long = [b'x'; 100];
            assert_eq!([text_id(&view, &long), text_id(&view, &long[..44])], [1, 1]);
            assert_eq!(view.text(1).map(|text| text.len()), Some(44));
            assert_eq!(
                [
                    text_id(&view, b"a"),
                    text_id(&view, b"b"),
                    text_id(&view, b"c")
                ],
                [2, 3, 0]
            );
            let full = &view.header().odd[Odd::StringsFull as usize];
            assert_eq!((full.load(Relaxed), text_id(&view, b"b")), (1, 3));
        });
    }

    #[test]
    fn threads_that_meet_the_same_texts_agree() {
        with_view(|view| {
            let ids = || [&b"one"[..], b"two"].map(|text| (text_id(&view, text), text));
            let threads = || {
                std::thread::scope(|s| [s.spawn(ids), s.spawn(ids)].map(|t| t.join().expect("ran")))
            };
            for (id, text) in threads().concat() {
                // Both may enter a text at the same moment; a third entry has room for one of these.
                assert!(id == 0 || view.text(id).as_deref().map(str::as_bytes) == Some(text));
            }
        });
    }
}

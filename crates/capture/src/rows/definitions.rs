//! The payload of a Definitions block: strings and communicators, one after the other.
//!
//! ```text
//! string         1 u8 │ id u8 │ length u8 │ bytes
//! communicator   2 u8 │ place in the table u16 │ length u16 │ the bytes of a Comm
//! ```
//!
//! Example: `01 01 09 41 6c 6c 52 65 64 75 63 65` is string 1, which has 9 bytes: AllReduce.
//!
//! Rule: the same string may be defined again, and a communicator whenever more is known about it. So each
//! file can begin with all that its rows need. The length lets a reader take a longer `Comm` than its own.

use crate::live::{Comm, Text};
use crate::shared;
use std::sync::atomic::Ordering::Relaxed;

/// One definition read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definition<'a> {
    /// A string and its id.
    Text(u8, &'a [u8]),
    /// The bytes of a [`Comm`] and its place in the table.
    Comm(u16, &'a [u8]),
}

/// Appends string `id`.
pub fn put_text(out: &mut Vec<u8>, id: u8, text: &Text) {
    let len = (text.len.load(Relaxed) as usize)
        .saturating_sub(2)
        .min(text.bytes.len());
    out.extend([1, id, len as u8]);
    out.extend(text.bytes[..len].iter().map(|b| b.load(Relaxed)));
}

/// Appends communicator `index` of the table.
pub fn put_comm(out: &mut Vec<u8>, index: u16, comm: &Comm) {
    out.push(2);
    out.extend(index.to_le_bytes());
    out.extend((std::mem::size_of::<Comm>() as u16).to_le_bytes());
    const WORDS: usize = std::mem::size_of::<Comm>() / 8;
    const { assert!(std::mem::size_of::<Comm>() == 8 * WORDS && std::mem::align_of::<Comm>() == 8) };
    // SAFETY: a Comm is so many aligned words of atomic integers, without padding.
    let words = unsafe { std::slice::from_raw_parts(std::ptr::from_ref(comm).cast(), WORDS) };
    shared::append(out, words);
}

/// The definitions of a payload, up to the first that is not well formed.
pub fn read(mut payload: &[u8]) -> Vec<Definition<'_>> {
    let mut found = Vec::new();
    loop {
        match payload {
            [1, id, len, rest @ ..] if rest.len() >= usize::from(*len) => {
                let (text, rest) = rest.split_at(usize::from(*len));
                found.push(Definition::Text(*id, text));
                payload = rest;
            }
            [2, a, b, c, d, rest @ ..]
                if rest.len() >= usize::from(u16::from_le_bytes([*c, *d])) =>
            {
                let (comm, rest) = rest.split_at(usize::from(u16::from_le_bytes([*c, *d])));
                found.push(Definition::Comm(u16::from_le_bytes([*a, *b]), comm));
                payload = rest;
            }
            _ => return found,
        }
    }
}

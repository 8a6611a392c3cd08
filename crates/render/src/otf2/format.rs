//! The bytes of an OTF2 archive, format 3.0: records, chunks and the anchor file.
//!
//! A number is a byte with its length and then its bytes, lowest first, without leading zeros; 0 is the byte
//! 0, and `ff` is "undefined". A record is a byte with its kind, its length and its fields; Enter and Leave
//! have no length. A file is a list of chunks. Each begins with `03 42` and the numbers of its first and last
//! event, and is filled with zeros. The last one ends with `02 01`, and is not filled.
//!
//! `AllReduce` as string number 5 is `0a 0c 01 05 41 6c 6c 52 65 64 75 63 65 00`: kind, length, number, text.
//!
//! The layout was read off archives that OTF2 3.0.2 (BSD licence) wrote, and `otf2-print` reads it back.

use std::io::{Result, Write};

/// Largest size of a chunk of events, bytes.
pub const EVENTS: usize = 1 << 20;
/// Largest size of a chunk of definitions, bytes.
pub const DEFINITIONS: usize = 4 << 20;
/// Bytes before the records of a chunk.
const HEAD: usize = 18;
/// The record that ends a file.
const END: [u8; 2] = [2, 1];
const UNDEFINED: u8 = 0xff;
const TIME: u8 = 5;

/// Kinds of definitions.
pub mod definition {
    #![allow(missing_docs)]
    pub const CLOCK: u8 = 0x05;
    pub const PARADIGM: u8 = 0x06;
    pub const PARADIGM_PROPERTY: u8 = 0x07;
    pub const STRING: u8 = 0x0a;
    pub const ATTRIBUTE: u8 = 0x0b;
    pub const SYSTEM_TREE_NODE: u8 = 0x0c;
    pub const LOCATION_GROUP: u8 = 0x0d;
    pub const LOCATION: u8 = 0x0e;
    pub const REGION: u8 = 0x0f;
    pub const GROUP: u8 = 0x12;
    pub const METRIC_MEMBER: u8 = 0x13;
    pub const METRIC_CLASS: u8 = 0x14;
    pub const COMM: u8 = 0x16;
    pub const SYSTEM_TREE_NODE_DOMAIN: u8 = 0x1b;
}

/// Kinds of events.
pub mod event {
    #![allow(missing_docs)]
    pub const ATTRIBUTES: u8 = 0x06;
    pub const ENTER: u8 = 0x0c;
    pub const LEAVE: u8 = 0x0d;
    pub const COLLECTIVE_BEGIN: u8 = 0x16;
    pub const COLLECTIVE_END: u8 = 0x17;
    pub const METRIC: u8 = 0x1f;
}

/// Types of values.
pub mod kind {
    #![allow(missing_docs)]
    pub const UINT64: u8 = 0x04;
    pub const DOUBLE: u8 = 0x0a;
    pub const STRING: u8 = 0x0b;
}

/// The fields of a record.
#[derive(Default)]
pub struct Fields(Vec<u8>);

impl Fields {
    /// Appends a number.
    pub fn number(mut self, value: impl Into<u64>) -> Fields {
        number(&mut self.0, value.into());
        self
    }

    /// Appends a number, or "undefined".
    pub fn maybe(mut self, value: Option<u64>) -> Fields {
        match value {
            Some(value) => number(&mut self.0, value),
            None => self.0.push(UNDEFINED),
        }
        self
    }

    /// Appends a byte.
    pub fn byte(mut self, value: u8) -> Fields {
        self.0.push(value);
        self
    }

    /// Appends a text, up to its first NUL, which can't be in it.
    pub fn text(mut self, text: &str) -> Fields {
        let text = text.split('\0').next().unwrap_or("");
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
        self
    }
}

fn number(bytes: &mut Vec<u8>, value: u64) {
    let length = 8 - value.leading_zeros() as usize / 8;
    bytes.push(length as u8);
    bytes.extend_from_slice(&value.to_le_bytes()[..length]);
}

/// Appends a record to others.
pub fn record(bytes: &mut Vec<u8>, kind: u8, fields: &Fields) {
    bytes.push(kind);
    match u8::try_from(fields.0.len()) {
        Ok(length) if length < UNDEFINED => bytes.push(length),
        _ => {
            bytes.push(UNDEFINED);
            bytes.extend_from_slice(&(fields.0.len() as u64).to_le_bytes());
        }
    }
    bytes.extend_from_slice(&fields.0);
}

/// Appends an Enter or a Leave, which have no length.
pub fn at_region(bytes: &mut Vec<u8>, kind: u8, region: u64) {
    bytes.push(kind);
    number(bytes, region);
}

/// A file of records.
pub struct Chunks<W> {
    out: W,
    size: usize,
    chunk: Vec<u8>,
    /// Number of the first event of the chunk, from 1.
    first: u64,
    /// Events so far.
    pub events: u64,
    /// The time that the chunk's last record has.
    time: Option<u64>,
}

impl<W: Write> Chunks<W> {
    /// A file with chunks of this size.
    pub fn new(out: W, size: usize) -> Chunks<W> {
        Chunks {
            out,
            size,
            chunk: vec![0; HEAD],
            first: 1,
            events: 0,
            time: None,
        }
    }

    /// Writes a definition.
    ///
    /// # Errors
    /// Those of the file; and for a record that no chunk can hold.
    pub fn define(&mut self, kind: u8, fields: &Fields) -> Result<()> {
        let mut bytes = Vec::new();
        record(&mut bytes, kind, fields);
        self.fits(bytes.len())?;
        self.chunk.extend_from_slice(&bytes);
        Ok(())
    }

    /// Writes the records of one event. Times never go back.
    ///
    /// # Errors
    /// As [`Chunks::define`].
    pub fn event(&mut self, time: u64, bytes: &[u8]) -> Result<()> {
        self.fits(bytes.len() + 9)?;
        if self.time != Some(time) {
            self.chunk.push(TIME);
            self.chunk.extend_from_slice(&time.to_le_bytes());
            self.time = Some(time);
        }
        self.chunk.extend_from_slice(bytes);
        self.events += 1;
        Ok(())
    }

    /// Begins another chunk if this one has no room for so many bytes.
    fn fits(&mut self, length: usize) -> Result<()> {
        // Two bytes at the end stay free.
        let room = self.size - 2;
        if HEAD + length > room {
            return Err(std::io::Error::other("a record is larger than a chunk"));
        }
        if self.chunk.len() + length > room {
            self.chunk.resize(self.size, 0);
            self.flush()?;
            self.chunk.resize(HEAD, 0);
            self.first = self.events + 1;
            self.time = None;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.chunk[..2].copy_from_slice(&[3, 0x42]);
        self.chunk[2..10].copy_from_slice(&self.first.to_le_bytes());
        self.chunk[10..HEAD].copy_from_slice(&self.events.to_le_bytes());
        self.out.write_all(&self.chunk)?;
        self.chunk.clear();
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// Those of the file.
    pub fn end(mut self) -> Result<()> {
        self.chunk.extend_from_slice(&END);
        self.flush()?;
        self.out.flush()
    }
}

/// The anchor file, with how many locations and global definitions the archive has.
pub fn anchor(locations: u64, definitions: u64, creator: &str, description: &str) -> Vec<u8> {
    let mut bytes = vec![3, 0x42];
    bytes.extend_from_slice(b"OTF2\0");
    // Version of the archive's format, and of the library.
    bytes.extend_from_slice(&[3, 2, 3, 0, 2]);
    bytes.extend_from_slice(&(EVENTS as u64).to_le_bytes());
    bytes.extend_from_slice(&(DEFINITIONS as u64).to_le_bytes());
    // Plain files, not compressed.
    bytes.extend_from_slice(&[1, 1]);
    bytes.extend_from_slice(&locations.to_le_bytes());
    bytes.extend_from_slice(&definitions.to_le_bytes());
    // Name of the machine.
    bytes.push(0);
    let texts = Fields::default().text(creator).text(description);
    bytes.extend_from_slice(&texts.0);
    // No properties; an identifier; no snapshots and thumbnails.
    bytes.extend_from_slice(&0u32.to_le_bytes());
    bytes.extend_from_slice(&(locations ^ definitions.rotate_left(32)).to_le_bytes());
    bytes.extend_from_slice(&0u64.to_le_bytes());
    bytes.extend_from_slice(&[END[0], END[1], 0]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_those_that_otf2_writes() {
        let mut bytes = Vec::new();
        let name = Fields::default().number(5u64).text("AllReduce");
        record(&mut bytes, definition::STRING, &name);
        assert_eq!(bytes, b"\x0a\x0c\x01\x05AllReduce\0");
        bytes.clear();
        at_region(&mut bytes, event::ENTER, 300);
        assert_eq!(bytes, [0x0c, 2, 0x2c, 1]);
        bytes.clear();
        let end = Fields::default().byte(11).number(0u64).maybe(None);
        record(
            &mut bytes,
            event::COLLECTIVE_END,
            &end.number(1024u64).number(300u64),
        );
        assert_eq!(bytes, [0x17, 9, 11, 0, 0xff, 2, 0, 4, 2, 0x2c, 1]);
        let long = Fields(vec![0; 300]);
        bytes.clear();
        record(&mut bytes, definition::GROUP, &long);
        assert_eq!(bytes[..10], [0x12, 0xff, 0x2c, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_file_of_one_chunk_is_that_of_otf2() {
        let mut file = Vec::new();
        let mut chunks = Chunks::new(&mut file, EVENTS);
        let mut bytes = Vec::new();
        at_region(&mut bytes, event::ENTER, 0);
        chunks.event(1000, &bytes).expect("in memory");
        bytes.clear();
        at_region(&mut bytes, event::LEAVE, 0);
        chunks.event(1300, &bytes).expect("in memory");
        chunks.end().expect("in memory");
        let wanted = b"\x03\x42\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\
            \x05\xe8\x03\0\0\0\0\0\0\x0c\0\x05\x14\x05\0\0\0\0\0\0\x0d\0\x02\x01";
        assert_eq!(file, wanted);
    }

    #[test]
    fn chunks_have_their_size_and_count_their_events() {
        let mut file = Vec::new();
        let mut chunks = Chunks::new(&mut file, 64);
        for time in 0..10 {
            chunks.event(time, &[event::ENTER, 0]).expect("in memory");
        }
        chunks.end().expect("in memory");
        let counts = |at: usize| (file[at + 2], file[at + 10]);
        assert_eq!(
            [counts(0), counts(64), counts(128)],
            [(1, 4), (5, 8), (9, 10)]
        );
        assert!(Chunks::new(&mut Vec::new(), 64).event(1, &[0; 60]).is_err());
    }
}

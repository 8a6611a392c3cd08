//! Callback records: what a profiler plugin was called with, verbatim, so that the job can be played again.
//!
//! ```text
//! one record, little-endian, padded to 8 bytes
//!   0  bytes u16 (whole record)   2  what u8   3  ABI u8   4  thread u32   8  time, ticks u64
//!  16  subject u64 (context of a Start, handle of the rest; string pointer of a Text; OS id of a Thread)
//!  24  result u64 (context of an Init, handle of a Start; state number of a State)
//!  32  payload: descriptor of a Start, state arguments of a State, arguments of an Init, bytes of a Text,
//!      name of a Thread
//! ```
//!
//! A descriptor's pointers to strings are kept as they were; the [`EntryPoint::Text`] record that gives a
//! pointer's text comes before its first use.

use crate::rows::Ticks;

/// Bytes before the payload.
pub const HEADER: usize = 32;

/// Which entry point was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EntryPoint {
    /// `init`. Payload: commId u64, nNodes i32, nranks i32, rank i32, mask set i32, then the name's bytes.
    Init = 1,
    /// `startEvent`. Payload: the descriptor.
    Start = 2,
    /// `stopEvent`.
    Stop = 3,
    /// `recordEventState`. Payload: the state arguments, empty when NULL was passed.
    State = 4,
    /// `finalize`.
    Finalize = 5,
    /// Not a call: the text behind a pointer.
    Text = 6,
    /// Not a call: the operating system's id and name of the thread with this record's number.
    Thread = 7,
}

impl EntryPoint {
    /// The entry point with this number.
    pub fn from_u8(what: u8) -> Option<EntryPoint> {
        use EntryPoint::*;
        [Init, Start, Stop, State, Finalize, Text, Thread]
            .into_iter()
            .find(|w| *w as u8 == what)
    }
}

/// One record, borrowed from a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Callback<'a> {
    pub what: EntryPoint,
    /// ABI version, 1 to 7.
    pub abi: u8,
    /// Number of the calling thread, from 0 in order of first call.
    pub thread: u32,
    pub ticks: Ticks,
    pub subject: u64,
    pub result: u64,
    pub payload: &'a [u8],
}

/// Bytes that a record with this payload takes.
pub const fn record_bytes(payload: usize) -> usize {
    (HEADER + payload).next_multiple_of(8)
}

impl Callback<'_> {
    /// Writes the header into the first 32 bytes of a record's place.
    pub fn header(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[..2].copy_from_slice(&((HEADER + self.payload.len()) as u16).to_le_bytes());
        out[2] = self.what as u8;
        out[3] = self.abi;
        out[4..8].copy_from_slice(&self.thread.to_le_bytes());
        out[8..16].copy_from_slice(&self.ticks.0.to_le_bytes());
        out[16..24].copy_from_slice(&self.subject.to_le_bytes());
        out[24..32].copy_from_slice(&self.result.to_le_bytes());
        out
    }
}

/// The records of a payload, up to the first that is not well formed. Those that are not known are left out.
pub fn read(payload: &[u8]) -> impl Iterator<Item = Callback<'_>> {
    let mut rest = payload;
    std::iter::from_fn(move || loop {
        let u64_at = |at: usize| Some(u64::from_le_bytes(rest.get(at..at + 8)?.try_into().ok()?));
        let head = u64_at(0)?;
        let len = (head & 0xffff) as usize;
        let fields = rest.get(..len)?.get(HEADER..)?;
        let (ticks, subject, result) = (Ticks(u64_at(8)?), u64_at(16)?, u64_at(24)?);
        rest = rest.get(len.next_multiple_of(8)..).unwrap_or(&[]);
        let Some(what) = EntryPoint::from_u8((head >> 16) as u8) else {
            continue;
        };
        return Some(Callback {
            what,
            abi: (head >> 24) as u8,
            thread: (head >> 32) as u32,
            ticks,
            subject,
            result,
            payload: fields,
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip() {
        let records = [
            Callback {
                what: EntryPoint::Text,
                abi: 5,
                thread: 0,
                ticks: Ticks(1),
                subject: 0xdead,
                result: 0,
                payload: b"AllReduce",
            },
            Callback {
                what: EntryPoint::Start,
                abi: 5,
                thread: 3,
                ticks: Ticks(2),
                subject: 9,
                result: 77,
                payload: &[1; 112],
            },
            Callback {
                what: EntryPoint::Stop,
                abi: 5,
                thread: 3,
                ticks: Ticks(3),
                subject: 77,
                result: 0,
                payload: &[],
            },
        ];
        let mut bytes = Vec::new();
        for record in records {
            let start = bytes.len();
            bytes.extend(record.header());
            bytes.extend(record.payload);
            bytes.resize(start + record_bytes(record.payload.len()), 0);
        }
        assert!(read(&bytes).eq(records));
        // A record of a later version is passed over.
        let mut later = bytes.clone();
        later[2] = 99;
        assert!(read(&later).eq(records[1..].iter().copied()));
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).count() <= 3);
        }
    }
}

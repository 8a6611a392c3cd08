//! Time in MPI: the payload of an Mpi block.
//!
//! All integers are base-128; a text is its length and its bytes.
//!
//! ```text
//! head     since when calls are seen, ticks │ now, ticks │ calls without a time │ calls without a record
//! sums     n │ n times: number of the function │ calls │ ticks inside │ name, a text
//! open     n │ n times: thread │ since when it is inside, ticks │ name, a text
//! records  until the payload ends: thread │ begin, ticks after that of the record before, the first after
//!          `since`, zigzag │ length, ticks │ ticks of that outside │ calls │ number of the function
//! ```
//!
//! A record is one call, or several of one thread that begin and end within 100 µs; then the function is
//! that of the first. Example: MPI_Barrier (number 3) of thread 9, from tick 100 to 400, seen since tick 50,
//! written at tick 500; nobody is inside.
//!
//! ```text
//! 32 f4 03 00 00  01 03 01 ac 02 0b 4d 50 49 5f 42 61 72 72 69 65 72  00  09 64 ac 02 00 01 03
//! ```
//!
//! Rule: a sum is of all calls of its function so far. A block has the sums that changed since the one before
//! in its trace file, so of each function the newest counts. Counts in the head are of all that happened so
//! far. A record is in one block only. What is open at the newest block is in no record.

use crate::rows::Ticks;
use crate::varint::{put, unzigzag, zigzag, Reader};

/// Calls of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MpiCalls {
    /// Linux's number of the thread; 0 not known.
    pub thread: u32,
    /// When the first one began.
    pub from: Ticks,
    /// When the last one ended.
    pub to: Ticks,
    /// Ticks inside of MPI.
    pub inside: u64,
    /// How many.
    pub calls: u32,
    /// Number of the first one's function.
    pub function: u32,
}

/// All calls of a function so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionSum {
    /// Its number in this process.
    pub function: u32,
    /// How many.
    pub calls: u64,
    /// Ticks inside.
    pub ticks: u64,
    /// As in `mpi.h`.
    pub name: String,
}

/// A thread that is inside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadInside {
    /// Its number; 0 not known.
    pub thread: u32,
    /// Since when.
    pub since: Ticks,
    /// The function.
    pub name: String,
}

/// A block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mpi {
    /// Since when calls are seen.
    pub since: Ticks,
    /// When this was written.
    pub now: Ticks,
    /// Calls of threads beyond the 64 that have times.
    pub unseated: u64,
    /// Calls that are in the sums and in no record.
    pub lost: u64,
    /// By function.
    pub sums: Vec<FunctionSum>,
    /// Threads inside.
    pub open: Vec<ThreadInside>,
    /// In any order.
    pub records: Vec<MpiCalls>,
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Appends the payload of a block.
pub fn put_mpi(out: &mut Vec<u8>, mpi: &Mpi) {
    for number in [mpi.since.0, mpi.now.0, mpi.unseated, mpi.lost] {
        put(out, number);
    }
    put(out, mpi.sums.len() as u64);
    for sum in &mpi.sums {
        put(out, sum.function.into());
        put(out, sum.calls);
        put(out, sum.ticks);
        put_text(out, &sum.name);
    }
    put(out, mpi.open.len() as u64);
    for open in &mpi.open {
        put(out, open.thread.into());
        put(out, open.since.0);
        put_text(out, &open.name);
    }
    let mut before = mpi.since.0;
    for record in &mpi.records {
        let length = record.to.0.saturating_sub(record.from.0);
        put(out, record.thread.into());
        put(out, zigzag(record.from.0.wrapping_sub(before) as i64));
        put(out, length);
        put(out, length.saturating_sub(record.inside));
        put(out, record.calls.into());
        put(out, record.function.into());
        before = record.from.0;
    }
}

/// Reads a payload. `None` if it is not well formed.
pub fn read(payload: &[u8]) -> Option<Mpi> {
    let mut reader = Reader::new(payload);
    let mut mpi = Mpi {
        since: Ticks(reader.get()?),
        now: Ticks(reader.get()?),
        unseated: reader.get()?,
        lost: reader.get()?,
        ..Mpi::default()
    };
    let text = |reader: &mut Reader| {
        let length = usize::try_from(reader.get()?).ok()?;
        let text = String::from_utf8_lossy(reader.take(length)?);
        Some(text.into_owned())
    };
    let number = |reader: &mut Reader| u32::try_from(reader.get()?).ok();
    for _ in 0..reader.get()? {
        mpi.sums.push(FunctionSum {
            function: number(&mut reader)?,
            calls: reader.get()?,
            ticks: reader.get()?,
            name: text(&mut reader)?,
        });
    }
    for _ in 0..reader.get()? {
        mpi.open.push(ThreadInside {
            thread: number(&mut reader)?,
            since: Ticks(reader.get()?),
            name: text(&mut reader)?,
        });
    }
    let mut before = mpi.since.0;
    while reader.remaining() > 0 {
        let thread = number(&mut reader)?;
        let from = before.wrapping_add(unzigzag(reader.get()?) as u64);
        let length = reader.get()?;
        let outside = reader.get()?;
        mpi.records.push(MpiCalls {
            thread,
            from: Ticks(from),
            to: Ticks(from.checked_add(length)?),
            inside: length.checked_sub(outside)?,
            calls: number(&mut reader)?,
            function: number(&mut reader)?,
        });
        before = from;
    }
    Some(mpi)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn barrier() -> Mpi {
        Mpi {
            since: Ticks(50),
            now: Ticks(500),
            sums: vec![FunctionSum {
                function: 3,
                calls: 1,
                ticks: 300,
                name: "MPI_Barrier".to_owned(),
            }],
            records: vec![MpiCalls {
                thread: 9,
                from: Ticks(100),
                to: Ticks(400),
                inside: 300,
                calls: 1,
                function: 3,
            }],
            ..Mpi::default()
        }
    }

    #[test]
    fn the_example_is_as_in_the_module() {
        let example = include_str!("mpi.rs")
            .lines()
            .find_map(|line| line.strip_prefix("//! 32 f4 "))
            .expect("the example");
        let example: Vec<u8> = format!("32 f4 {example}")
            .split_whitespace()
            .map(|byte| u8::from_str_radix(byte, 16).expect("a byte in hex"))
            .collect();
        let mut out = Vec::new();
        put_mpi(&mut out, &barrier());
        assert_eq!(out, example);
        assert_eq!(read(&out), Some(barrier()));
    }

    #[test]
    fn cut_payloads_are_refused() {
        let mut out = Vec::new();
        put_mpi(&mut out, &barrier());
        let sound = (0..out.len()).filter(|end| read(&out[..*end]).is_some());
        // Only before the record.
        assert_eq!(sound.collect::<Vec<_>>(), [23]);
    }

    proptest! {
        #[test]
        fn any_records_read_back(
            records in prop::collection::vec(
                (any::<u32>(), any::<u32>(), 0u64..1 << 40, any::<u32>(), 0u32..300), 0..40),
            open in prop::collection::vec((any::<u32>(), any::<u64>()), 0..4),
            head in any::<[u32; 4]>(),
        ) {
            let [since, now, unseated, lost] = head.map(u64::from);
            let mpi = Mpi {
                since: Ticks(since),
                now: Ticks(now),
                unseated,
                lost,
                open: open.into_iter().map(|(thread, since)| ThreadInside {
                    thread,
                    since: Ticks(since),
                    name: "MPI_Wait".to_owned(),
                }).collect(),
                records: records.into_iter().map(|(thread, from, length, calls, function)| MpiCalls {
                    thread,
                    from: Ticks(from.into()),
                    to: Ticks(u64::from(from) + length),
                    inside: length / 3,
                    calls,
                    function,
                }).collect(),
                ..barrier()
            };
            let mut out = Vec::new();
            put_mpi(&mut out, &mpi);
            prop_assert_eq!(read(&out), Some(mpi));
        }

        #[test]
        fn no_bytes_make_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }
    }
}

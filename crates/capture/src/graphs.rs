//! CUDA graphs: the calls that were captured into them, and how often each graph was launched.
//!
//! A [`Shape`] is what captured calls have in common; [`Contents`] is what one launch executes, as shapes in
//! the order of capture. An executable graph ([`Exec`] in the live part, [`Executable`] in blocks) has
//! contents and counts its launches. Graphs that are gone may be folded into one count for their contents
//! ([`Folded`]). So a program that makes graphs all the time needs no more and no more memory. A block of
//! [`launches`](put_launches) has the launches one by one.
//!
//! ```text
//! Graphs: records one after the other until the payload ends, all integers base-128
//!   1 │ first shape │ n │ n times: communicator uid, function, datatype, flags, count, zigzag(root)
//!   2 │ contents │ flags │ runs m │ m times: shape, calls
//!   4 │ contents │ executable graphs │ launches
//!   5 │ number │ contents │ before │ instantiated │ launches │ entered │ returned │ stream │ destroyed
//! Launches: n │ streams m │ m handles │ first entered │ 4 columns of n:
//!   number │ zigzag(entered - the last one's), 0 at first │ returned - entered │ index of the stream
//!   and, if one of them was timed on the GPU, 3 more:
//!   ns + 1, 0 is not timed │ zigzag(start - entered) │ error of the start, ns
//! ```
//!
//! For example, contents 1 of 80 calls of shape 0 are `02 01 00 01 00 50`.
//!
//! Rule: a later record of an executable graph, or of what was folded, replaces an earlier one. One without
//! contents takes the earlier one back, because the graph was folded.

use crate::rows::{AtomicTicks, Ticks};
use crate::v1;
use crate::varint::{put, put_column, unzigzag, zigzag, Reader};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Parts of the graph run as often as the GPU decides, or its calls were not followed: they can't be counted.
pub const UNCOUNTABLE: u32 = 1;

/// Bits of `Header::graph_sight`.
pub mod sight {
    /// A call was captured, so graphs matter.
    pub const CAPTURED: u32 = 1;
    /// The driver's functions were found, and calls of them lead past the recorder.
    pub const INTERPOSED: u32 = 2;
    /// A graph was launched from a place that was found only after the graph had been made, and from which it
    /// may have been launched before.
    pub const FOUND_LATE: u32 = 4;
}

/// An executable graph with captured calls, in the live part. One that is updated to other contents becomes
/// another.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Exec {
    /// Unique in the process, from 1; 0 free. Stored (Release) last.
    pub number: AtomicU32,
    /// Number of its contents.
    pub contents: AtomicU32,
    /// Launches that CUDA accepted. Threads may launch at the same time: each adds one.
    pub launches: AtomicU64,
    /// When the newest launch was called, ticks.
    pub entered: AtomicTicks,
    /// When the newest launch returned, ticks; before `entered` while one is under way.
    pub returned: AtomicTicks,
    /// The stream of the newest launch.
    pub stream: AtomicU64,
    /// When it was instantiated, or updated to these contents, ticks.
    pub instantiated: AtomicTicks,
    /// When it was destroyed or updated to something else, ticks; 0 while it is there.
    pub destroyed: AtomicTicks,
    /// Calls that one launch executes.
    pub calls: AtomicU32,
    /// The number that the same executable graph had with other contents; 0 none.
    pub before: AtomicU32,
}

/// A launch of a graph, in the live part's ring of launches: launch `i` is entry `i` modulo the ring's
/// length.
#[repr(C)]
#[derive(Default)]
pub struct Launch {
    /// Launch + 1; 0 never used. Stored (Release) last.
    pub word: AtomicU64,
    /// When it was called, ticks.
    pub entered: AtomicTicks,
    /// The stream.
    pub stream: AtomicU64,
    /// Number of the executable graph.
    pub exec: AtomicU32,
    /// How long the call took, ticks.
    pub took: AtomicU32,
}

const _: () = assert!(std::mem::size_of::<Exec>() == 64);
const _: () = assert!(std::mem::size_of::<Launch>() == 32);

/// What captured calls have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Communicator uid.
    pub comm: u32,
    /// String id.
    pub func: u8,
    /// String id.
    pub datatype: u8,
    /// [`crate::live::flag`] bits.
    pub flags: u8,
    /// Elements, as the program gave them.
    pub count: u64,
    /// Root, or -1.
    pub root: i32,
}

/// What one launch executes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Unique in the process, from 1.
    pub number: u32,
    /// [`UNCOUNTABLE`].
    pub flags: u32,
    /// Calls in the order of capture: shape and how many.
    pub runs: Vec<(u32, u32)>,
}

/// An executable graph, as it was at a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Executable {
    pub number: u32,
    pub contents: u32,
    pub before: u32,
    /// These as in [`Exec`].
    pub instantiated: Ticks,
    pub launches: u64,
    pub entered: Ticks,
    pub returned: Ticks,
    pub stream: u64,
    pub destroyed: Ticks,
}

impl Executable {
    /// An entry of the live part, each field read by itself.
    pub fn load(exec: &Exec) -> Executable {
        Executable {
            number: exec.number.load(Relaxed),
            contents: exec.contents.load(Relaxed),
            before: exec.before.load(Relaxed),
            instantiated: exec.instantiated.load(Relaxed),
            launches: exec.launches.load(Relaxed),
            entered: exec.entered.load(Relaxed),
            returned: exec.returned.load(Relaxed),
            stream: exec.stream.load(Relaxed),
            destroyed: exec.destroyed.load(Relaxed),
        }
    }

    /// The numbers of a record, behind its tag.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Executable> {
        let small = |reader: &mut Reader<'_>| u32::try_from(reader.get()?).ok();
        Some(Executable {
            number: small(reader)?,
            contents: small(reader)?,
            before: small(reader)?,
            instantiated: Ticks(reader.get()?),
            launches: reader.get()?,
            entered: Ticks(reader.get()?),
            returned: Ticks(reader.get()?),
            stream: reader.get()?,
            destroyed: Ticks(reader.get()?),
        })
    }
}

/// Executable graphs that are gone and have no record of their own any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// Number of their contents.
    pub contents: u32,
    /// How many.
    pub executables: u64,
    /// Their launches.
    pub launches: u64,
}

/// One record of a block of graphs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphRecord {
    /// Consecutive shapes, from this number on.
    Shapes(u32, Vec<Shape>),
    /// What a launch executes.
    Contents(Contents),
    /// An executable graph.
    Executable(Executable),
    /// Those that are gone.
    Folded(Folded),
}

/// A launch, as in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Number of the executable graph.
    pub exec: u32,
    /// When it was called, ticks.
    pub entered: Ticks,
    /// How long the call took, ticks.
    pub took: u32,
    /// The stream.
    pub stream: u64,
    /// When it ran on the GPU; `None` if that was not timed.
    pub gpu: Option<LaunchTime>,
}

/// When a launch ran on the GPU, by two events around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchTime {
    /// Start, on the host's clock.
    pub start: Ticks,
    /// Length, ns.
    pub ns: u64,
    /// Error of `start`, ns.
    pub error: u32,
}

/// Appends a record.
pub fn put_record(out: &mut Vec<u8>, record: &GraphRecord) {
    let mut all = |tag: u8, values: &[u64]| {
        out.push(tag);
        for value in values {
            put(out, *value);
        }
    };
    match record {
        GraphRecord::Shapes(first, shapes) => {
            all(1, &[(*first).into(), shapes.len() as u64]);
            for s in shapes {
                let names = [s.func, s.datatype, s.flags].map(u64::from);
                put(out, s.comm.into());
                for value in names.into_iter().chain([s.count, zigzag(s.root.into())]) {
                    put(out, value);
                }
            }
        }
        GraphRecord::Contents(c) => {
            all(2, &[c.number.into(), c.flags.into(), c.runs.len() as u64]);
            for (shape, calls) in &c.runs {
                put(out, (*shape).into());
                put(out, (*calls).into());
            }
        }
        GraphRecord::Executable(e) => {
            let numbers = [e.number, e.contents, e.before].map(u64::from);
            let (begun, ended) = (e.instantiated.0, e.destroyed.0);
            all(5, &numbers);
            for value in [
                begun,
                e.launches,
                e.entered.0,
                e.returned.0,
                e.stream,
                ended,
            ] {
                put(out, value);
            }
        }
        GraphRecord::Folded(f) => all(4, &[f.contents.into(), f.executables, f.launches]),
    }
}

/// The next record of a block of graphs; `None` at its end, or if it is not well formed.
pub fn record(reader: &mut Reader<'_>) -> Option<GraphRecord> {
    let small = |reader: &mut Reader<'_>| u32::try_from(reader.get()?).ok();
    let byte = |reader: &mut Reader<'_>| u8::try_from(reader.get()?).ok();
    Some(match reader.take(1)?[0] {
        1 => {
            let (first, n) = (small(reader)?, small(reader)?);
            first.checked_add(n)?;
            // A shape takes six bytes at least, so a damaged number takes no more memory than there are
            // bytes.
            if n as usize > reader.remaining() / 6 {
                return None;
            }
            let mut shapes = Vec::with_capacity(n as usize);
            for _ in 0..n {
                shapes.push(Shape {
                    comm: small(reader)?,
                    func: byte(reader)?,
                    datatype: byte(reader)?,
                    flags: byte(reader)?,
                    count: reader.get()?,
                    root: i32::try_from(unzigzag(reader.get()?)).ok()?,
                });
            }
            GraphRecord::Shapes(first, shapes)
        }
        2 => {
            let (number, flags, n) = (small(reader)?, small(reader)?, reader.get()?);
            if n > (reader.remaining() / 2) as u64 {
                return None;
            }
            let runs = (0..n).map(|_| Some((small(reader)?, small(reader)?)));
            GraphRecord::Contents(Contents {
                number,
                flags,
                runs: runs.collect::<Option<_>>()?,
            })
        }
        3 => GraphRecord::Executable(v1::executable(reader)?),
        5 => GraphRecord::Executable(Executable::read(reader)?),
        4 => GraphRecord::Folded(Folded {
            contents: small(reader)?,
            executables: reader.get()?,
            launches: reader.get()?,
        }),
        _ => return None,
    })
}

/// Appends launches in the order in which they were called, or nearly.
pub fn put_launches(out: &mut Vec<u8>, launches: &[Launched]) {
    let mut streams: Vec<u64> = Vec::new();
    let mut columns: [Vec<u64>; 4] = Default::default();
    let first = launches.first().map_or(Ticks(0), |l| l.entered);
    let mut last = first;
    for launch in launches {
        let known = streams.iter().position(|s| *s == launch.stream);
        let stream = known.unwrap_or_else(|| {
            streams.push(launch.stream);
            streams.len() - 1
        });
        columns[0].push(launch.exec.into());
        columns[1].push(zigzag(launch.entered.after(last)));
        columns[2].push(launch.took.into());
        columns[3].push(stream as u64);
        last = launch.entered;
    }
    put(out, launches.len() as u64);
    put(out, streams.len() as u64);
    for stream in streams {
        put(out, stream);
    }
    put(out, first.0);
    for column in &columns {
        put_column(out, column);
    }
    if launches.iter().all(|launch| launch.gpu.is_none()) {
        return;
    }
    let column = |value: fn(&Launched, &LaunchTime) -> u64| {
        let of = |launch: &Launched| launch.gpu.map_or(0, |gpu| value(launch, &gpu));
        launches.iter().map(of).collect::<Vec<u64>>()
    };
    put_column(out, &column(|_, gpu| gpu.ns.saturating_add(1)));
    put_column(
        out,
        &column(|launch, gpu| zigzag(gpu.start.after(launch.entered))),
    );
    put_column(out, &column(|_, gpu| gpu.error.into()));
}

/// The launches of a block; `None` if it is not well formed.
pub fn launches(payload: &[u8]) -> Option<Vec<Launched>> {
    let mut reader = Reader::new(payload);
    let n = usize::try_from(reader.get()?).ok()?;
    let streams = reader.get()?;
    if streams > reader.remaining() as u64 || n > MOST_LAUNCHES {
        return None;
    }
    let streams: Vec<u64> = (0..streams).map(|_| reader.get()).collect::<Option<_>>()?;
    let mut entered = Ticks(reader.get()?);
    let mut values = Vec::new();
    let mut columns = [const { None }; 4];
    for column in &mut columns {
        *column = Some(reader.column(n, &mut values)?);
    }
    let [exec, since, took, stream] = columns.map(|c| c.expect("read above"));
    let timed = match reader.remaining() {
        0 => None,
        _ => {
            let mut column = || reader.column(n, &mut values);
            Some([column()?, column()?, column()?])
        }
    };
    let gpu = |i: usize, entered: Ticks| {
        let Some([ns, start, error]) = &timed else {
            return Some(None);
        };
        let Some(ns) = ns.at(&values, i).checked_sub(1) else {
            return Some(None);
        };
        Some(Some(LaunchTime {
            start: entered.plus(unzigzag(start.at(&values, i))),
            ns,
            error: u32::try_from(error.at(&values, i)).ok()?,
        }))
    };
    (0..n)
        .map(|i| {
            entered = entered.plus(unzigzag(since.at(&values, i)));
            Some(Launched {
                exec: u32::try_from(exec.at(&values, i)).ok()?,
                entered,
                took: u32::try_from(took.at(&values, i)).ok()?,
                stream: *streams.get(usize::try_from(stream.at(&values, i)).ok()?)?,
                gpu: gpu(i, entered)?,
            })
        })
        .collect()
}

/// Launches in a block, at most.
pub const MOST_LAUNCHES: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Vec<GraphRecord> {
        let mut reader = Reader::new(bytes);
        std::iter::from_fn(|| record(&mut reader)).collect()
    }

    #[test]
    fn the_example_is_as_written() {
        let contents = Contents {
            number: 1,
            flags: 0,
            runs: vec![(0, 80)],
        };
        let mut bytes = Vec::new();
        put_record(&mut bytes, &GraphRecord::Contents(contents));
        assert_eq!(bytes, [2, 1, 0, 1, 0, 0x50]);
    }

    #[test]
    fn records_come_back_in_order() {
        let shape = Shape {
            comm: 3,
            func: 5,
            datatype: 8,
            flags: 1,
            count: 1 << 40,
            root: -1,
        };
        let records = [
            GraphRecord::Shapes(7, vec![shape, Shape::default()]),
            GraphRecord::Contents(Contents {
                number: 2,
                flags: UNCOUNTABLE,
                runs: vec![(0, 80), (7, 2)],
            }),
            GraphRecord::Executable(Executable {
                number: 2,
                contents: 1,
                before: 1,
                instantiated: Ticks(u64::MAX),
                launches: 1000,
                entered: Ticks(5),
                returned: Ticks(6),
                stream: 0x57,
                destroyed: Ticks(0),
            }),
            GraphRecord::Folded(Folded {
                contents: 1,
                executables: 7,
                launches: 70,
            }),
        ];
        let mut bytes = Vec::new();
        for record in &records {
            put_record(&mut bytes, record);
        }
        assert_eq!(read(&bytes), records);
        // A cut record is none.
        assert_eq!(read(&bytes[..bytes.len() - 1]), records[..3]);
    }

    proptest! {
        #[test]
        fn launches_come_back(launches in proptest::collection::vec(
            (0u32..9, any::<u64>(), any::<u32>(), 0u64..3, any::<Option<(u64, u32, u32)>>()),
            0..200,
        )) {
            let gpu = |(start, ns, error): (u64, u32, u32)| {
                LaunchTime { start: Ticks(start), ns: ns.into(), error }
            };
            let launches: Vec<Launched> = launches
                .into_iter()
                .map(|(exec, entered, took, stream, time)| {
                    Launched { exec, entered: Ticks(entered), took, stream, gpu: time.map(gpu) }
                })
                .collect();
            let mut bytes = Vec::new();
            put_launches(&mut bytes, &launches);
            prop_assert_eq!(super::launches(&bytes), Some(launches));
        }

        #[test]
        fn no_bytes_are_too_odd(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            read(&bytes);
            super::launches(&bytes);
        }
    }
}

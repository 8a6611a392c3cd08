//! What the network did for calls that were folded into totals, by communicator and function.
//!
//! ```text
//! entries n │ n times, all integers base-128: communicator uid │ function │ calls │ operations started │
//!   operations stopped │ steps │ bytes sent │ bytes received │ 6 waits, units of 64 ticks
//! ```
//!
//! An example is 3 calls of function 1 on communicator 1. Each had an operation and a step and sent 4 bytes,
//! and they waited 5 units for the GPU in all. They
//! are `01 01 01 03 03 03 03 0c 00 05 00 00 00 00 00`.
//!
//! Rule: a block has all that was counted so far, so the newest one counts alone.

use crate::rows::Record;
use crate::varint::{put, Reader};
use std::collections::BTreeMap;

/// Entries at most: a block then fits in the staging area.
const MOST: usize = 1024;
/// Bytes that an entry takes at least.
const LEAST: usize = 14;

/// What the network did for calls of one function on one communicator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetSum {
    /// Calls that used the network.
    pub calls: u64,
    /// Proxy operations started.
    pub started: u64,
    /// Of these, stopped.
    pub stopped: u64,
    /// Steps.
    pub steps: u64,
    /// Bytes sent and received.
    pub bytes: [u64; 2],
    /// Waits of steps, in units of 64 ticks, in the order of [`crate::live::WAITS`].
    pub waits: [u64; 6],
}

/// All of a process, by communicator uid and function.
pub type NetSums = BTreeMap<(u32, u8), NetSum>;

/// Adds a call; true if it used the network and there was room for it.
pub fn add(sums: &mut NetSums, call: &Record) -> bool {
    let key = (call.shape.comm, call.shape.func);
    if call.ops_started == 0 || sums.len() >= MOST && !sums.contains_key(&key) {
        return false;
    }
    let sum = sums.entry(key).or_default();
    sum.calls += 1;
    sum.started += u64::from(call.ops_started);
    sum.stopped += u64::from(call.ops_stopped);
    sum.steps += u64::from(call.steps);
    for (sum, bytes) in sum
        .bytes
        .iter_mut()
        .zip([call.bytes_sent, call.bytes_received])
    {
        *sum = sum.saturating_add(bytes);
    }
    for (sum, wait) in sum.waits.iter_mut().zip(call.waits) {
        *sum += u64::from(wait);
    }
    true
}

/// Writes the payload of a block.
pub fn put_sums(out: &mut Vec<u8>, sums: &NetSums) {
    put(out, sums.len() as u64);
    for ((comm, func), sum) in sums {
        put(out, u64::from(*comm));
        put(out, u64::from(*func));
        for value in [sum.calls, sum.started, sum.stopped, sum.steps] {
            put(out, value);
        }
        sum.bytes
            .iter()
            .chain(&sum.waits)
            .for_each(|value| put(out, *value));
    }
}

/// Reads a payload; `None` if it is not well formed.
pub fn read(payload: &[u8]) -> Option<NetSums> {
    let mut reader = Reader::new(payload);
    let n = usize::try_from(reader.get()?).ok()?;
    if n > reader.remaining() / LEAST {
        return None;
    }
    let mut sums = NetSums::new();
    for _ in 0..n {
        let comm = u32::try_from(reader.get()?).ok()?;
        let func = u8::try_from(reader.get()?).ok()?;
        let mut next = || reader.get();
        let sum = NetSum {
            calls: next()?,
            started: next()?,
            stopped: next()?,
            steps: next()?,
            bytes: [next()?, next()?],
            waits: [next()?, next()?, next()?, next()?, next()?, next()?],
        };
        sums.insert((comm, func), sum);
    }
    Some(sums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Shape;

    #[test]
    fn the_example_is_what_is_written_and_read() {
        let call = Record {
            shape: Shape {
                comm: 1,
                func: 1,
                ..Shape::default()
            },
            ops_started: 1,
            ops_stopped: 1,
            steps: 1,
            bytes_sent: 4,
            ..Record::default()
        };
        let mut sums = NetSums::new();
        for waited in [2, 2, 1] {
            let waits = [waited, 0, 0, 0, 0, 0];
            assert!(add(&mut sums, &Record { waits, ..call }));
        }
        let local = Record {
            ops_started: 0,
            ..call
        };
        assert!(!add(&mut sums, &local));
        let mut bytes = Vec::new();
        put_sums(&mut bytes, &sums);
        let line = include_str!("net_totals.rs")
            .lines()
            .find(|line| line.contains("are `01"));
        let example = line.expect("the example").split('`').nth(1).expect("bytes");
        let shown: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(shown.join(" "), example);
        assert_eq!(read(&bytes), Some(sums));
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]), None, "{end}");
        }
        // A damaged number takes no memory.
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0]), None);
    }

    #[test]
    fn more_communicators_than_fit_are_left_out() {
        let mut sums = NetSums::new();
        let call = |comm: u32| Record {
            shape: Shape {
                comm,
                ..Shape::default()
            },
            ops_started: 1,
            ..Record::default()
        };
        let added = (0..2000)
            .filter(|comm| add(&mut sums, &call(*comm)))
            .count();
        assert_eq!((added, sums.len()), (MOST, MOST));
        assert!(add(&mut sums, &call(7)));
    }
}

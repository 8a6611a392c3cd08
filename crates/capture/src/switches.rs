//! When threads of the job were off their CPUs, as the node sampler saw it in the kernel's context switches.
//!
//! A Switches block of a file of samples has [`Spans`]: a thread, from when to when it was watched, and when
//! it was off a CPU meanwhile ([`Off`]).
//!
//! ```text
//! Switches  until the payload ends: id of the thread's series `thread_running_ns`; begin (CLOCK_REALTIME,
//! ns); length, ns; k; k times: ns since the one before ended, or since the begin; 2 · ns off + preempted
//! ```
//!
//! Rule: within a span, a thread that is not off ran, or was off for less than [`LEAST_NS`]. Outside of
//! spans, nothing is known.

use crate::varint::{put, Reader};

/// A thread that was off for less is not noted, ns.
pub const LEAST_NS: u64 = 20_000;

/// A stretch in which a thread was off its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Off {
    /// From when, ns since 1970.
    pub from: u64,
    /// To when.
    pub to: u64,
    /// The scheduler took the CPU away, and the thread was ready all the time. Else it slept first.
    pub preempted: bool,
}

/// Appends a span of a thread to the payload of a Switches block. `off` is in order, and within the span.
pub fn put_span(out: &mut Vec<u8>, series: usize, (from, to): (u64, u64), off: &[Off]) {
    put(out, series as u64);
    put(out, from);
    put(out, to.saturating_sub(from));
    put(out, off.len() as u64);
    let mut end = from;
    for off in off {
        put(out, off.from.saturating_sub(end));
        let ns = off.to.saturating_sub(off.from);
        put(out, ns << 1 | u64::from(off.preempted));
        end = off.to;
    }
}

/// Hands every span of a Switches block to `each`: id of the series, the span, and when the thread was off.
/// `None` if the payload is not well formed.
pub fn read_spans(payload: &[u8], mut each: impl FnMut(u64, (u64, u64), &[Off])) -> Option<()> {
    let mut reader = Reader::new(payload);
    let mut off = Vec::new();
    while reader.remaining() > 0 {
        let (series, begin) = (reader.get()?, reader.get()?);
        let end = begin.checked_add(reader.get()?)?;
        off.clear();
        let mut at = begin;
        for _ in 0..reader.get()? {
            let from = at.checked_add(reader.get()?)?;
            let length = reader.get()?;
            at = from.checked_add(length >> 1)?;
            if at > end {
                return None;
            }
            off.push(Off {
                from,
                to: at,
                preempted: length & 1 != 0,
            });
        }
        each(series, (begin, end), &off);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Found = Vec<(u64, (u64, u64), Vec<Off>)>;

    fn spans(payload: &[u8]) -> Option<Found> {
        let mut found = Vec::new();
        read_spans(payload, |id, span, off| {
            found.push((id, span, off.to_vec()))
        })?;
        Some(found)
    }

    /// Distance, length, and whether it was preempted.
    fn stretches() -> impl Strategy<Value = Vec<(u64, u64, bool)>> {
        proptest::collection::vec((0u64..1 << 30, 0u64..1 << 30, any::<bool>()), 0..9)
    }

    proptest! {
        #[test]
        fn any_spans_read_back(
            threads in proptest::collection::vec(
                (0usize..9, 0u64..1 << 62, stretches()), 0..6),
        ) {
            let (mut payload, mut expected) = (Vec::new(), Vec::new());
            for (series, begin, lengths) in threads {
                let mut at = begin;
                let mut off = Vec::new();
                for (apart, length, preempted) in lengths {
                    off.push(Off { from: at + apart, to: at + apart + length, preempted });
                    at += apart + length;
                }
                put_span(&mut payload, series, (begin, at + 5), &off);
                expected.push((series as u64, (begin, at + 5), off));
            }
            prop_assert_eq!(spans(&payload), Some(expected));
        }

        #[test]
        fn no_bytes_make_reading_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = spans(&bytes);
        }
    }

    #[test]
    fn the_example_of_the_specification_is_what_is_written() {
        let off = |from, to, preempted| Off {
            from,
            to,
            preempted,
        };
        let off = [off(6_000, 36_000, false), off(46_000, 1_046_000, true)];
        let mut payload = Vec::new();
        put_span(&mut payload, 3, (1_000, 2_000_000), &off);
        let bytes = payload.iter().map(|byte| format!("{byte:02x}"));
        let written = bytes.collect::<Vec<_>>().join(" ");
        assert_eq!(
            written,
            "03 e8 07 98 81 7a 02 88 27 e0 d4 03 90 4e 81 89 7a"
        );
        assert!(include_str!("../SPEC.md").contains(&written));
    }

    #[test]
    fn a_stretch_that_leaves_its_span_is_refused() {
        let mut payload = Vec::new();
        let off = Off {
            from: 10,
            to: 30,
            preempted: true,
        };
        put_span(&mut payload, 0, (0, 20), &[off]);
        assert_eq!(spans(&payload), None);
    }
}

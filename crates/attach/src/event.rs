//! Events as the programs put them into the ring: `bpf/calls.bpf.c` has the same structs. `perf_samples.rs`
//! makes the same bytes of samples.
//!
//! ```text
//! head      0 time u64   8 process u32   12 thread u32   16 given u32   20 function u16   22 kind u16
//! entered  24 arguments 8 × u64 (88 bytes in all); with a unique id, its 128 bytes behind that (216)
//! returned 24 code u64   32 result u64 (40 in all)
//! switched 24 from u64   32 woken u64   40 preempted u64 (48 in all)
//! interrupted  24 ns u64 (32 in all)
//! ```
//!
//! Rule: bytes that are no event are none, and are never an error.

use crate::functions::FUNCTIONS;
use crate::inner::{self, INNER};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// A thread has called a function.
    Entered {
        /// On x86-64 six arguments of registers, and two of the stack.
        arguments: [u64; 8],
        /// The unique id of an init.
        id: Option<&'a [u8]>,
    },
    /// The function has returned.
    Returned {
        /// NCCL's return code.
        code: i32,
        /// What it put where its argument points; 0 if there is nothing.
        result: u64,
        /// The result was read later, so it may be another one by now.
        is_late: bool,
    },
    /// The thread is back on a CPU.
    Switched(Stretch),
    /// Soft interrupts took so much of the thread's time since the last event of this kind, ns.
    Interrupted(u64),
}

/// A stretch in which a thread was off its CPU. It ended at the event's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// From when.
    pub from: u64,
    /// When it was ready again; 0 if that was not seen.
    pub woken: u64,
    /// It was ready all the time.
    pub preempted: bool,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpfEvent<'a> {
    /// CLOCK_MONOTONIC, ns.
    pub time: u64,
    /// The process as the machine numbers it.
    pub process: u32,
    /// The thread, likewise.
    pub thread: u32,
    /// What the caller gave with the place.
    pub given: u32,
    /// Index into [`FUNCTIONS`](crate::functions::FUNCTIONS).
    pub function: usize,
    /// Entry or return.
    pub what: What<'a>,
}

impl BpfEvent<'_> {
    /// Whether a function of NCCL was called or has returned: not what the scheduler did, and not what
    /// [`cost::measure`](crate::cost::measure) calls.
    pub fn is_of_nccl(&self) -> bool {
        let is_function = self.function < FUNCTIONS.len()
            || self.function.wrapping_sub(inner::FIRST) < INNER.len();
        is_function && matches!(self.what, What::Entered { .. } | What::Returned { .. })
    }

    /// Reads one.
    pub fn read(bytes: &[u8]) -> Option<BpfEvent<'_>> {
        let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let last = u32_at(20)?;
        let what = match last >> 16 {
            1 | 2 => {
                let mut arguments = [0; 8];
                for (i, argument) in arguments.iter_mut().enumerate() {
                    *argument = u64_at(24 + 8 * i)?;
                }
                let id = bytes.get(88..216).filter(|_| last >> 16 == 2);
                What::Entered { arguments, id }
            }
            3 | 6 => What::Returned {
                code: u64_at(24)? as i32,
                result: u64_at(32)?,
                is_late: last >> 16 == 6,
            },
            4 => What::Switched(Stretch {
                from: u64_at(24)?,
                woken: u64_at(32)?,
                preempted: u64_at(40)? != 0,
            }),
            5 => What::Interrupted(u64_at(24)?),
            _ => return None,
        };
        Some(BpfEvent {
            time: u64_at(0)?,
            process: u32_at(8)?,
            thread: u32_at(12)?,
            given: u32_at(16)?,
            function: (last & 0xffff) as usize,
            what,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_and_what_is_none_is_left_out() {
        let mut bytes = vec![0; 40];
        bytes[..8].copy_from_slice(&77u64.to_le_bytes());
        bytes[8..12].copy_from_slice(&5u32.to_le_bytes());
        bytes[12..16].copy_from_slice(&6u32.to_le_bytes());
        bytes[16..20].copy_from_slice(&9u32.to_le_bytes());
        bytes[20..24].copy_from_slice(&[2, 0, 3, 0]);
        bytes[24..32].copy_from_slice(&4u64.to_le_bytes());
        let event = BpfEvent::read(&bytes).expect("an event");
        let returned = |is_late| What::Returned {
            code: 4,
            result: 0,
            is_late,
        };
        assert_eq!(event.what, returned(false));
        assert_eq!((event.time, event.process, event.thread), (77, 5, 6));
        assert_eq!((event.given, event.function), (9, 2));
        for cut in 0..40 {
            assert_eq!(BpfEvent::read(&bytes[..cut]), None);
        }
        bytes[22] = 6;
        let late = BpfEvent::read(&bytes).map(|event| event.what);
        assert_eq!(late, Some(returned(true)));
        bytes[22] = 1;
        assert_eq!(BpfEvent::read(&bytes), None, "an entry is longer");
        bytes[22] = 5;
        assert_eq!(
            BpfEvent::read(&bytes).map(|e| e.what),
            Some(What::Interrupted(4))
        );
        bytes[22] = 4;
        assert_eq!(BpfEvent::read(&bytes), None, "a switch is longer");
        bytes.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        let stretch = Stretch {
            from: 4,
            woken: 0,
            preempted: true,
        };
        let read = BpfEvent::read(&bytes).map(|event| event.what);
        assert_eq!(read, Some(What::Switched(stretch)));
        bytes[22] = 9;
        assert_eq!(BpfEvent::read(&bytes), None);
    }
}

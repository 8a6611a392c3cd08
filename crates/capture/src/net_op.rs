//! Open network operations: what each unfinished ProxyOp of a process waits for, in the live part.
//!
//! A [`NetOp`] is one operation of the network proxy (one channel of one call, to or from one peer) with its
//! up to eight open [`NetStep`]s. The proxy's thread updates it in place with a few plain stores, so it can
//! be read while the process hangs and after its death; [`NetOp::open`] reads it.
//!
//! Rule: NCCL ends the steps of an operation in order, so the oldest open one is what the operation waits
//! for.

use crate::rows::{AtomicTicks, Ticks};
use std::sync::atomic::{
    AtomicU32, AtomicU64, AtomicU8,
    Ordering::{Acquire, Relaxed},
};

/// Steps that NCCL has open at once on an operation, at most: it indexes them modulo this.
pub const STEPS: usize = 8;

/// A step in flight.
#[repr(C)]
#[derive(Default)]
pub struct NetStep {
    /// The recorder's name for it; in bits 46 to 55 its number / 8, modulo 1024. Its number modulo 8 is its
    /// place.
    pub word: AtomicU64,
    /// Ticks since when it waits << 3 | wait + 1, where waits are those of [`crate::live::WAITS`]; wait + 1
    /// is 0 before the first.
    pub wait: AtomicU64,
}

/// A ProxyOp that was started.
#[repr(C, align(64))]
#[derive(Default)]
pub struct NetOp {
    /// The recorder's name for it; 0 when stopped, never used or being made. Stored (Release) after the other
    /// fields.
    pub word: AtomicU64,
    /// Which row it belongs to: generation << 46 | index << 28 | 28 bits of no meaning.
    pub row: AtomicU64,
    /// Started, ticks.
    pub t_start: AtomicTicks,
    /// The newest stop of a step, ticks; 0 none yet.
    pub t_step: AtomicTicks,
    /// ABI v1 to v3: bytes reported so far.
    pub bytes: AtomicU64,
    /// Peer's rank in the communicator, as a 32-bit number with sign.
    pub peer: AtomicU32,
    /// Steps that it consists of.
    pub nsteps: AtomicU32,
    /// Steps stopped.
    pub done: AtomicU32,
    /// Channel.
    pub channel: AtomicU8,
    /// 1 sends, 0 receives.
    pub send: AtomicU8,
    /// The proxy has begun to work on it (state 19; before ABI v4 any of states 0 to 7).
    pub begun: AtomicU8,
    /// Which of `steps` are open, a bit each.
    pub open: AtomicU8,
    /// For how long the network had at least one of its steps. That is a send accepted and not done, or a
    /// receive being flushed. The word is ticks << 4 | the number of steps that the network has now. While
    /// there are any, the ticks at which that began are subtracted.
    pub held: AtomicU64,
    /// By number modulo 8.
    pub steps: [NetStep; STEPS],
}

const _: () = assert!(std::mem::size_of::<NetOp>() == 192);
const _: () = assert!(std::mem::offset_of!(NetOp, steps) == 64);

/// An open network operation as read from a live part. Times are ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenNetOp {
    /// Index of its row.
    pub row: usize,
    /// Generation of its row.
    pub generation: u64,
    /// Peer's rank in the communicator.
    pub peer: Option<u32>,
    /// Channel.
    pub channel: u8,
    /// Whether it sends.
    pub send: bool,
    /// Whether the proxy has begun it.
    pub begun: bool,
    /// Steps that it consists of.
    pub steps: u32,
    /// Steps done.
    pub done: u32,
    /// When it was started.
    pub t_start: Ticks,
    /// When a step of it ended last.
    pub t_step: Option<Ticks>,
    /// The oldest open step, if there is one.
    pub oldest: Option<OpenStep>,
}

/// The oldest open step of a network operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenStep {
    /// Its wait, an index into [`crate::live::WAITS`]; `None` when it was only started.
    pub wait: Option<u8>,
    /// Since when, ticks.
    pub since: Ticks,
}

impl NetOp {
    /// What is open, `None` when nothing is.
    pub fn open(&self) -> Option<OpenNetOp> {
        if self.word.load(Acquire) == 0 {
            return None;
        }
        let (row, open) = (self.row.load(Relaxed), self.open.load(Relaxed));
        let done = self.done.load(Relaxed);
        let steps = self.steps.iter().enumerate();
        let oldest = steps
            .filter(|(at, _)| open >> at & 1 == 1)
            // Of the number's lowest 13 bits, how far it is ahead of the steps done.
            .min_by_key(|(at, step)| {
                let number = (step.word.load(Relaxed) >> 46 & 1023) << 3 | *at as u64;
                number.wrapping_sub(u64::from(done)) & 0x1fff
            })
            .map(|(_, step)| {
                let wait = step.wait.load(Relaxed);
                OpenStep {
                    wait: ((wait & 7) as u8).checked_sub(1).filter(|w| *w < 6),
                    since: Ticks(wait >> 3),
                }
            });
        let t_step = self.t_step.load(Relaxed);
        Some(OpenNetOp {
            row: (row >> 28 & 0x3ffff) as usize,
            generation: row >> 46,
            peer: u32::try_from(self.peer.load(Relaxed) as i32).ok(),
            channel: self.channel.load(Relaxed),
            send: self.send.load(Relaxed) != 0,
            begun: self.begun.load(Relaxed) != 0 || done > 0 || oldest.is_some(),
            steps: self.nsteps.load(Relaxed),
            done,
            t_start: self.t_start.load(Relaxed),
            t_step: (t_step != Ticks(0)).then_some(t_step),
            oldest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(op: &NetOp, number: u64, wait: u64) {
        let at = (number % 8) as usize;
        op.steps[at].word.store((number / 8) << 46 | 7, Relaxed);
        op.steps[at].wait.store(wait, Relaxed);
        let open = op.open.load(Relaxed);
        op.open.store(open | 1 << at, Relaxed);
    }

    #[test]
    fn the_oldest_step_is_what_it_waits_for() {
        let op = NetOp::default();
        assert_eq!(op.open(), None);
        op.word.store(1, Relaxed);
        assert!(!op.open().expect("open").begun);
        // Steps 8190 to 8193: the number that is kept goes round between them.
        op.done.store(8190, Relaxed);
        for number in [8193, 8191, 8192, 8190] {
            step(&op, number & 0x1fff, (number - 8000) << 3 | 4);
        }
        let open = op.open().expect("open");
        let oldest = OpenStep {
            wait: Some(3),
            since: Ticks(190),
        };
        assert_eq!((open.oldest, open.begun), (Some(oldest), true));
    }

    #[test]
    fn any_bytes_are_read() {
        let op = NetOp::default();
        op.word.store(u64::MAX, Relaxed);
        op.row.store(u64::MAX, Relaxed);
        op.t_start.store(Ticks(u64::MAX), Relaxed);
        op.open.store(255, Relaxed);
        op.peer.store(u32::MAX, Relaxed);
        op.steps[0].wait.store(u64::MAX, Relaxed);
        let open = op.open().expect("open");
        assert_eq!(open.peer, None);
        assert_eq!(open.oldest.expect("a step").wait, None);
    }
}

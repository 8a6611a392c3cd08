//! How far the GPU had come with calls that were open, when the recorder asked it.
//!
//! The recorder asks for the oldest launch of each communicator once that has been under way for a second.
//! [`open`] reads the answers from the live part (or its snapshot) and puts each beside its call by ticket.
//!
//! Rule: of a communicator, only the calls of the launch that was asked about last are here. What was asked
//! about before has ended since.

use crate::clock::Clock;
use capture::live::{on_gpu, part, row_state, View};
use capture::rows::Ticks;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// How far the GPU had come with a call whose launch had not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnGpu {
    /// [`crate::Call::ticket`] of the call.
    pub ticket: u64,
    /// Whether its stream had come to the launch.
    pub begun: bool,
    /// When the GPU was asked, ns since 1970; 0 if the clock is not known.
    pub asked_ns: i64,
}

/// The answers in a live part, by ticket.
pub(crate) fn open(view: &View, clock: &Clock) -> Vec<OnGpu> {
    let mut newest: BTreeMap<u32, (Ticks, Vec<OnGpu>)> = BTreeMap::new();
    for row in view.rows() {
        let word = row.word.load(Acquire);
        let state = row.on_gpu.load(Acquire);
        let is_open = word & 3 == row_state::ALIVE
            && state != on_gpu::NOT_ASKED
            && row.parts.load(Relaxed) & part::EVENTS != 0
            && row.event_start.load(Relaxed) == Ticks(0);
        if !is_open {
            continue;
        }
        let asked = row.asked.load(Relaxed);
        let of = newest.entry(row.comm.load(Relaxed)).or_default();
        if asked > of.0 {
            *of = (asked, Vec::new());
        }
        if asked == of.0 {
            of.1.push(OnGpu {
                ticket: row_state::ticket(word),
                begun: state == on_gpu::BEGUN,
                asked_ns: clock.realtime(asked).unwrap_or(0),
            });
        }
    }
    let mut found: Vec<OnGpu> = newest.into_values().flat_map(|(_, calls)| calls).collect();
    found.sort_by_key(|call| call.ticket);
    found
}

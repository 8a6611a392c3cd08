//! How far the GPU had come with calls that it had not ended.
//!
//! The recorder asks about the oldest open launch of each communicator ([`tables::OnGpu`]). [`on_gpu`] adds
//! what follows from it for other calls of the communicator, timed or not: a stream works off its launches in
//! order, and timed launches before the oldest open one have ended.
//!
//! Rule: what does not follow is not said. A call between the newest timed one that ended and one that is not
//! reached may have ended or not.

use capture::live::flag;
use std::collections::HashMap;
use tables::{Call, Process};

/// How far the GPU had come with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnGpu {
    /// Its stream had not come to it.
    NotReached,
    /// Its stream had come to it, and it had not ended.
    Begun,
    /// It had ended.
    Ended,
}

/// What is known of the calls of a process, by ticket.
pub(super) fn on_gpu(process: &Process) -> HashMap<u64, OnGpu> {
    let mut known = HashMap::new();
    for asked in &process.on_gpu {
        let state = if asked.begun {
            OnGpu::Begun
        } else {
            OnGpu::NotReached
        };
        known.insert(asked.ticket, state);
    }
    let place = |ticket: u64| process.calls.binary_search_by_key(&ticket, |c| c.ticket);
    for asked in &process.on_gpu {
        let Ok(at) = place(asked.ticket) else {
            continue;
        };
        let shape = |call: &Call| &process.shapes[call.shape as usize];
        let of = shape(&process.calls[at]);
        let is_launch = |call: &&Call| {
            let shape = shape(call);
            shape.uid == of.uid && !shape.is(flag::CAPTURED) && !shape.is(flag::REPLAY)
        };
        let one_stream = |call: &Call| of.stream != 0 && shape(call).stream == of.stream;
        let group = process.calls[at].group;
        let later = process.calls[at + 1..].iter().filter(is_launch);
        for call in later.filter(|call| one_stream(call)) {
            // Calls of one group are one kernel.
            let state = if asked.begun && group != 0 && call.group == group {
                OnGpu::Begun
            } else {
                OnGpu::NotReached
            };
            known.entry(call.ticket).or_insert(state);
        }
        // Whether a later launch of the stream was reached.
        let mut passed = asked.begun;
        for call in process.calls[..at].iter().rev().filter(is_launch) {
            if call.gpu.stop().is_some() {
                break;
            }
            let is_timed = shape(call).has_events();
            if is_timed || passed && one_stream(call) {
                known.entry(call.ticket).or_insert(OnGpu::Ended);
                passed |= one_stream(call);
            }
        }
    }
    known
}

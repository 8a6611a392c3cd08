//! Writes which threads are inside of NCCL's functions that make and end communicators
//! ([`crate::communicator_calls`]).
//!
//! A line has all of them, and when that was seen. It comes with the flush after a change, so a call that is
//! over within a second has mostly none.

use super::Writer;
use crate::clock;
use crate::communicator_calls::{inside, Call};
use capture::block::BlockKind;
use std::fmt::Write;

impl Writer {
    /// Stages the calls that threads are in, if they changed since the newest line.
    pub(super) fn write_communicator_calls(&mut self) {
        let calls = inside(self.recorder);
        if calls == self.inside_nccl {
            return;
        }
        let (now, ticks) = (
            clock::nanoseconds(libc::CLOCK_REALTIME),
            self.recorder.clock.ticks(),
        );
        let mut line = format!("ncclscope in_nccl at_ns={now}");
        for Call {
            function,
            since,
            thread,
        } in &calls
        {
            let ago_ns = ticks.since(*since) as f64 * self.ns_per_tick;
            let since_ns = now as i64 - ago_ns as i64;
            let _ = write!(line, " {function}={since_ns}:{thread}");
        }
        line.push('\n');
        if self.block(BlockKind::Setup, |out| out.extend(line.as_bytes())) {
            self.inside_nccl = calls;
        }
    }
}

//! What the network did for calls that were folded into totals, from their rows to blocks.
//!
//! A block has all sums so far. So they are staged at flushes, less and less often ([`LONGEST`]), and at the
//! end. A long job's trace file stays small, and a job that is killed lacks the newest of them.

use super::Writer;
use capture::block::BlockKind;
use capture::net_totals::{add, put_sums, NetSums};
use capture::rows::Record;
use std::time::{Duration, Instant};

/// Between two blocks at most.
const LONGEST: Duration = Duration::from_secs(60);

/// What the recorder's thread keeps of it.
#[derive(Default)]
pub(super) struct NetTotals {
    sums: NetSums,
    /// Something was added since the last block.
    changed: bool,
    /// When the last block was staged, and how long the next one waits.
    staged: Option<(Instant, Duration)>,
}

impl NetTotals {
    /// Adds a call that was folded.
    pub(super) fn add(&mut self, call: &Record) {
        self.changed |= add(&mut self.sums, call);
    }

    fn is_due(&self) -> bool {
        let waits = |(at, wait): (Instant, Duration)| at.elapsed() < wait;
        self.changed && !self.staged.is_some_and(waits)
    }
}

impl Writer {
    /// Stages the sums, if there are new ones and it is time, or if this is the `end`.
    pub(super) fn write_net_totals(&mut self, end: bool) {
        if !(self.net_totals.is_due() || end && self.net_totals.changed) {
            return;
        }
        let sums = std::mem::take(&mut self.net_totals.sums);
        let staged = self.block(BlockKind::NetTotals, |out| put_sums(out, &sums));
        let totals = &mut self.net_totals;
        totals.sums = sums;
        if staged {
            let last = totals.staged.map_or(Duration::ZERO, |(_, wait)| wait);
            let wait = (last * 2).clamp(Duration::from_secs(1), LONGEST);
            totals.staged = Some((Instant::now(), wait));
            totals.changed = false;
        }
    }
}

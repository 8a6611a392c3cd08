//! Time in MPI: from threads' rings to blocks.
//!
//! Records are taken out at each turn, so that rings have room. At a flush they are staged, with the sums of
//! all calls so far. A block is also staged if only the sums or the threads inside have changed.

use super::Writer;
use crate::mpi;
use crate::settings::Mode;
use capture::block::BlockKind;
use capture::mpi::{put_mpi, FunctionSum, Mpi, MpiCalls};

/// Records of a block: with at most 30 bytes each, it fits in the staging area.
const RECORDS: usize = 2048;
/// Records that wait for a disk that takes nothing. What is beyond is counted as lost.
const MOST: usize = 1 << 16;

/// What is taken and not staged yet.
#[derive(Default)]
pub(super) struct Waiting {
    records: Vec<MpiCalls>,
    lost: u64,
    /// Calls in the sums that are staged, and whether a thread was inside then.
    staged: (u64, bool),
}

impl Waiting {
    /// Another trace file begins, which must have the sums.
    pub(super) fn restart(&mut self) {
        self.staged = (u64::MAX, false);
    }
}

impl Writer {
    /// Takes what threads have recorded since the last time.
    pub(super) fn take_mpi(&mut self, end: bool) {
        let recorder = self.recorder;
        if recorder.mpi.since().is_none() {
            return;
        }
        recorder.mpi.learn(self.ns_per_tick);
        // Totals have no place for what happened when.
        let is_kept = recorder.settings.mode != Mode::Profile;
        let waiting = &mut self.mpi;
        recorder.mpi.take(recorder.clock.ticks(), end, |record| {
            if is_kept && waiting.records.len() < MOST {
                waiting.records.push(record);
            } else if is_kept {
                waiting.lost += u64::from(record.calls);
            }
        });
    }

    /// Stages records, and the sums if they have changed. Looks whether MPI was loaded meanwhile.
    pub(super) fn write_mpi(&mut self, end: bool) {
        let recorder = self.recorder;
        mpi::look(recorder);
        let Some(since) = recorder.mpi.since() else {
            return;
        };
        let (sums, unseated, lost) = recorder.mpi.sums();
        let open = recorder.mpi.open();
        let calls: u64 = sums.iter().map(|sum: &FunctionSum| sum.calls).sum();
        let state = (calls, !open.is_empty());
        if self.mpi.records.is_empty() && self.mpi.staged == state && !state.1 {
            return;
        }
        if !self.make_room() || self.size() >= recorder.settings.max_size {
            let records = std::mem::take(&mut self.mpi.records);
            self.mpi.lost += records.iter().map(|of| u64::from(of.calls)).sum::<u64>();
            // The sums are small, and those of the end are enough.
            if !end {
                return;
            }
        }
        let mut block = Mpi {
            since,
            now: recorder.clock.ticks(),
            unseated,
            lost: lost + self.mpi.lost,
            sums,
            open,
            records: Vec::new(),
        };
        loop {
            let n = self.mpi.records.len().min(RECORDS);
            block.records = self.mpi.records.drain(..n).collect();
            if !self.block(BlockKind::Mpi, |out| put_mpi(out, &block)) {
                // The disk takes nothing at the moment.
                self.mpi.records.splice(..0, block.records);
                return;
            }
            if self.mpi.records.is_empty() {
                self.mpi.staged = state;
                return;
            }
        }
    }
}

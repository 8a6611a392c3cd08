//! Time in MPI: from threads' rings to blocks.
//!
//! Records are taken out at each turn, so that rings have room. If something happened, they are staged every
//! [`PACE`], with the sums that changed and the threads that are inside. What is staged outlives the process,
//! so a process that is killed loses no more than about that.

use super::Writer;
use crate::mpi;
use crate::settings::Mode;
use capture::block::BlockKind;
use capture::mpi::{put_mpi, FunctionSum, Mpi, MpiCalls, ThreadInside};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Records of a block: with at most 30 bytes each, it fits in the staging area.
const RECORDS: usize = 2048;
/// Records that wait for a disk that takes nothing. What is beyond is counted as lost.
const MOST: usize = 1 << 16;
/// Between two blocks, which take some hundred bytes each.
const PACE: Duration = Duration::from_millis(40);

/// What is taken and not staged yet.
#[derive(Default)]
pub(super) struct Waiting {
    records: Vec<MpiCalls>,
    lost: u64,
    /// Calls in the sums that the present trace file has, by function.
    staged: HashMap<u32, u64>,
    /// The threads that were inside when the newest block was staged.
    inside: Vec<ThreadInside>,
    /// When that was.
    at: Option<Instant>,
}

impl Waiting {
    /// Another trace file begins, which must have the sums.
    pub(super) fn restart(&mut self) {
        self.staged.clear();
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

    /// Stages what happened since the newest block. At a `flush`, also how long threads have been inside by
    /// now; and looks whether MPI was loaded meanwhile.
    pub(super) fn write_mpi(&mut self, flush: bool, end: bool) {
        let recorder = self.recorder;
        if flush {
            mpi::look(recorder);
        }
        let Some(since) = recorder.mpi.since() else {
            return;
        };
        let is_soon = self.mpi.at.is_some_and(|at| at.elapsed() < PACE);
        if is_soon && !flush {
            return;
        }
        let open = recorder.mpi.open();
        let (mut sums, unseated, lost) = recorder.mpi.sums();
        let staged = &self.mpi.staged;
        sums.retain(|sum: &FunctionSum| staged.get(&sum.function) != Some(&sum.calls));
        let is_new = !self.mpi.records.is_empty() || !sums.is_empty() || open != self.mpi.inside;
        if !(is_new || flush && !open.is_empty()) {
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
        // Another trace file may have begun, which has no sums.
        if self.mpi.staged.is_empty() {
            sums = recorder.mpi.sums().0;
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
            let sums = std::mem::take(&mut block.sums);
            let calls = sums.iter().map(|sum| (sum.function, sum.calls));
            self.mpi.staged.extend(calls);
            if self.mpi.records.is_empty() {
                self.mpi.inside = block.open;
                self.mpi.at = Some(Instant::now());
                return;
            }
        }
    }
}

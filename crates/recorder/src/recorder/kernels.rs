//! Kernel events: the stamps of each channel.
//!
//! A row keeps the earliest start and the latest stop of its channels. Each stamp is also held against the
//! newest ones of its channel (`Channel`): if it can't be right, a verdict in the row says so.

use super::communicators::{Channel, CHANNELS};
use super::Recorder;
use crate::handle::{Handle, HandleKind};
use crate::seats::Inside;
use capture::live::{flag, verdict, Odd, Row};
use capture::rows::GpuTime;
use std::sync::atomic::Ordering::{Relaxed, Release};

impl Recorder {
    #[inline]
    pub(super) fn start_kernel(
        &self,
        context: u64,
        parent: u64,
        channel: u8,
        stamp: GpuTime,
    ) -> u64 {
        let task = self.read(parent);
        if !task.is(HandleKind::Task) {
            return self.unowned(parent, true);
        }
        if !self.folds_stamps {
            return self.give(task.renamed(HandleKind::KernelCh, channel));
        }
        let inside = self.inside();
        let Some(row) = self.row(&inside, task) else {
            return self.ignored();
        };
        let handle = self.give(task.renamed(HandleKind::KernelCh, channel));
        row.k_started
            .store(row.k_started.load(Relaxed).wrapping_add(1), Relaxed);
        if stamp == GpuTime(0) {
            row.verdict
                .store(row.verdict.load(Relaxed) | verdict::MISSING, Relaxed);
            return handle;
        }
        let earliest = row.stamp_start.load(Relaxed);
        if earliest == GpuTime(0) || stamp < earliest {
            row.stamp_start.store(stamp, Relaxed);
        }
        let Some((_, comm)) = self.comm(context) else {
            return handle;
        };
        let last = &comm.channels[usize::from(channel) % CHANNELS];
        let group = row.group.load(Relaxed);
        let before = last.start.load(Relaxed);
        if stamp == before || stamp < last.stop.load(Relaxed) {
            self.overlap(&inside, row, group, last, stamp == before);
        }
        last.start.store(stamp, Relaxed);
        last.group.store(group, Relaxed);
        last.row.store(handle, Relaxed);
        handle
    }

    /// Two calls of a communicator overlap on a channel. NCCL runs calls there one after the other. Calls
    /// that it fused into one batch of a launch are the exception: their stamps lie some 160 ns apart, and
    /// all span the batch (seen on H200). Any other overlap means that at least one of the stamps is another
    /// call's.
    #[cold]
    fn overlap(&self, inside: &Inside, row: &Row, group: u64, last: &Channel, equal: bool) {
        // Below ABI v5 a call's group is not known. Two calls that start at the same moment are then taken
        // for one batch.
        let batch = if row.flags.load(Relaxed) & flag::LEGACY != 0 {
            equal
        } else {
            group != 0 && group == last.group.load(Relaxed)
        };
        let found = match (batch, equal) {
            (true, _) => verdict::FUSED,
            (false, true) => verdict::REPEATED,
            (false, false) => verdict::BACKWARDS,
        };
        row.verdict
            .store(row.verdict.load(Relaxed) | found, Relaxed);
        // The first of a batch looks like any other until the second comes.
        if found == verdict::FUSED {
            let other = self.read(last.row.load(Relaxed));
            if let Some(other) = other
                .is(HandleKind::KernelCh)
                .then(|| self.live_row(inside, other))
                .flatten()
            {
                other
                    .verdict
                    .store(other.verdict.load(Relaxed) | found, Relaxed);
            }
        }
    }

    #[inline]
    pub(super) fn kernel_stopped(&self, handle: Handle, stamp: GpuTime) {
        if !self.folds_stamps {
            return;
        }
        let inside = self.inside();
        let Some(row) = self.row(&inside, handle) else {
            return;
        };
        if stamp == GpuTime(0) {
            row.verdict
                .store(row.verdict.load(Relaxed) | verdict::MISSING, Relaxed);
            return;
        }
        if stamp > row.stamp_stop.load(Relaxed) {
            row.stamp_stop.store(stamp, Relaxed);
        }
        if stamp < row.stamp_start.load(Relaxed) {
            row.verdict
                .store(row.verdict.load(Relaxed) | verdict::NEGATIVE, Relaxed);
        }
        let Some(comm) = self.comm_of(row.comm.load(Relaxed)) else {
            return;
        };
        let last = &comm.channels[usize::from(handle.channel()) % CHANNELS];
        let other = self.read(last.row.load(Relaxed));
        // From 2.31 on, NCCL may deliver the starts of several calls before the stop of the first. A call
        // without a start of its own overlaps nothing that is known.
        let started = row.stamp_start.load(Relaxed) != GpuTime(0);
        if started
            && stamp > last.start.load(Relaxed)
            && other.is(HandleKind::KernelCh)
            && other.slot() != handle.slot()
        {
            self.overlap(&inside, row, row.group.load(Relaxed), last, false);
        }
        // The newest, not the largest: if the GPU's timer steps back, the calls after the step are sound
        // again.
        last.stop.store(stamp, Relaxed);
    }

    #[inline]
    pub(super) fn stop_kernel(&self, handle: Handle) {
        if !self.folds_stamps {
            return;
        }
        let inside = self.inside();
        let Some(row) = self.row(&inside, handle) else {
            return;
        };
        let stopped = row.k_stopped.load(Relaxed);
        if stopped >= row.k_started.load(Relaxed) {
            return self.odd(Odd::DoubleStop);
        }
        let nchannels = u16::from(row.nchannels.load(Relaxed));
        if stopped + 1 >= nchannels {
            row.k_seen.store(self.clock.ticks(), Relaxed);
        }
        row.k_stopped.store(stopped + 1, Release);
    }
}

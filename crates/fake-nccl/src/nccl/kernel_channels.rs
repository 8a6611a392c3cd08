//! KernelCh and KernelPhase: when each channel of a kernel ran on the GPU.

use super::progress::Progress;
use super::work::Work;
use crate::event::{Event, Handle, StateArgs};
use nccl_abi::state;

/// A tick of the GPU's clock.
const TICK_NS: u64 = 32;

impl Progress {
    /// Waits until a kernel has begun, and starts its channels: each with its handle.
    pub(super) fn start_channels(&self, work: &Work) -> Vec<(u8, Handle)> {
        let Some(start) = work.kernel.and_then(|kernel| kernel.start) else {
            return Vec::new();
        };
        self.timeline.wait_gpu(start);
        let one = |(i, channel)| {
            let mut handle = Handle::NULL;
            let stamp = self.timeline.stamp(start + TICK_NS * i as u64);
            let event = Event::KernelCh { channel, stamp };
            self.start(&event, work.parent, 0, &mut handle);
            (channel, handle)
        };
        work.channels().enumerate().map(one).collect()
    }

    /// Waits until a kernel has ended, and stops its channels. If the kernel never ends, they stay open.
    pub(super) fn stop_channels(&self, work: &Work, channels: &[(u8, Handle)]) {
        let kernel = work.kernel.unwrap_or_default();
        let (Some(start), Some(stop)) = (kernel.start, kernel.stop) else {
            return;
        };
        self.timeline.wait_gpu(stop);
        let table = &self.profiler.table;
        for (i, (channel, handle)) in channels.iter().enumerate() {
            // NCCL makes no further call for a channel without a handle.
            if *handle == Handle::NULL {
                continue;
            }
            if work.phases {
                let ready = kernel.ready.unwrap_or(start).clamp(start, stop);
                self.phases(*channel, *handle, [start, ready, stop]);
            }
            if self.native >= 4 {
                // The last channel ends the kernel, the others a tick or more before it.
                let after = (channels.len() - 1 - i) as u64;
                let early = (TICK_NS * after).min(stop - start);
                let stamp = self.timeline.stamp(stop - early);
                let args = StateArgs::KernelCh { stamp };
                table.state(*handle, state::KERNEL_CH_STOP, args);
            }
            table.stop(*handle);
        }
    }

    /// The phases of a kernel on one channel: it waits until all ranks have come, and then it moves bytes.
    fn phases(&self, channel: u8, parent: Handle, [start, ready, stop]: [u64; 3]) {
        let table = &self.profiler.table;
        let phases = [
            (c"initial sync", start, ready),
            (c"compute", ready, stop),
            (c"final sync", stop, stop),
        ];
        for (phase, (name, from, to)) in phases.into_iter().enumerate() {
            let mut handle = Handle::NULL;
            let event = Event::KernelPhase {
                channel,
                phase: phase as u8,
                name,
                stamp: self.timeline.stamp(from),
            };
            self.start(&event, parent, 0, &mut handle);
            let stamp = self.timeline.stamp(to);
            let args = StateArgs::KernelCh { stamp };
            table.state(handle, state::KERNEL_PHASE_STOP, args);
            table.stop(handle);
        }
    }
}

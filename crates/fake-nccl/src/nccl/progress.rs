//! What the progress thread calls its plugin with.

use super::timeline::Timeline;
use super::work::{Side, Work};
use crate::event::{Event, Handle, StateArgs};
use crate::plugin::Profiler;
use nccl_abi::event::PROXY_CTRL;
use nccl_abi::state;
use std::sync::mpsc::Receiver;

/// What the progress thread calls its plugin with.
pub(super) struct Progress {
    pub(super) version: u32,
    pub(super) native: u8,
    pub(super) profiler: Profiler,
    pub(super) rank: i32,
    pub(super) timeline: Timeline,
}

impl Progress {
    pub(super) fn run(self, works: Receiver<Work>, network: bool) {
        let control = |value: u32, args: StateArgs| {
            if network && self.profiler.mask() & PROXY_CTRL != 0 {
                // NCCL passes the address of an uninitialised variable here.
                let mut handle = Handle::GARBAGE;
                self.start(&Event::ProxyCtrl, Handle::NULL, 0, &mut handle);
                self.profiler.table.state(handle, value, args);
                self.profiler.table.stop(handle);
            }
        };
        // NCCL makes the progress thread for its first work, so nothing is told before.
        while let Ok(first) = works.recv() {
            control(state::PROXY_CTRL_WAKEUP, StateArgs::Null);
            for work in std::iter::once(first).chain(works.try_iter()) {
                control(state::PROXY_CTRL_APPEND, StateArgs::Null);
                control(
                    state::PROXY_CTRL_APPEND_END,
                    StateArgs::ProxyCtrl { appended: 1 },
                );
                self.work(&work);
            }
            control(state::PROXY_CTRL_IDLE, StateArgs::Null);
            control(state::PROXY_CTRL_SLEEP, StateArgs::Null);
        }
    }

    pub(super) fn start(&self, event: &Event, parent: Handle, rank: i32, slot: &mut Handle) {
        self.profiler.start(event, parent, rank, slot);
    }

    pub(super) fn work(&self, work: &Work) {
        let table = &self.profiler.table;
        let channels = work.first_channel..work.first_channel + work.channels;
        let mut kernels = Vec::with_capacity(usize::from(work.channels));
        let kernel = work.kernel.unwrap_or_default();
        if let Some(start) = kernel.start {
            self.timeline.wait_gpu(start);
            for (i, channel) in channels.clone().enumerate() {
                let mut handle = Handle::NULL;
                let stamp = self.timeline.stamp(start + 32 * i as u64);
                self.start(
                    &Event::KernelCh { channel, stamp },
                    work.parent,
                    0,
                    &mut handle,
                );
                kernels.push(handle);
            }
        }
        let drag = |side: &Side| {
            let (stop, drags) = work.drags?;
            drags[usize::from(side.send)].map(|drag| (stop.saturating_sub(drag.ns), drag.state))
        };
        let mut sides: Vec<&Side> = work.sides.iter().collect();
        sides.sort_by_key(|side| drag(side).map(|(from, _)| from));
        let mut paused = Vec::new();
        for side in sides {
            if let Some((from, _)) = drag(side) {
                self.timeline.wait_gpu(from);
            }
            let pause = drag(side).map(|(_, state)| state);
            for channel in channels.clone() {
                paused.extend(self.network(work, side, channel, pause, None));
            }
        }
        if let (false, Some((stop, _))) = (paused.is_empty(), work.drags) {
            self.timeline.wait_gpu(stop);
        }
        for paused in paused {
            self.network(work, paused.side, paused.channel, None, Some(paused));
        }
        let (Some(start), Some(stop)) = (kernel.start, kernel.stop) else {
            return;
        };
        self.timeline.wait_gpu(stop);
        let last = kernels.len().saturating_sub(1);
        for (i, (channel, handle)) in channels.zip(kernels).enumerate() {
            // A plugin that gave no handle hears no more of it.
            if handle == Handle::NULL {
                continue;
            }
            if work.phases {
                let marks = [start, start + (stop - start) / 4, stop, stop];
                for (phase, name) in [c"initial sync", c"compute", c"final sync"]
                    .iter()
                    .enumerate()
                {
                    let mut at = Handle::NULL;
                    let event = Event::KernelPhase {
                        channel,
                        phase: phase as u8,
                        name,
                        stamp: self.timeline.stamp(marks[phase]),
                    };
                    self.start(&event, handle, 0, &mut at);
                    let stamp = self.timeline.stamp(marks[phase + 1]);
                    table.state(at, state::KERNEL_PHASE_STOP, StateArgs::KernelCh { stamp });
                    table.stop(at);
                }
            }
            if self.native >= 4 {
                // The last channel ends the kernel, the others a tick or more before it.
                let early = (32 * (last - i) as u64).min(stop - start);
                let stamp = self.timeline.stamp(stop - early);
                table.state(handle, state::KERNEL_CH_STOP, StateArgs::KernelCh { stamp });
            }
            table.stop(handle);
        }
    }
}

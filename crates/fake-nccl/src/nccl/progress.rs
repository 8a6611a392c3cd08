//! What NCCL's own threads do: the proxy's progress thread, and the profiler thread of 2.31 and later.
//!
//! [`Progress::run`] takes [`Work`] from the launching threads. It plays ProxyCtrl events around it;
//! `kernel_channels` and `proxy` play the rest, with the link to the plugin of the work's communicator.
//! ProxyCtrl events are those of the communicator that made the thread.

use super::timeline::VirtualClock;
use super::work::Work;
use crate::event::{Event, Handle, StateArgs};
use crate::plugin::PluginContext;
use nccl_abi::event::PROXY_CTRL;
use nccl_abi::state;
use std::sync::atomic::{AtomicUsize, Ordering::Release};
use std::sync::mpsc::Receiver;

/// What a thread needs to call the plugin.
pub(super) struct Progress {
    pub(super) version: u32,
    pub(super) native: u8,
    pub(super) profiler: PluginContext,
    pub(super) rank: i32,
    /// Whether the network plugin has events of its own.
    pub(super) net_plugin: bool,
    pub(super) timeline: VirtualClock,
    /// Work of this communicator that its threads have not done.
    pub(super) pending: AtomicUsize,
}

impl Progress {
    pub(super) fn run(&self, works: Receiver<Work>, network: bool) {
        let control = |value: u32, args: StateArgs| {
            if network && self.profiler.mask() & PROXY_CTRL != 0 {
                // NCCL passes the address of an uninitialised variable here.
                let mut handle = Handle::GARBAGE;
                self.start(&Event::ProxyCtrl, Handle::NULL, 0, &mut handle);
                self.profiler.table.state(handle, value, args);
                self.profiler.table.stop(handle);
            }
        };
        // NCCL starts the progress thread with its first work, so no event comes before.
        while let Ok(first) = works.recv() {
            control(state::PROXY_CTRL_WAKEUP, StateArgs::Null);
            for work in std::iter::once(first).chain(works.try_iter()) {
                control(state::PROXY_CTRL_APPEND, StateArgs::Null);
                control(
                    state::PROXY_CTRL_APPEND_END,
                    StateArgs::ProxyCtrl { appended: 1 },
                );
                work.of.work(&work);
                work.of.pending.fetch_sub(1, Release);
            }
            control(state::PROXY_CTRL_IDLE, StateArgs::Null);
            control(state::PROXY_CTRL_SLEEP, StateArgs::Null);
        }
    }

    pub(super) fn start(&self, event: &Event, parent: Handle, rank: i32, slot: &mut Handle) {
        self.profiler.start(event, parent, rank, slot);
    }

    fn work(&self, work: &Work) {
        let channels = self.start_channels(work);
        self.network(work);
        self.stop_channels(work, &channels);
    }
}

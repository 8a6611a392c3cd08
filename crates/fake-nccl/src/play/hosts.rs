//! Hosts that wait for their GPUs.

use super::driver::Driver;
use super::job::{Flow, Stuck};
use crate::gpu::{self, Gpu};

impl Driver<'_> {
    /// My ranks of `who` wait until their GPUs are done. If one waits for ever, its thread makes no further
    /// call.
    pub(super) fn sync(&mut self, who: &[bool]) -> Flow {
        self.schedule.sync(who);
        self.host_callbacks.drain();
        for rank in self.mine.clone() {
            if self.schedule.gone(rank) {
                return Flow::Break(Stuck);
            }
            if let (Some(gpu), true) = (gpu::get(), who[rank]) {
                // However far it was ahead, it is not back before its GPU is done.
                self.has_synced[rank] = true;
                if let Some(due) = self.timeline(rank).instant(self.schedule.host[rank]) {
                    gpu.synchronise(Gpu::compute_stream(rank), due);
                }
            }
            self.wait_host(rank);
        }
        // In virtual time nobody has waited for the threads that deliver what the GPUs did.
        if self.job.script.virtual_time {
            self.launcher.comms.iter().for_each(|of| of.wait());
        }
        Flow::Continue(())
    }
}

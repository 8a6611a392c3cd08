//! Hostile callbacks, and a mask that somebody else sets.

use super::driver::Driver;
use crate::fault::{self, Fault};
use std::sync::atomic::Ordering::Relaxed;

impl Driver<'_> {
    /// A fault on the first communicator of each of my ranks in `who`.
    pub(super) fn fault(&mut self, fault: Fault, who: &[bool]) {
        self.fault_seed += 1;
        let mine = self.mine.iter().filter(|r| who[**r]);
        for rank in mine {
            let open = self.open.iter().filter(|((_, r), _)| r == rank);
            let comm = open.min().map(|(_, index)| &self.launcher.comms[*index]);
            if let Some(profiler) = comm.and_then(|c| c.profiler.as_ref()) {
                fault::play(fault, profiler, self.fault_seed);
            }
        }
    }

    /// As RAS does for `CONTROL PROFILER_MASK`: in the processes of these ranks, once their earlier calls are
    /// announced.
    pub(super) fn mask(&mut self, bits: u32, who: &[bool]) {
        self.host_callbacks.drain();
        let mine: Vec<usize> = self.mine.iter().copied().filter(|r| who[*r]).collect();
        for rank in mine {
            self.wait_host(rank);
            self.job.loader.mask().store(bits as i32, Relaxed);
        }
    }
}

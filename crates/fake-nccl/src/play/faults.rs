//! Hostile callbacks.

use super::driver::Driver;
use crate::fault::{self, Fault};

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
}

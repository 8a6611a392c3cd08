//! Kernels of the program's own, and streams that wait for each other.
//!
//! The schedule says when they run. A GPU, if the job has one, then does the same on its streams.

use super::driver::Driver;
use crate::gpu::{self, Gpu};
use crate::schedule::ranks;

impl Driver<'_> {
    pub(super) fn compute(&mut self, time: u64, who: &[bool]) {
        self.schedule.compute(who, time);
        self.computed(who);
    }

    /// The compute streams wait for the operations before.
    pub(super) fn join(&mut self, who: &[bool]) {
        self.computed(who);
        if let Some(gpu) = gpu::get() {
            for rank in self.mine.iter().filter(|rank| who[**rank]) {
                for ((_, of), index) in &self.open {
                    if of == rank {
                        let stream = self.launcher.comms[*index].stream;
                        gpu.join(*rank, stream as u64);
                    }
                }
            }
        }
        self.schedule.join(who);
    }

    /// What the host has done by now reaches the compute streams.
    fn computed(&self, who: &[bool]) {
        let Some(gpu) = gpu::get() else { return };
        for rank in ranks(who).filter(|rank| self.mine.contains(rank)) {
            let until = self.schedule.computing(rank).into_iter().max();
            let until = until.and_then(|at| self.timeline(rank).instant(at));
            if until.is_some() {
                gpu.busy(Gpu::compute_stream(rank), until);
            }
        }
    }
}

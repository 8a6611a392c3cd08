//! One communicator's place in the experiment.

use crate::arms::Experiment;
use crate::log::Log;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// A communicator, as the tuner keeps it.
pub struct KnownCommunicator {
    /// Its part in the experiment, if it has one.
    pub tuned: Option<TunedCommunicator>,
    /// Its id, which is 0 if NCCL does not tell it.
    pub id: u64,
    /// Its ranks.
    pub ranks: u32,
    /// Its nodes.
    pub nodes: u32,
}

/// A communicator that is tuned. NCCL lets one thread at a time make calls on a communicator, so what is here
/// is stored by one thread at a time.
pub struct TunedCommunicator {
    id: u64,
    /// In the log.
    number: u32,
    /// Collectives that were asked for.
    asked: AtomicU64,
    /// The arm of this block.
    arm: AtomicU32,
    /// Calls of this block that did not get it.
    refused: AtomicU32,
}

impl TunedCommunicator {
    /// A communicator with this id, which is 0 if NCCL does not tell it.
    pub fn new(id: u64, number: u32) -> TunedCommunicator {
        TunedCommunicator {
            id,
            number,
            asked: AtomicU64::new(0),
            arm: AtomicU32::new(0),
            refused: AtomicU32::new(0),
        }
    }

    /// The arm of the next collective.
    pub fn next(&self, experiment: &Experiment, log: &Log) -> usize {
        let asked = self.asked.load(Relaxed);
        self.asked.store(asked + 1, Relaxed);
        if !asked.is_multiple_of(experiment.block) {
            return self.arm.load(Relaxed) as usize;
        }
        let block = asked / experiment.block;
        let arm = experiment.arm_of(self.id, block);
        self.arm.store(arm as u32, Relaxed);
        let refused = self.refused.swap(0, Relaxed);
        log.block(self.number, block, arm, refused, asked);
        arm
    }

    /// Notes that a call did not get the arm.
    pub fn refuse(&self) {
        self.refused
            .store(self.refused.load(Relaxed).saturating_add(1), Relaxed);
    }
}

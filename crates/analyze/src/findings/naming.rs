//! What else is known of those that findings are about: GPUs by their UUID, communicators by their members.

use super::{CommunicatorId, Finding};
use crate::subject::gpu;
use tables::Capture;

/// Adds what `capture` knows of the subjects of `findings`: GPUs, and names and members of communicators.
pub fn name(findings: &mut [Finding], capture: &Capture) {
    for finding in findings {
        for rank in &mut finding.subject.ranks {
            rank.gpu = gpu(rank, capture);
        }
        if let Some(communicator) = &mut finding.subject.communicator {
            members(communicator, capture);
        }
    }
}

fn members(of: &mut CommunicatorId, capture: &Capture) {
    let mut all = capture.communicators.iter();
    let Some(found) = all.find(|communicator| communicator.id == of.id) else {
        return;
    };
    of.name.clone_from(&found.name);
    let ranks = found.members.iter();
    let ranks = ranks.filter_map(|member| capture.processes.get(member.process)?.rank);
    of.ranks = ranks.collect();
    of.ranks.sort_unstable();
    of.ranks.dedup();
}

//! Which communicator of the capture an init of NCCL's output made.

use setup::log::Init;
use tables::communicators::Local;
use tables::{Capture, Process};

/// The id of a process's communicator in the capture.
pub(crate) fn id(capture: &Capture, process: usize, local: &Local) -> Option<String> {
    let of = capture.communicators.iter().find(|communicator| {
        let mut members = communicator.members.iter();
        members.any(|m| m.process == process && m.uid == local.uid)
    });
    of.map(|of| of.id.clone())
}

/// The process's own view of a communicator that NCCL counted, if only one fits.
pub(crate) fn only_local<'a>(process: &'a Process, init: &Init) -> Option<&'a Local> {
    let fits = |local: &&Local| {
        local.nranks == init.nranks && local.rank.is_none_or(|rank| rank == init.rank)
    };
    let mut fitting = process.communicators.iter().filter(fits);
    fitting.next().filter(|_| fitting.next().is_none())
}

/// The process's own view of the communicator that each of its inits made.
pub(crate) fn locals(process: &Process) -> Vec<Option<&Local>> {
    let mut left: Vec<&Local> = process.communicators.iter().collect();
    left.sort_by_key(|local| local.created_ns);
    let find = |init: &Init| {
        let fits = |local: &Local| {
            local.nranks == init.nranks && local.rank.is_none_or(|rank| rank == init.rank)
        };
        let same = |local: &Local| fits(local) && init.id == Some(local.hash);
        // Of one that was split from another NCCL prints no id.
        let at = left.iter().position(|local| same(local)).or_else(|| {
            let mut left = left.iter();
            left.position(|local| init.id.is_none() && fits(local))
        });
        at.map(|at| left.remove(at))
    };
    let inits = process.setup.inits.iter();
    inits.map(find).collect()
}

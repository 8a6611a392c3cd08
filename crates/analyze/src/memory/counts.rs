//! What NCCL itself counts of each communicator's memory, beside what its output says.

use super::NcclCount;
use setup::log::Init;
use setup::memory::Sizes;
use tables::Process;

/// The step of a communicator of which only the sum is known.
pub(super) const IN_ALL: &str = "in all";

/// What NCCL counted of one communicator of a process.
pub(super) struct Count {
    pub(super) comm: u64,
    pub(super) rank: u32,
    pub(super) nranks: u32,
    pub(super) device: Option<u32>,
    pub(super) counted: NcclCount,
}

/// Whether a communicator shares buffers with its parent or its children, by NCCL's output.
fn shares(process: &Process, comm: u64) -> bool {
    let mut sharing = process.setup.inits.iter().filter(|init| init.shares);
    sharing.any(|init| {
        let parent = init.split.map(|(parent, ..)| parent);
        init.comm == Some(comm) || parent == Some(comm)
    })
}

/// What NCCL counted, by communicator. A pointer that comes again may be another one's.
pub(super) fn counts(process: &Process) -> Vec<Count> {
    let mut counts: Vec<Count> = Vec::new();
    for asked in &process.setup.comm_memory {
        let same = |count: &&mut Count| {
            let of = (count.comm, count.rank, count.nranks);
            of == (asked.comm, asked.rank, asked.nranks)
        };
        match counts.iter_mut().find(same) {
            Some(count) => {
                let counted = &mut count.counted;
                counted.most_gpu_bytes = counted.most_gpu_bytes.max(asked.held());
                counted.last_gpu_bytes = asked.held();
                counted.suspendable_gpu_bytes = asked.suspendable;
            }
            None => counts.push(Count {
                comm: asked.comm,
                rank: asked.rank,
                nranks: asked.nranks,
                device: asked.device,
                counted: NcclCount {
                    first_gpu_bytes: asked.held(),
                    most_gpu_bytes: asked.held(),
                    last_gpu_bytes: asked.held(),
                    suspendable_gpu_bytes: asked.suspendable,
                    is_shared: shares(process, asked.comm),
                },
            }),
        }
    }
    counts
}

/// Communicators that NCCL counted, of which its output says nothing: an init without steps for each.
pub(super) fn counted_only(process: &Process) -> Vec<(Init, NcclCount)> {
    let said = |count: &Count| {
        let mut inits = process.setup.inits.iter();
        inits.any(|init| is_of(init, count))
    };
    let init = |count: Count| {
        let mut init = Init {
            host: process.host.clone(),
            pid: process.pid,
            device: count.device,
            rank: count.rank,
            nranks: count.nranks,
            comm: Some(count.comm),
            ..Init::default()
        };
        init.memory.steps.push(setup::memory::MemoryStep {
            name: IN_ALL.to_owned(),
            sizes: Sizes {
                gpu: count.counted.most_gpu_bytes,
                ..Sizes::default()
            },
        });
        (init, count.counted)
    };
    let counts = counts(process).into_iter();
    counts.filter(|count| !said(count)).map(init).collect()
}

/// Whether an init is that of a communicator that NCCL counted.
pub(super) fn is_of(init: &Init, count: &Count) -> bool {
    let said = !init.memory.steps.is_empty();
    said && (init.comm, init.rank, init.nranks) == (Some(count.comm), count.rank, count.nranks)
}

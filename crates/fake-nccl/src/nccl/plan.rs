//! What NCCL makes of calls: collectives, sends and receives, with their channels, algorithms and network
//! peers.

use super::communicator::Communicator;
use super::work::Side;
use crate::event::{Handle, Text};
use crate::schedule::Kernel;
use crate::script::{Call, Op, Path};

/// One call of a group, on one of the launcher's communicators.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// Index in [`super::Launcher::comms`].
    pub comm: usize,
    /// The call.
    pub call: Call,
    /// When the group's kernel on this communicator runs.
    pub kernel: Kernel,
    /// From the last arrival to the end, for this call.
    pub time: u64,
}

/// What a task becomes inside NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskPart {
    Coll,
    Send(usize),
    Recv(usize),
}

/// Why a plan's events are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Play {
    Now,
    Capture,
    Replay,
}

/// A part that goes to a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub(super) task: usize,
    pub(super) part: TaskPart,
    pub(super) api: Handle,
    pub(super) mask: u64,
}

/// The user's count.
pub(super) fn count(call: Call, comm: &Communicator) -> u64 {
    call.bytes / call.op.divisor(comm.size()) / datatype_size(call.datatype)
}

pub(super) fn datatype_size(datatype: Text) -> u64 {
    nccl_abi::names::datatype_size(datatype.to_bytes()) as u64
}

/// Count and datatype of the Coll event: AllGather and Broadcast were converted to bytes.
pub(super) fn launched_count(call: &Call, comm: &Communicator) -> (usize, Text) {
    let count = count(*call, comm);
    match call.op {
        Op::AllGather | Op::Broadcast => {
            ((count * datatype_size(call.datatype)) as usize, c"ncclInt8")
        }
        _ => (count as usize, call.datatype),
    }
}

pub(super) fn func(part: TaskPart, call: &Call) -> Text {
    match part {
        TaskPart::Coll => call.op.func(),
        TaskPart::Send(_) => c"Send",
        TaskPart::Recv(_) => c"Recv",
    }
}

/// The collective, or the sends and receives, that a call becomes.
pub(super) fn parts(call: Call, comm: &Communicator) -> Vec<TaskPart> {
    let (rank, ranks) = (comm.rank(), comm.size());
    let root = call.root as usize % ranks;
    // Copy engines keep the collective whole.
    if call.path == Path::CopyEngine {
        return vec![TaskPart::Coll];
    }
    match call.op {
        Op::Send => vec![TaskPart::Send(call.peer.of(rank, ranks))],
        Op::Recv => vec![TaskPart::Recv(call.peer.of(rank, ranks))],
        Op::AlltoAll => (0..ranks)
            .flat_map(|i| {
                [
                    TaskPart::Send((rank + i) % ranks),
                    TaskPart::Recv((rank + ranks - i) % ranks),
                ]
            })
            .collect(),
        Op::Gather | Op::Scatter => {
            let (mine, roots): (TaskPart, fn(usize) -> TaskPart) = match call.op {
                Op::Gather => (TaskPart::Send(root), TaskPart::Recv),
                _ => (TaskPart::Recv(root), TaskPart::Send),
            };
            let all = (0..ranks).map(roots).filter(|_| rank == root);
            all.chain([mine]).collect()
        }
        _ => vec![TaskPart::Coll],
    }
}

/// The parts that reach a kernel of one communicator, and have events.
pub(super) fn plan_of(
    index: usize,
    comm: &Communicator,
    tasks: &[Task],
    planned: &[Planned],
) -> Vec<Planned> {
    let shown = |p: &&Planned| {
        let task = &tasks[p.task];
        let call = &task.call;
        let own = comm.rank();
        task.comm == index
            && match (call.path, p.part) {
                (Path::CopyEngine, _) => false,
                (Path::Symmetric, _) => !(22700..23100).contains(&comm.version),
                // From 2.29 on it becomes a fused AllGatherV, which loses its mask on the way.
                (_, TaskPart::Coll) if call.op == Op::Broadcast => {
                    comm.version < 22900 || !comm.all_gather_v
                }
                (_, TaskPart::Send(peer) | TaskPart::Recv(peer)) => !(call.in_place && peer == own),
                _ => true,
            }
    };
    planned.iter().filter(shown).copied().collect()
}

pub(super) fn proto(call: &Call) -> Text {
    call.proto.unwrap_or(match call.bytes {
        ..=65536 => c"LL",
        65537..=1_048_576 => c"LL128",
        _ => c"SIMPLE",
    })
}

pub(super) fn channels(call: &Call, part: TaskPart) -> u8 {
    match (call.channels, part) {
        (Some(n), _) => n,
        (None, TaskPart::Coll) => (call.bytes >> 16).clamp(1, 16) as u8,
        (None, _) => (call.bytes >> 20).clamp(1, 2) as u8,
    }
}

/// The number of channels in the Coll event.
pub(super) fn told_channels(call: &Call, comm: &Communicator, used: u8) -> u8 {
    let algo = call.algo.to_bytes();
    let nodes = distinct(&comm.hosts);
    if algo.starts_with(b"COLLNET") || (nodes > 1 && algo.starts_with(b"NVLS")) {
        0
    } else {
        used
    }
}

pub(super) fn distinct(hosts: &[usize]) -> usize {
    let mut hosts = hosts.to_vec();
    hosts.sort_unstable();
    hosts.dedup();
    hosts.len()
}

pub(super) fn variant(op: Op) -> Text {
    match op {
        Op::AllGather => c"AllGather_STMC",
        Op::ReduceScatter => c"ReduceScatter_LDMC",
        _ => c"AllReduce_RSxLDMC_AGxSTMC",
    }
}

pub(super) fn suffix(op: Op) -> Text {
    match op {
        Op::AllGather => c"STMC",
        Op::ReduceScatter => c"LDMC",
        _ => c"RSxLDMC_AGxSTMC",
    }
}

/// The network work of a part: a ring to the next and from the previous host, or a peer on another host.
pub(super) fn sides(call: &Call, part: TaskPart, comm: &Communicator) -> Vec<Side> {
    let (rank, ranks) = (comm.rank(), comm.size());
    let far = |peer: usize| comm.hosts[peer] != comm.hosts[rank];
    if call.path != Path::Kernel {
        return Vec::new();
    }
    let side = |peer: usize, send: bool, bytes: u64| {
        far(peer).then_some(Side {
            peer: peer as i32,
            send,
            bytes,
        })
    };
    let each = call.bytes / call.op.divisor(ranks);
    let found = match part {
        TaskPart::Send(peer) => [side(peer, true, each), None],
        TaskPart::Recv(peer) => [side(peer, false, each), None],
        TaskPart::Coll => {
            let n = ranks as u64;
            let bytes = match call.op {
                Op::AllReduce => 2 * call.bytes * (n - 1) / n,
                Op::AllGather | Op::ReduceScatter => call.bytes * (n - 1) / n,
                _ => call.bytes,
            };
            let (next, previous) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
            [side(next, true, bytes), side(previous, false, bytes)]
        }
    };
    found.into_iter().flatten().collect()
}

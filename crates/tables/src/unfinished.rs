//! Calls that can't have completed, because another rank never made them.
//!
//! A recorder writes a call as finished once NCCL has returned from it, and the GPU may wait for ever then.
//! [`mark`] compares the ranks of each communicator. It looks for the first AllReduce, AllGather or
//! ReduceScatter that some rank did not make. From there on nothing on the communicator completes, because
//! NCCL runs its calls in order.
//!
//! Rule: only what is proved. All ranks of the communicator must be in the capture, with all their calls.

use crate::calls::{Call, Shape};
use crate::communicators::Communicator;
use crate::names::Names;
use crate::process::{LiveSource, Process};
use capture::live::flag;

/// Collectives that no rank can leave before all have come.
const NEED_ALL: [&str; 3] = ["AllReduce", "AllGather", "ReduceScatter"];

/// Writes down from which ticket on calls can't have completed.
pub(crate) fn mark(processes: &mut [Process], communicators: &[Communicator], names: &Names) {
    for communicator in communicators {
        let members = &communicator.members;
        let whole = |index: usize| is_whole(&processes[index]);
        let complete = communicator
            .nranks
            .is_some_and(|n| members.len() == n as usize);
        if members.len() < 2 || !complete || !members.iter().all(|m| whole(m.process)) {
            continue;
        }
        let made = |member: &crate::communicators::Member| {
            let process = &processes[member.process];
            collectives(process, member.uid).count()
        };
        let Some(least) = members.iter().map(made).min() else {
            continue;
        };
        let stuck = |member: &crate::communicators::Member| {
            let process = &processes[member.process];
            let mut beyond = collectives(process, member.uid).skip(least);
            // Calls of one group have no order.
            let group = process_group(process, member.uid, least);
            let needs_all = |(call, shape): &(&Call, &Shape)| {
                let function = names.get(shape.function);
                function.is_some_and(|f| NEED_ALL.contains(&f))
                    && (call.group == 0 || Some(call.group) != group)
            };
            let (first, _) = beyond.find(needs_all)?;
            Some((member.process, member.uid, first.ticket))
        };
        let found: Vec<(usize, u32, u64)> = members.iter().filter_map(stuck).collect();
        for (process, uid, ticket) in found {
            processes[process].stuck_from.insert(uid, ticket);
        }
    }
}

/// The group of the last collective that all ranks made.
fn process_group(process: &Process, uid: u32, least: usize) -> Option<u64> {
    let last = least.checked_sub(1)?;
    let (call, _) = collectives(process, uid).nth(last)?;
    (call.group != 0).then_some(call.group)
}

/// Collectives on a communicator that the program called itself.
fn collectives(process: &Process, uid: u32) -> impl Iterator<Item = (&Call, &Shape)> {
    let shaped = process
        .calls
        .iter()
        .map(|call| (call, &process.shapes[call.shape as usize]));
    shaped.filter(move |(_, shape)| {
        let own = shape.flags & (flag::P2P | flag::REPLAY | flag::CAPTURED) == 0;
        shape.uid == uid && own
    })
}

/// Whether all calls of a process are here, and no graph replays that nobody saw.
fn is_whole(process: &Process) -> bool {
    let announced = process.counters.as_ref().map(|counters| counters.announced);
    let captured = process.shapes.iter().any(|shape| shape.is(flag::CAPTURED));
    process.live != LiveSource::None
        && !captured
        && process.rotated == 0
        && announced == Some(process.calls.len() as u64)
}

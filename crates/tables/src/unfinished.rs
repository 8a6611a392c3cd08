//! Calls that can't have completed, because another rank never made them.
//!
//! A recorder writes a call as finished once NCCL has returned from it, and the GPU may wait for ever then.
//! [`mark`] compares the ranks of each communicator. It looks for the first AllReduce, AllGather or
//! ReduceScatter that some rank did not make. From there on nothing on the communicator completes, because
//! NCCL runs its calls in order.
//!
//! Rule: only what is proved. All ranks of the communicator must be in the capture, with all their calls.

use crate::calls::Call;
use crate::communicators::{Communicator, Member};
use crate::names::Names;
use crate::process::{LiveSource, Process};
use capture::live::flag;
use std::collections::HashMap;

/// Collectives that no rank can leave before all have come.
const NEED_ALL: [&str; 3] = ["AllReduce", "AllGather", "ReduceScatter"];

/// The collectives of a process that the program called itself, as indexes into its calls, by the process's
/// number of the communicator.
type Collectives = HashMap<u32, Vec<u32>>;

/// Writes down from which ticket on calls can't have completed.
pub(crate) fn mark(processes: &mut [Process], communicators: &[Communicator], names: &Names) {
    // Once for all communicators: there may be thousands of them.
    let whole = processes.iter().map(is_whole);
    let made = whole.zip(&*processes);
    let made: Vec<Option<Collectives>> = made
        .map(|(whole, process)| whole.then(|| collectives(process)))
        .collect();
    let mut found = Vec::new();
    for communicator in communicators {
        let members = &communicator.members;
        let complete = communicator
            .nranks
            .is_some_and(|n| members.len() == n as usize);
        if members.len() < 2 || !complete {
            continue;
        }
        let of_member = |member: &Member| {
            let own = made[member.process].as_ref()?.get(&member.uid);
            Some(own.map_or(&[][..], Vec::as_slice))
        };
        let of_members: Option<Vec<&[u32]>> = members.iter().map(of_member).collect();
        let Some(of_members) = of_members else {
            continue;
        };
        let least = of_members.iter().map(|made| made.len()).min();
        for (member, made) in members.iter().zip(of_members) {
            let process = &processes[member.process];
            let call = |at: &u32| &process.calls[*at as usize];
            let (before, beyond) = made.split_at(least.unwrap_or(0));
            // Calls of one group have no order.
            let group = before.last().map_or(0, |last| call(last).group);
            let needs_all = |call: &&Call| {
                let function = names.get(process.shapes[call.shape as usize].function);
                function.is_some_and(|f| NEED_ALL.contains(&f))
                    && (call.group == 0 || call.group != group)
            };
            if let Some(first) = beyond.iter().map(call).find(needs_all) {
                found.push((member.process, member.uid, first.ticket));
            }
        }
    }
    for (process, uid, ticket) in found {
        processes[process].stuck_from.insert(uid, ticket);
    }
}

fn collectives(process: &Process) -> Collectives {
    let mut all = Collectives::new();
    for (at, call) in (0..).zip(&process.calls) {
        let shape = &process.shapes[call.shape as usize];
        if shape.flags & (flag::P2P | flag::REPLAY | flag::CAPTURED) == 0 {
            all.entry(shape.uid).or_default().push(at);
        }
    }
    all
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

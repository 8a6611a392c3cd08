//! Which ranks are where, and how long operations take.

use crate::script::{Call, Script};

/// The ranks that a flag is set for.
pub fn ranks(who: &[bool]) -> impl Iterator<Item = usize> + '_ {
    who.iter()
        .enumerate()
        .filter_map(|(rank, on)| on.then_some(rank))
}

/// The communicator of this name that `rank` is in, and its rank there.
pub fn instance(script: &Script, comm: usize, rank: usize) -> Option<(usize, usize)> {
    let instances = script.comms[comm].instances.iter().enumerate();
    let mut found = instances.map(|(i, inst)| (i, inst.members.iter().position(|m| *m == rank)));
    found.find_map(|(i, at)| at.map(|at| (i, at)))
}

/// Hosts that a communicator spans.
pub fn nodes(script: &Script, members: &[usize]) -> usize {
    let mut hosts: Vec<usize> = members.iter().map(|m| script.host(*m)).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts.len()
}

/// From the last arrival to the end: as the script says, else from a round latency and bandwidth.
pub fn time(script: &Script, call: &Call, members: &[usize]) -> u64 {
    if let Some(time) = call.time_ns {
        return time;
    }
    let (latency_us, gb_per_s) = match nodes(script, members) {
        1 => (10, 300),
        _ => (30, 40),
    };
    latency_us * 1000 + call.bytes / gb_per_s
}

//! Ranks inside of functions that wait for other ranks and are no calls of a communicator: NCCL's that make
//! and end communicators, and MPI's.
//!
//! NCCL tells a profiler nothing of a communicator before it is made, and MPI has communicators of its own.
//! So which ranks belong together there is not known, and a rank that is not there may not be awaited. Ranks
//! that do belong together call the same function: if most are in one, and a few in another, those went
//! elsewhere.
//!
//! Rule: a job in which any rank made a call lately, or went in lately, does not stand still.

use super::case::Case;
use super::decide::name_of;
use super::inside::{in_mpi, Inside};
use super::liveness::Liveness;
use super::verdict::{Blocked, InFunction};
use crate::time::{HostTime, Nanos};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use tables::Process;

/// From here on a rank waits in MPI.
const LONG: Nanos = Nanos::SECOND;

/// What is known of ranks that are inside, and the processes that the others may wait for; `None` if none is
/// inside, or one did something lately. `newest_call_ago` is how long ago the newest call was made.
pub(super) fn blocked(
    case: &Case,
    newest_call_ago: Option<Nanos>,
) -> Option<(Blocked, Vec<usize>)> {
    let processes = case.capture.processes.iter().enumerate();
    let open =
        |(at, process): &(usize, &Process)| !process.ended && case.states[*at] != Liveness::Ended;
    let mut by_function: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let (mut outside, mut entered) = (Vec::new(), None);
    for (at, process) in processes.filter(open) {
        match inside(case, at, process) {
            Some((function, since)) => {
                by_function.entry(function).or_default().push(at);
                entered = entered.max(Some(since));
            }
            None => outside.push(at),
        }
    }
    let entered_ago = case.ago(Some(entered?))?;
    let lasted = newest_call_ago.map_or(entered_ago, |newest| newest.min(entered_ago));
    if lasted <= case.limits.brief {
        return None;
    }
    let mut groups: Vec<(String, Vec<usize>)> = by_function.into_iter().collect();
    groups.sort_by_key(|(_, ranks)| Reverse(ranks.len()));
    // Two halves may each have work of their own.
    let rest: usize = groups[1..].iter().map(|(_, ranks)| ranks.len()).sum();
    let is_most = 2 * rest <= groups[0].1.len();
    let elsewhere = groups[1..].iter().flat_map(|(_, ranks)| ranks).copied();
    let awaited = if outside.is_empty() && is_most {
        elsewhere.collect()
    } else {
        outside.clone()
    };
    let names = |these: &[usize]| {
        let name = |at: &usize| name_of(&case.capture.processes[*at]);
        these.iter().map(name).collect()
    };
    let group = |(function, ranks): &(String, Vec<usize>)| InFunction {
        function: function.clone(),
        ranks: names(ranks),
    };
    let found = Blocked {
        inside: groups.iter().map(group).collect(),
        outside: names(&outside),
        names_some: !awaited.is_empty(),
        lasted,
        by_time: case.limits.by_time(Some(lasted)),
    };
    Some((found, awaited))
}

/// The function that a process is inside of, and since when.
fn inside(case: &Case, at: usize, process: &Process) -> Option<(String, HostTime)> {
    let calls = process.setup.in_nccl.calls.iter();
    if let Some(newest) = calls.max_by_key(|call| call.since_ns) {
        return Some((newest.function.clone(), HostTime(newest.since_ns)));
    }
    let Inside { function, lasted } = in_mpi(process).filter(|inside| inside.lasted >= LONG)?;
    Some((function, case.evidence.newest[at]? - lasted))
}

//! Ranks inside of NCCL's functions that make and end communicators.
//!
//! NCCL tells a profiler nothing of a communicator before it is made. So which ranks belong to it is not
//! known, and a rank that is not there may not be awaited.
//!
//! Rule: a job in which any rank made a call lately, or went in lately, does not stand still.

use super::case::Case;
use super::decide::name_of;
use super::liveness::Liveness;
use super::verdict::InNccl;
use std::collections::BTreeSet;
use tables::Process;

/// What is known of ranks that are inside; `None` if none is, or one did something lately. `newest_call_ns`
/// is how long ago the newest call was made.
pub(super) fn in_nccl(case: &Case, newest_call_ns: Option<i64>) -> Option<(InNccl, Vec<usize>)> {
    let processes = case.capture.processes.iter().enumerate();
    let open =
        |(at, process): &(usize, &Process)| !process.ended && case.states[*at] != Liveness::Ended;
    let (inside, outside): (Vec<_>, Vec<_>) = processes
        .filter(open)
        .partition(|(_, process)| !process.setup.in_nccl.calls.is_empty());
    let calls = || {
        let processes = inside.iter();
        processes.flat_map(|(_, process)| &process.setup.in_nccl.calls)
    };
    let entered = calls().map(|call| call.since_ns).max()?;
    let for_ns = case.ago(Some(entered))?;
    let lasted_ns = newest_call_ns.map_or(for_ns, |newest| newest.min(for_ns));
    if lasted_ns <= case.limits.brief_ns {
        return None;
    }
    let functions: BTreeSet<&str> = calls().map(|call| call.function.as_str()).collect();
    let names = |these: &[(usize, &Process)]| these.iter().map(|(_, of)| name_of(of)).collect();
    let found = InNccl {
        functions: functions.into_iter().map(str::to_owned).collect(),
        inside: names(&inside),
        outside: names(&outside),
        for_ns: lasted_ns,
        by_time: case.limits.by_time(Some(lasted_ns)),
    };
    Some((found, outside.iter().map(|(at, _)| *at).collect()))
}

//! Which ranks are inside of MPI, or of a function of NCCL's that makes or ends a communicator.
//!
//! Rule: only a call of the thread that makes the rank's NCCL calls keeps it from its next one. Libraries
//! have threads of their own that always wait in MPI.

use crate::time::{HostTime, Nanos};
use tables::Process;

/// A call that has not returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    /// As in `mpi.h` or `nccl.h`.
    pub function: String,
    /// Since when, up to the newest evidence of the rank.
    pub lasted: Nanos,
}

/// The thread of the newest call of NCCL, if it is known.
pub(super) fn calling_thread(process: &Process) -> Option<u32> {
    process
        .shapes
        .get(process.calls.last()?.shape as usize)?
        .thread
}

/// The call of MPI that a process is in; `None` if it is in none, or if that was not seen.
pub(super) fn in_mpi(process: &Process) -> Option<Inside> {
    if process.ended {
        return None;
    }
    let by = calling_thread(process);
    let open = process.mpi.spans.iter().filter(|span| {
        let threads = by.zip(span.thread);
        span.open && threads.is_none_or(|(by, thread)| by == thread)
    });
    let longest = open.max_by_key(|span| span.inside)?;
    Some(Inside {
        function: process.mpi.name(longest).to_owned(),
        lasted: Nanos::from(longest.inside),
    })
}

/// The call that makes or ends a communicator that a process is in, as of `newest`, its newest evidence.
pub(super) fn in_nccl(process: &Process, newest: Option<HostTime>) -> Option<Inside> {
    if process.ended {
        return None;
    }
    let by = calling_thread(process);
    let mut open = process.setup.in_nccl.calls.iter();
    let first = open.find(|call| {
        let threads = by.zip(call.thread);
        threads.is_none_or(|(by, thread)| by == thread)
    })?;
    Some(Inside {
        function: first.function.clone(),
        lasted: newest
            .map_or(Nanos::ZERO, |newest| newest - HostTime(first.since_ns))
            .max(Nanos::ZERO),
    })
}

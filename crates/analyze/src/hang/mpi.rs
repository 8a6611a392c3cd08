//! Which ranks are inside of MPI.
//!
//! Rule: only a call of the thread that makes the rank's NCCL calls keeps it from its next one. Libraries
//! have threads of their own that always wait in MPI.

use tables::Process;

/// A call of MPI that has not returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InMpi {
    /// As in `mpi.h`.
    pub function: String,
    /// Since when, up to the newest evidence of the rank, ns.
    pub for_ns: i64,
}

/// The call of MPI that a process is in; `None` if it is in none, or if that was not seen.
pub(super) fn in_mpi(process: &Process) -> Option<InMpi> {
    if process.ended {
        return None;
    }
    let newest = process.calls.last();
    let by = newest.and_then(|call| process.shapes.get(call.shape as usize)?.thread);
    let open = process.mpi.spans.iter().filter(|span| {
        let threads = by.zip(span.thread);
        span.open && threads.is_none_or(|(by, thread)| by == thread)
    });
    let longest = open.max_by_key(|span| span.inside)?;
    Some(InMpi {
        function: process.mpi.name(longest).to_owned(),
        for_ns: longest.inside,
    })
}

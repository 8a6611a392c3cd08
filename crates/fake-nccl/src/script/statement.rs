//! One step of a job.
//!
//! `script.rs` says how to add one.

use super::call::Call;
use crate::fault::Fault;
use crate::stuck::{Drag, Stop};

/// One step of the job.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// Calls between ncclGroupStart and ncclGroupEnd. A call alone is an implicit group.
    Group {
        /// In order.
        calls: Vec<Call>,
        /// The script says `group`.
        explicit: bool,
    },
    /// The same statements several times.
    Repeat(u64, Vec<Statement>),
    /// Only these ranks do this.
    Only(Vec<usize>, Vec<Statement>),
    /// Something happens to these ranks.
    Rank(Vec<usize>, Act),
    /// A CUDA graph is captured: its index in [`super::Script::graphs`], and the calls.
    Graph(usize, Vec<Statement>),
    /// A CUDA graph is launched, so many times.
    Replay(usize, u64),
    /// The hosts do something else, for so many ns.
    Sleep(u64),
    /// The least host time from call to call, in ns, from now on.
    Pace(u64),
    /// The hosts wait for their GPUs.
    Sync,
    /// The GPUs run a kernel of the program's own for so many ns, beside NCCL's.
    Compute(u64),
    /// The GPUs' next kernel of the program's own waits for all operations before.
    Join,
    /// A communicator is made: its index in [`super::Script::comms`].
    Create(usize),
    /// A communicator is destroyed.
    Destroy(usize),
    /// A communicator is destroyed and made again with the same hash.
    Reinit(usize),
    /// Somebody else sets the activation mask of NCCL's profiler.
    Mask(u32),
    /// Hostile callbacks.
    Fault(Fault),
}

/// What happens to a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Late for its next call.
    Late(u64),
    /// Late for each call from now on.
    Slow(u64),
    /// SIGKILL.
    Kill,
    /// `exit` without destroying anything.
    Exit(i32),
    /// `_exit`.
    QuickExit(i32),
    /// `abort`.
    Abort,
    /// Makes no further call. Its process lives until the others have ended.
    Hang,
    /// As `Hang`, inside its next call.
    HangInside,
    /// Forks a child that exits at once; waits for it.
    Fork,
    /// Leaves its next call out.
    Skip,
    /// Its sends or receives of the next call stop on the way.
    Stuck(Stop),
    /// Its sends or receives take longer from now on.
    Drag(Drag),
}

//! One step of a job.

use super::call::Call;
use crate::fault::Fault;
use crate::stuck::{Drag, Stop};

/// One step of the job.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// Calls between group start and end; one call alone is an implicit group.
    Group {
        /// In order.
        calls: Vec<Call>,
        /// Written as `group`.
        explicit: bool,
    },
    /// Several times.
    Repeat(u64, Vec<Statement>),
    /// Only these ranks do this.
    Only(Vec<usize>, Vec<Statement>),
    /// Something befalls these ranks.
    Rank(Vec<usize>, Act),
    /// A graph is captured.
    Graph(usize, Vec<Statement>),
    /// A graph is launched.
    Replay(usize, u64),
    /// The host does something else.
    Sleep(u64),
    /// Least host time from call to call.
    Pace(u64),
    /// The host waits for its GPU.
    Sync,
    /// The GPU has a kernel of the program's own, beside the operations.
    Compute(u64),
    /// What the GPU computes next waits for the operations before.
    Join,
    /// A communicator begins.
    Create(usize),
    /// A communicator is destroyed.
    Destroy(usize),
    /// A communicator is destroyed and made again with the same hash.
    Reinit(usize),
    /// Hostile callbacks.
    Fault(Fault),
}

/// What befalls a rank.
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
    /// Makes no further call, and lives until the others have ended.
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

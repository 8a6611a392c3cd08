//! When a rank's kernel runs, and what the rank's host does at a statement.

use crate::stuck::{Drag, Held};

/// When the kernel of one rank runs. `None` means never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Arrival.
    pub start: Option<u64>,
    /// When all ranks that it needs had arrived.
    pub ready: Option<u64>,
    /// End.
    pub stop: Option<u64>,
    /// Where its network operations stop, if not all of them end.
    pub held: Option<Held>,
    /// What makes its receives and its sends take longer.
    pub drags: [Option<Drag>; 2],
}

/// What a rank does at a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankAction {
    /// Nothing: not a member, skipping, or gone.
    None,
    /// Calls, beginning at this host time.
    Calls(u64),
    /// Begins its call and never leaves it.
    Inside(u64),
}

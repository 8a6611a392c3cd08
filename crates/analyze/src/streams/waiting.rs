//! Who waited for whom in windows, and how much of that was exposed.
//!
//! **Collectives.** In an AllReduce, AllGather, ReduceScatter or AlltoAll nobody can end before the last rank
//! has begun, and all end together, within some µs. So a rank waited for as long as its kernel ran longer
//! than the shortest of the operation, and whoever had the shortest was waited for. Kernels of different
//! ranks are one operation if they are of the same function and communicator and ran at the same time.
//!
//! **Sends and receives.** A kernel that sends or receives can't end before its peer's has begun. It waited
//! from its own beginning to that of the latest of its peers. Two kernels belong together if one sends to
//! the other's rank, the other receives from the one's, and they ran at the same time. A send that was over
//! before its receive began has waited for nobody. Who waits to receive waits for a *late sender*, and who
//! only waits to send for a *late receiver*; in an exchange of both it is the sender that counts.
//!
//! **Chains.** The rank that was waited for may have been late because it waited itself. Who is behind a wait
//! for a sender or receiver is in [`super::causes`]. Else it is by time: while the last rank stood still and
//! computed nothing, whoever it waited for is behind, and so on ([`culprit`](charging)).
//!
//! Of a wait, the part counts beside which the GPU computed nothing: that much later the rank went on. The
//! rest is hidden, and slows the computing beside it ([`super::beside_waiting`]).
//!
//! **When.** Only the whole cycles of a GPU's windows count. They are cut into [`Waits::own`] pieces, and the
//! pieces' shares make the intervals. If windows of all GPUs show most of that time together, only the time
//! that they show together counts. When the others came to its operations is known from their windows, or
//! else from CUDA events ([`super::timed`]). A piece counts if that is known for most of its operations
//! ([`Waits::weight`]). Bubbles need to know what all GPUs computed at the same time: only [`Waits::pieces`]
//! count for them, which windows of all GPUs show.
//!
//! Rule: no rank's exposed waiting is more than its exposed communication.

use super::causes::{Causes, Direct, Late};
use super::intervals::{length, Span, Union};
use super::lane::Lane;
use crate::interval::LEAST_STRETCHES;
use crate::time::Nanos;
pub use charging::without;
use matching::{beside, collective, Aligned};
use pieces::{own, pieces, shown_by_all, without_cycles};
use std::collections::HashMap;

mod charging;
mod matching;
mod pieces;

/// Functions whose operations nobody leaves before the last has begun.
const ALL_TO_ALL: [&str; 3] = ["AllReduce", "AllGather", "ReduceScatter"];

/// One kernel of an operation.
#[derive(Clone, Copy, Debug)]
pub struct WaitPart {
    lane: usize,
    window: usize,
    /// Its number among NCCL's kernels of the window.
    kernel: usize,
    start: i64,
    end: i64,
}

impl WaitPart {
    /// Lane, window and number: which kernel it is.
    pub fn key(&self) -> (usize, usize, usize) {
        (self.lane, self.window, self.kernel)
    }
}

/// Waiting of GPUs.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// By waiting lane and own piece: what was exposed.
    pub all: HashMap<(usize, usize), Nanos>,
    /// Operations by their last lane.
    pub last: HashMap<usize, u64>,
    /// Operations that were looked at.
    pub operations: u64,
    /// The time that windows of all GPUs show, in pieces, ascending.
    pub pieces: Vec<Span>,
    /// By lane: the whole cycles that its windows show, in pieces, ascending. A lane that shows too few has
    /// those of the one that shows most.
    pub own: Vec<Vec<Span>>,
    /// By lane: whether the cycles are its own.
    cycles: Vec<bool>,
    /// By lane and own piece.
    found: HashMap<(usize, usize), Found>,
    /// Whole steps in them.
    pub steps: u64,
    /// By lane: when its kernels waited for another, in any operation.
    pub waiting: HashMap<usize, Union>,
    /// Kernels that waited.
    pub direct: Vec<Direct>,
    /// By wait in `direct`: who is behind it.
    pub causes: Vec<Causes>,
    /// Kernels that pass data on between neighbours, as stages of a pipeline do, and were matched.
    pub passed_on: u64,
}

/// Of how many kernels of a piece it is known when the others came.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// In collectives.
    collectives: u64,
    /// Those that were found on all ranks.
    on_all: u64,
    /// Kernels that receive.
    receives: u64,
    /// Those of which a sender was found. What had been sent before is not found, and nobody waited for it.
    sent: u64,
}

/// The waits in all windows. `members` is how many GPUs a communicator has, by its index.
pub fn waits(lanes: &[Lane], members: &[usize]) -> Waits {
    let mut kinds: HashMap<(u32, &str), Vec<Vec<WaitPart>>> = HashMap::new();
    for (lane, of) in lanes.iter().enumerate() {
        for (window, seen) in of.all().enumerate() {
            for (number, kernel) in seen.seen.nccl.iter().enumerate() {
                let Some(kind) = collective(seen, kernel, members) else {
                    continue;
                };
                let parts = kinds.entry(kind);
                parts.or_insert_with(|| vec![Vec::new(); lanes.len()])[lane].push(WaitPart {
                    lane,
                    window,
                    kernel: number,
                    start: kernel.start,
                    end: kernel.end,
                });
            }
        }
    }
    let (pieces, steps) = pieces(lanes);
    let length = |of: &[Span]| of.iter().map(|span| length(*span)).sum::<Nanos>();
    let mut own: Vec<Vec<Span>> = lanes.iter().map(own).collect();
    let enough = |of: &Vec<Span>| of.len() >= LEAST_STRETCHES;
    if !own.iter().any(enough) {
        own = lanes.iter().map(without_cycles).collect();
    }
    let mut cycles: Vec<bool> = own.iter().map(enough).collect();
    let least = own
        .iter()
        .filter(|of| enough(of))
        .map(|of| length(of))
        .min();
    // Where windows show most of their time together, what lanes lost is compared at the same time.
    let by_all = shown_by_all(lanes).map_or(Nanos::ZERO, |all| all.length());
    let most = least.is_none_or(|least| enough(&pieces) && by_all * 2.0 > least);
    let shared = most && lanes.iter().all(|lane| !lane.windows.is_empty());
    let of_all = if shared {
        pieces.clone()
    } else {
        own.iter()
            .max_by_key(|of| of.len())
            .cloned()
            .unwrap_or_default()
    };
    for of in own.iter_mut().filter(|of| shared || !enough(of)) {
        of.clone_from(&of_all);
    }
    if shared {
        cycles.fill(true);
    }
    let mut waits = Waits {
        pieces,
        steps,
        own,
        cycles,
        ..Waits::default()
    };
    waits.count(lanes, members);
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(kind, _)| *kind);
    let mut operations: Vec<(u32, Vec<WaitPart>)> = Vec::new();
    for ((communicator, _), mut parts) in kinds {
        parts.retain(|parts| !parts.is_empty());
        let all = members.get(communicator as usize).copied().unwrap_or(0);
        if parts.len() < 2 || parts.len() != all {
            continue;
        }
        parts
            .iter_mut()
            .for_each(|parts| parts.sort_by_key(|part| part.start));
        // That with the fewest: an operation must be on all.
        parts.sort_by_key(Vec::len);
        for first in &parts[0] {
            let others: Option<Vec<WaitPart>> = parts[1..]
                .iter()
                .map(|parts| beside(parts, first))
                .collect();
            if let Some(mut operation) = others {
                operation.push(*first);
                operations.push((communicator, operation));
            }
        }
    }
    operations.sort_by_key(|(_, parts)| parts.iter().map(|part| part.end).min());
    let mut aligned = Aligned::new();
    for (communicator, operation) in &operations {
        waits.add(operation, lanes, *communicator, &mut aligned);
    }
    waits.add_sends(lanes, members);
    waits.charge(lanes);
    waits
}

#[cfg(test)]
mod tests;

//! NCCL's own split of a kernel into waiting and moving, if its phases are recorded.
//!
//! From NCCL 2.31 on, a kernel can stamp its phases: it waits until all ranks have come (*initial sync*),
//! moves bytes (*compute*), and waits again (*final sync*). So one rank alone shows how long it waited.
//! Without phases, that follows from the times of all ranks: the rank that ran shortest came last, and by how
//! much longer another ran, it waited ([`crate::arrivals`]).
//!
//! [`Phases`] has both figures for the operations of which all ranks have phases, so that each can be held
//! against the other. The account of time takes a wait from the phases where there are some
//! ([`crate::account::launches`]).
//!
//! Rule: phases and GPU times of a call are on one clock. No two ranks' clocks are compared.

use std::collections::HashMap;
use tables::calls::Series;
use tables::{Capture, Process};

/// What the phases of a capture's kernels say, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Kernels with phases: one rank's part of an operation each.
    pub kernels: u64,
    /// How long they ran.
    pub ran: u64,
    /// Of that: they waited for other ranks.
    pub waited: u64,
    /// Of that: they moved bytes.
    pub moved: u64,
    /// Operations of which all ranks of the communicator have phases.
    pub matched: u64,
    /// How long the kernels of these waited by their phases.
    pub matched_waited: u64,
    /// The same by how much longer each ran than the shortest one of its operation.
    pub matched_longer: u64,
}

/// One operation.
#[derive(Clone, Copy, Default)]
struct Operation {
    ranks: u32,
    waited: u64,
    ran: u64,
    shortest: u64,
}

/// What is gathered.
#[derive(Default)]
pub struct Gatherer {
    all: Phases,
    operations: HashMap<(u32, Series, u64), Operation>,
}

impl Gatherer {
    /// Takes in a part of a process's calls.
    pub fn add(&mut self, process: &Process) {
        let all = &mut self.all;
        // Most captures have no phases: no call has an extra then.
        for call in process.calls.iter().filter(|call| call.extra != 0) {
            let Some([waited, moved, after]) = process.phases_ns(call) else {
                continue;
            };
            let ran = waited.saturating_add(moved).saturating_add(after);
            all.kernels += 1;
            all.ran = all.ran.saturating_add(ran);
            all.waited = all.waited.saturating_add(waited);
            all.moved = all.moved.saturating_add(moved);
            let shape = &process.shapes[call.shape as usize];
            let Some(communicator) = shape.communicator.filter(|_| call.seq != 0) else {
                continue;
            };
            let of = Operation {
                ranks: 1,
                waited,
                ran,
                shortest: ran,
            };
            join(
                &mut self.operations,
                (communicator, shape.series(), call.seq),
                of,
            );
        }
    }

    /// Takes in what was gathered from the processes that follow.
    pub fn merge(&mut self, later: Gatherer) {
        let (all, other) = (&mut self.all, later.all);
        all.kernels += other.kernels;
        all.ran = all.ran.saturating_add(other.ran);
        all.waited = all.waited.saturating_add(other.waited);
        all.moved = all.moved.saturating_add(other.moved);
        for (key, of) in later.operations {
            join(&mut self.operations, key, of);
        }
    }

    /// The phases of a capture; `None` if no kernel has some.
    pub fn finish(self, capture: &Capture) -> Option<Phases> {
        let mut all = self.all;
        for ((communicator, ..), of) in self.operations {
            let nranks = capture.communicators[communicator as usize].nranks;
            if nranks == Some(of.ranks) && of.ranks > 1 {
                all.matched += 1;
                all.matched_waited = all.matched_waited.saturating_add(of.waited);
                let least = u64::from(of.ranks).saturating_mul(of.shortest);
                let longer = of.ran.saturating_sub(least);
                all.matched_longer = all.matched_longer.saturating_add(longer);
            }
        }
        (all.kernels > 0).then_some(all)
    }
}

fn join(
    operations: &mut HashMap<(u32, Series, u64), Operation>,
    key: (u32, Series, u64),
    of: Operation,
) {
    let sum = operations.entry(key).or_insert(Operation {
        shortest: u64::MAX,
        ..Operation::default()
    });
    sum.ranks += of.ranks;
    sum.waited = sum.waited.saturating_add(of.waited);
    sum.ran = sum.ran.saturating_add(of.ran);
    sum.shortest = sum.shortest.min(of.shortest);
}

//! What NCCL itself expected calls to take, beside what they took.
//!
//! NCCL estimates each collective by each algorithm and protocol before it chooses. Where ncclscope's tuner
//! library recorded that ([`tables::costs`]), [`of_operations`] gives each operation the estimate of the
//! algorithm and protocol that it used.
//!
//! Rule: an estimate is of the same communicator, function and bytes. Below version 5 of NCCL's interface the
//! communicator's id is not known, and then it is of a communicator with as many ranks and nodes.

use crate::operations::Operation;
use std::collections::HashMap;
use tables::costs::Cost;
use tables::Capture;

/// Which calls an estimate is of: the id of the communicator, or else its ranks and nodes.
type Key<'a> = (Result<u64, (u32, u32)>, &'a str, u64);

/// Gives operations NCCL's own estimate, where there is one.
pub(crate) fn of_operations(operations: &mut [Operation], capture: &Capture, costs: &[Cost]) {
    let mut by: HashMap<Key, Vec<&Cost>> = HashMap::new();
    for cost in costs {
        let whose = match cost.id {
            0 => Err((cost.nranks, cost.nnodes)),
            id => Ok(id),
        };
        by.entry((whose, cost.function, cost.bytes))
            .or_default()
            .push(cost);
    }
    if by.is_empty() {
        return;
    }
    for operation in operations {
        let estimate = estimate(operation, capture, &by);
        operation.nccl_us = estimate;
    }
}

fn estimate(of: &Operation, capture: &Capture, by: &HashMap<Key, Vec<&Cost>>) -> Option<f64> {
    let id = of.communicator.as_ref()?;
    let communicator = capture.communicators.iter().find(|c| c.id == *id)?;
    let (function, bytes) = (of.function.as_deref()?, of.bytes?);
    let sizes = communicator.nranks.zip(communicator.nnodes);
    let by_id = by.get(&(Ok(communicator.hash), function, bytes));
    let found = by_id.or_else(|| by.get(&(Err(sizes?), function, bytes)))?;
    // Calls that NCCL joined take longer together. Of the others, what was asked most.
    let usual = found
        .iter()
        .filter(|cost| cost.joined <= 1)
        .max_by_key(|cost| cost.calls)?;
    usual.of(of.algorithm.as_deref()?, of.protocol.as_deref()?)
}

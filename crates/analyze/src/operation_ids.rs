//! Numbers the operations of a capture over all ranks, so that tables of calls can be joined and grouped by
//! them.
//!
//! [`OperationIds::of`] matches the calls of all processes as [`crate::matching`] does, and
//! [`OperationIds::get`] has the number for a call. Operations are numbered from 0 in order of first
//! appearance: those of the first process come first, in the order in which it called them. The pieces of an
//! AlltoAll have the number of their operation.
//!
//! Rule: calls have the same number only if they are the parts of different ranks in one collective.

use crate::executions::{Steps, Walk};
use crate::matching::Matcher;
use std::collections::HashMap;
use tables::Capture;

/// No operation: a send, a receive, a captured call, or a call that can't be matched.
const NONE: u64 = u64::MAX;

/// The numbers, by process and call.
pub struct OperationIds(Vec<Vec<u64>>);

impl OperationIds {
    /// Matches the calls of `capture`.
    pub fn of(capture: &Capture) -> OperationIds {
        let mut matcher = Matcher::default();
        let mut known: HashMap<(u32, u64), u64> = HashMap::new();
        let processes = capture.processes.iter().map(|process| {
            let walk = Walk::new(process);
            let mut plan = matcher.plan(capture, &walk);
            let mut ids = vec![NONE; process.calls.len()];
            let mut at = 0;
            walk.for_each(&mut Steps::default(), |execution| {
                let Some(operation) = matcher.add(&mut plan, execution, None) else {
                    return;
                };
                let next = known.len() as u64;
                let id = *known.entry(operation).or_insert(next);
                // Executions come in the order of their first calls.
                while process.calls[at].ticket < execution.call.ticket {
                    at += 1;
                }
                ids[at] = id;
                let composite = (execution.call.composite as usize).checked_sub(1);
                for piece in composite.iter().flat_map(|c| &process.composites[*c].calls) {
                    ids[*piece as usize] = id;
                }
            });
            ids
        });
        OperationIds(processes.collect())
    }

    /// The number of the operation that this call of this process is a part of.
    pub fn get(&self, process: usize, call: usize) -> Option<u64> {
        let id = self.0.get(process)?.get(call)?;
        Some(*id).filter(|id| *id != NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::path::Path;

    fn job(name: &str) -> Capture {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
        Capture::open(&path.join(name)).expect("a recorded job")
    }

    /// By number: (process, function, bytes, pieces).
    fn operations(capture: &Capture) -> BTreeMap<u64, Vec<(usize, String)>> {
        let ids = OperationIds::of(capture);
        let mut found: BTreeMap<u64, Vec<(usize, String)>> = BTreeMap::new();
        for (p, process) in capture.processes.iter().enumerate() {
            for (c, call) in process.calls.iter().enumerate() {
                let shape = &process.shapes[call.shape as usize];
                let function = capture.names.get(shape.function).unwrap_or("").to_owned();
                if let Some(id) = ids.get(p, c) {
                    found.entry(id).or_default().push((p, function));
                }
            }
        }
        found
    }

    #[test]
    fn an_operation_has_one_number_on_all_ranks() {
        let found = operations(&job("ddp4"));
        assert_eq!(found.len(), 44);
        assert_eq!(
            found.keys().copied().collect::<Vec<_>>(),
            (0..44).collect::<Vec<_>>()
        );
        for parts in found.values() {
            let processes: Vec<usize> = parts.iter().map(|(p, _)| *p).collect();
            assert_eq!(processes, [0, 1, 2, 3], "{parts:?}");
            assert!(parts.iter().all(|(_, f)| *f == parts[0].1), "{parts:?}");
        }
    }

    #[test]
    fn pieces_have_the_number_of_their_operation_and_other_sends_none() {
        let capture = job("mix_228");
        let ids = OperationIds::of(&capture);
        let mut pieces = 0;
        for (p, process) in capture.processes.iter().enumerate() {
            for (c, call) in process.calls.iter().enumerate() {
                let shape = &process.shapes[call.shape as usize];
                let function = capture.names.get(shape.function);
                if !matches!(function, Some("Send" | "Recv")) {
                    continue;
                }
                let composite = (call.composite as usize).checked_sub(1);
                let of = composite.map(|c| &process.composites[c]);
                let name = of.and_then(|of| capture.names.get(of.function));
                let collective = name.is_some_and(crate::matching::is_collective);
                assert_eq!(ids.get(p, c).is_some(), collective, "{function:?} {name:?}");
                pieces += u64::from(collective);
                if let Some(of) = of.filter(|_| collective) {
                    let all = of.calls.iter().map(|call| ids.get(p, *call as usize));
                    assert!(all.into_iter().all(|id| id == ids.get(p, c)));
                }
            }
        }
        assert!(pieces > 0);
    }
}

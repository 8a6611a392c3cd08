//! The table of arrivals: each rank's part in each operation that nobody can leave before the last has
//! arrived.
//!
//! [`rows`] gives the operations that the figures of [`super::Arrivals`] rest on, one by one: a GPU time on
//! every rank, equal sizes and datatypes, no warm-up. So waits of this table sum to those of the report.
//!
//! Rule: no clock is compared. The rank with the shortest GPU time arrived last, because all end together.

use super::gatherer::waits_for_last;
use crate::executions::{Steps, Walk};
use crate::operation_ids::OperationIds;
use crate::operations;
use tables::columns::{known, moment, text, Value};
use tables::{Call, Capture, Name, Process, Shape};

/// A rank's part in an operation.
pub struct ArrivalRow<'a> {
    /// Its capture.
    pub capture: &'a Capture,
    /// Its process.
    pub process: &'a Process,
    /// Index of that.
    pub index: usize,
    /// Its call; of several, the first.
    pub call: &'a Call,
    /// What that is.
    pub shape: &'a Shape,
    /// Function of the operation.
    pub function: Name,
    /// Number of the operation, as in the table of calls.
    pub operation: u64,
    /// GPU time, ns.
    pub time: u64,
    /// The shortest and the longest of all ranks, ns.
    pub range: (u64, u64),
    /// It came last, and alone.
    pub last: bool,
}

impl<'a> ArrivalRow<'a> {
    fn communicator(&self) -> Option<&'a tables::Communicator> {
        let index = self.shape.communicator?;
        self.capture.communicators.get(index as usize)
    }
}

tables::columns! { ArrivalRow:
    "operation_id" "int" "" |r| Value::Unsigned(r.operation);
    "communicator" "text" "" |r| text(r.communicator().map(|c| c.id.as_str()));
    "communicator_name" "text" "" |r| text(r.communicator().and_then(|c| c.name.as_deref()));
    "function" "text" "" |r| text(r.capture.names.get(r.function));
    "bytes" "int" "bytes" |r| known(r.capture.bytes_as(r.shape, r.function));
    "process" "int" "" |r| Value::Unsigned(r.index as u64);
    "launcher_rank" "int" "" |r| known(r.process.rank);
    "host" "text" "" |r| Value::Text(&r.process.host);
    "device" "int" "" |r| known(r.shape.device);
    "rank" "int" "" |r| known(r.shape.rank);
    "ticket" "int" "" |r| Value::Unsigned(r.call.ticket);
    "api_ns" "time" "ns since 1970" |r| moment(Some(r.call.api_ns).filter(|at| *at != 0));
    "gpu_time_ns" "int" "ns" |r| Value::Unsigned(r.time);
    "wait_ns" "int" "ns" |r| Value::Unsigned(r.time - r.range.0);
    "late_ns" "int" "ns" |r| Value::Unsigned(r.range.1 - r.time);
    "arrived_last" "bool" "" |r| Value::Bool(r.last);
}

/// One rank's part, and what must be equal on all ranks.
struct TimedPart {
    operation: u64,
    process: u32,
    /// Which GPU of the process; each takes part once.
    device: Option<u32>,
    call: u32,
    row: u32,
    function: Name,
    time: u64,
}

/// The rows: by operation, then process.
pub fn rows(capture: &Capture) -> Vec<ArrivalRow<'_>> {
    let ids = OperationIds::of(capture);
    let mut kinds = operations::Gatherer::default();
    let mut parts: Vec<TimedPart> = Vec::new();
    for (index, process) in capture.processes.iter().enumerate() {
        let walk = Walk::new(process);
        let kinds = kinds.plan(capture, &walk);
        let mut at = 0;
        walk.for_each(&mut Steps::default(), |execution| {
            while process.calls[at].ticket < execution.call.ticket {
                at += 1;
            }
            let function = walk.places()[execution.place].function;
            let all = capture.names.get(function).is_some_and(waits_for_last);
            let (Ok(time), Some(operation)) = (execution.gpu, ids.get(index, at)) else {
                return;
            };
            if all && !execution.captured && !execution.warmup {
                parts.push(TimedPart {
                    operation,
                    process: index as u32,
                    device: execution.shape.device,
                    call: at as u32,
                    row: kinds[execution.place],
                    function,
                    time,
                });
            }
        });
    }
    parts.sort_by_key(|part| (part.operation, part.process, part.device));
    let mut rows = Vec::with_capacity(parts.len());
    for of in parts.chunk_by(|a, b| a.operation == b.operation) {
        let process = &capture.processes[of[0].process as usize];
        let shape = &process.shapes[process.calls[of[0].call as usize].shape as usize];
        let communicator = shape
            .communicator
            .map(|c| &capture.communicators[c as usize]);
        let nranks = communicator.map_or(0, |c| c.nranks.map_or(c.members.len(), |n| n as usize));
        let twice = |w: &[TimedPart]| (w[0].process, w[0].device) == (w[1].process, w[1].device);
        if of.len() != nranks
            || of.len() < 2
            || of.windows(2).any(twice)
            || of.iter().any(|part| part.row != of[0].row)
        {
            continue;
        }
        let times = of.iter().map(|part| part.time);
        let range = times
            .clone()
            .fold((u64::MAX, 0), |(a, b), t| (a.min(t), b.max(t)));
        let alone = times.filter(|time| *time == range.0).count() == 1;
        rows.extend(of.iter().map(|part| {
            let process = &capture.processes[part.process as usize];
            let call = &process.calls[part.call as usize];
            ArrivalRow {
                capture,
                process,
                index: part.process as usize,
                call,
                shape: &process.shapes[call.shape as usize],
                function: part.function,
                operation: part.operation,
                time: part.time,
                range,
                last: alone && part.time == range.0,
            }
        }));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Nanos;
    use std::path::Path;

    #[test]
    fn waits_and_last_arrivals_are_those_of_the_report() {
        for name in [
            "ddp4",
            "mix_228",
            "mix_two_hosts_228",
            "slow_gpu",
            "threads_228",
        ] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
            let capture = Capture::open(&path.join(name)).expect("a recorded job");
            let rows = rows(&capture);
            let told = crate::report(&capture).arrivals;
            let (operations, waits, last) = told.as_ref().map_or((0, 0.0, 0), |a| {
                let last = a.ranks.iter().map(|r| r.last).sum::<u64>();
                (a.operations, a.wait_rank_us, last)
            });
            let mut ids: Vec<u64> = rows.iter().map(|r| r.operation).collect();
            ids.dedup();
            assert_eq!(ids.len() as u64, operations, "{name}");
            let sum: u64 = rows.iter().map(|r| r.time - r.range.0).sum();
            assert!(
                (Nanos::from(sum).us() - waits).abs() < 0.5,
                "{name}: {sum} {waits}"
            );
            assert_eq!(
                rows.iter().filter(|r| r.last).count() as u64,
                last,
                "{name}"
            );
            assert!(name == "threads_228" || operations > 0, "{name}");
        }
    }
}

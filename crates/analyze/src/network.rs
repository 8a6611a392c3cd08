//! What the network did for the calls: operations, bytes, and what its steps waited for.
//!
//! NCCL's proxies announce an operation for each channel and peer, and its steps; the recorder adds them up by call, and
//! [`network`] by communicator and function.
//!
//! Rule: only calls with rows are here, because totals keep no network; a report says so by `calls`. A wait that no step
//! was in is null.

use capture::live::WAITS;
use serde::Serialize;
use std::collections::BTreeMap;
use tables::{Capture, Name};

/// The network's part in a function on a communicator.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NetworkRow {
    /// The communicator.
    pub communicator: Option<String>,
    /// NCCL's name of the function; operations that came in pieces under their own name.
    pub function: Option<String>,
    /// Announced calls that used the network: one rank's part each, pieces one by one.
    pub calls: u64,
    /// Proxy operations started.
    pub operations: u64,
    /// Of these, stopped.
    pub operations_done: u64,
    /// Steps finished.
    pub steps: u64,
    /// Bytes that the network accepted; null where only operations were recorded.
    pub bytes_sent: Option<u64>,
    /// Bytes received; null likewise.
    pub bytes_received: Option<u64>,
    /// Time that steps spent in each wait, summed, by [`WAITS`].
    pub wait_us: BTreeMap<&'static str, Option<f64>>,
}

#[derive(Default)]
struct Sum {
    row: NetworkRow,
    /// Sent and received.
    bytes: [u64; 2],
    waits: [u64; 6],
}

/// The network's part, most bytes first.
pub fn network(capture: &Capture) -> Vec<NetworkRow> {
    let mut rows: BTreeMap<(Option<u32>, Name), Sum> = BTreeMap::new();
    for process in &capture.processes {
        for call in &process.calls {
            let extra = (call.extra as usize).checked_sub(1);
            let Some(extra) = extra
                .and_then(|index| process.extras.get(index))
                .filter(|e| e.ops_started != 0)
            else {
                continue;
            };
            let shape = &process.shapes[call.shape as usize];
            let composite = (call.composite as usize).checked_sub(1);
            let function = composite
                .and_then(|index| process.composites.get(index))
                .map_or(shape.function, |c| c.function);
            let Sum { row, bytes, waits } = rows.entry((shape.communicator, function)).or_default();
            row.calls += 1;
            row.operations += u64::from(extra.ops_started);
            row.operations_done += u64::from(extra.ops_stopped);
            row.steps += u64::from(extra.steps);
            // Fields of a damaged block may be anything.
            for (sum, moved) in bytes
                .iter_mut()
                .zip([extra.bytes_sent, extra.bytes_received])
            {
                *sum = sum.saturating_add(moved);
            }
            for (sum, wait) in waits.iter_mut().zip(extra.waits_ns) {
                *sum = sum.saturating_add(wait);
            }
        }
    }
    let mut rows: Vec<NetworkRow> = rows
        .into_iter()
        .map(|((communicator, function), Sum { row, bytes, waits })| {
            // Steps tell bytes, and below ABI v4 operations do.
            let known = row.steps != 0 || bytes != [0; 2];
            let us = waits.map(|ns| (ns != 0).then_some(ns as f64 / 1e3));
            let of = communicator.and_then(|c| capture.communicators.get(c as usize));
            NetworkRow {
                communicator: of.map(|c| c.id.clone()),
                bytes_sent: known.then_some(bytes[0]),
                bytes_received: known.then_some(bytes[1]),
                function: capture.names.get(function).map(str::to_owned),
                wait_us: WAITS.into_iter().zip(us).collect(),
                ..row
            }
        })
        .collect();
    let moved = |row: &NetworkRow| {
        let [sent, received] = [row.bytes_sent, row.bytes_received].map(Option::unwrap_or_default);
        sent.saturating_add(received)
    };
    rows.sort_by_key(|row| std::cmp::Reverse(moved(row)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use tables::calls::Extra;
    use tables::{Call, Process, Shape};

    #[test]
    fn calls_add_up_by_function_and_a_wait_of_none_is_null() {
        let mut capture = Capture::default();
        let function = capture.names.intern("AllReduce");
        let shape = Shape {
            function,
            ..Shape::default()
        };
        let extra = |sent, wait| Extra {
            ops_started: 2,
            ops_stopped: 1,
            steps: 4,
            bytes_sent: sent,
            waits_ns: [wait, 0, 0, 0, 0, 0],
            ..Extra::default()
        };
        let call = |extra| Call {
            extra,
            ..Call::default()
        };
        capture.processes.push(Process {
            shapes: vec![shape],
            calls: vec![call(1), call(0), call(2)],
            extras: vec![extra(100, 1500), extra(50, 500)],
            ..Process::default()
        });
        let rows = network(&capture);
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!(row.function.as_deref(), Some("AllReduce"));
        assert_eq!(
            (
                row.calls,
                row.operations,
                row.operations_done,
                row.steps,
                row.bytes_sent
            ),
            (2, 4, 2, 8, Some(150))
        );
        assert_eq!(row.wait_us["send_gpu"], Some(2.0));
        assert_eq!(row.wait_us["recv_gpu"], None);
    }
}

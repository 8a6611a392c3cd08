//! What the network did for the calls: operations, bytes, and what its steps waited for.
//!
//! NCCL's proxies announce an operation for each channel and peer, and its steps; the recorder adds them up
//! by call, and a [`Gatherer`] by communicator and function.
//!
//! Calls that were folded into totals come as sums of the recorder, by communicator and function as well.
//!
//! Rule: calls that never had a row are not here; a report says so by `calls`. A wait that no step was in is
//! null.

use crate::executions::{Execution, Walk};
use crate::time::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use tables::{Call, Capture, Name, Process};

/// The network's part in a function on a communicator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct NetworkRow {
    /// The communicator.
    pub communicator: Option<String>,
    /// NCCL's name of the function; operations that came in pieces under their own name.
    pub function: Option<String>,
    /// Announced calls that used the network: one rank's part each, pieces one by one.
    pub calls: u64,
    /// Proxy operations started.
    pub operations: u64,
    /// Proxy operations stopped.
    pub operations_done: u64,
    /// Proxy steps finished.
    pub steps: u64,
    /// Bytes that the network accepted; null where only operations were recorded.
    pub bytes_sent: Option<u64>,
    /// Bytes received; null where only operations were recorded.
    pub bytes_received: Option<u64>,
    /// Time that steps spent in each wait, summed.
    pub wait_us: NetworkWaits,
}

/// Time that network steps spent in each wait, summed over steps and channels, µs; null where none waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Waits")]
pub struct NetworkWaits {
    /// Of steps that send: for the GPU's data.
    pub send_gpu: Option<f64>,
    /// Of steps that send: for the receiver.
    pub send_peer: Option<f64>,
    /// Of steps that send: for the network.
    pub send_network: Option<f64>,
    /// Of steps that receive: for data.
    pub recv_network: Option<f64>,
    /// Of steps that receive: for the flush.
    pub recv_flush: Option<f64>,
    /// Of steps that receive: for the GPU to take the data.
    pub recv_gpu: Option<f64>,
}

impl NetworkWaits {
    /// From all, in the order of [`capture::live::WAITS`].
    fn new(all: [Option<f64>; 6]) -> NetworkWaits {
        let [send_gpu, send_peer, send_network, recv_network, recv_flush, recv_gpu] = all;
        NetworkWaits {
            send_gpu,
            send_peer,
            send_network,
            recv_network,
            recv_flush,
            recv_gpu,
        }
    }

    /// All, in the order of [`capture::live::WAITS`].
    pub fn all(&self) -> [Option<f64>; 6] {
        [
            self.send_gpu,
            self.send_peer,
            self.send_network,
            self.recv_network,
            self.recv_flush,
            self.recv_gpu,
        ]
    }
}

#[derive(Default)]
struct Sum {
    row: NetworkRow,
    /// Sent and received.
    bytes: [u64; 2],
    waits: [u64; 6],
}

/// The network's part under construction.
#[derive(Default)]
pub struct Gatherer {
    known: HashMap<(Option<u32>, Name), u32>,
    sums: Vec<Sum>,
}

impl Gatherer {
    /// The row of each place of `walk`.
    pub fn plan(&mut self, walk: &Walk) -> Vec<u32> {
        let places = walk.places().iter();
        places
            .map(|place| self.row((place.shape.communicator, place.function)))
            .collect()
    }

    fn row(&mut self, key: (Option<u32>, Name)) -> u32 {
        let sums = &mut self.sums;
        *self.known.entry(key).or_insert_with(|| {
            sums.push(Sum::default());
            sums.len() as u32 - 1
        })
    }

    /// Adds an execution's calls to `row`.
    #[inline]
    pub fn add(&mut self, row: u32, process: &Process, execution: &Execution) {
        if process.extras.is_empty() {
            return;
        }
        let sum = &mut self.sums[row as usize];
        match (execution.call.composite as usize).checked_sub(1) {
            None => sum.add(process, execution.call),
            Some(composite) => {
                for index in &process.composites[composite].calls {
                    sum.add(process, &process.calls[*index as usize]);
                }
            }
        }
    }

    /// Adds what the network did for a process's calls without rows. `rows` are those of the places of its
    /// walk.
    pub fn add_totals(&mut self, process: &Process, rows: &[u32]) {
        for total in &process.net_totals {
            let Some(row) = rows.get(total.shape as usize) else {
                continue;
            };
            let sum = &mut self.sums[*row as usize];
            let to = &mut sum.row;
            for (to, more) in [
                (&mut to.calls, total.calls),
                (&mut to.operations, total.operations[0]),
                (&mut to.operations_done, total.operations[1]),
                (&mut to.steps, total.steps),
            ] {
                *to = to.saturating_add(more);
            }
            sum.move_and_wait(total.bytes, total.waits_ns);
        }
    }

    /// Takes in what another gathered.
    pub fn merge(&mut self, other: Gatherer) {
        for (key, index) in other.known {
            let row = self.row(key);
            self.sums[row as usize].merge(&other.sums[index as usize]);
        }
    }

    /// The network's part, most bytes first.
    pub fn finish(self, capture: &Capture) -> Vec<NetworkRow> {
        let mut keys: Vec<_> = self.known.into_iter().collect();
        keys.sort_unstable();
        let mut rows: Vec<NetworkRow> = keys
            .into_iter()
            .map(|(key, index)| (key, &self.sums[index as usize]))
            .filter(|(_, sum)| sum.row.calls != 0)
            .map(|((communicator, function), Sum { row, bytes, waits })| {
                // Steps tell bytes, and below ABI v4 operations do.
                let known = row.steps != 0 || *bytes != [0; 2];
                let us = waits.map(|ns| (ns != 0).then(|| Nanos::from(ns).us()));
                let of = communicator.and_then(|c| capture.communicators.get(c as usize));
                NetworkRow {
                    communicator: of.map(|c| c.id.clone()),
                    bytes_sent: known.then_some(bytes[0]),
                    bytes_received: known.then_some(bytes[1]),
                    function: capture.names.get(function).map(str::to_owned),
                    wait_us: NetworkWaits::new(us),
                    ..row.clone()
                }
            })
            .collect();
        let moved = |row: &NetworkRow| {
            let [sent, received] =
                [row.bytes_sent, row.bytes_received].map(Option::unwrap_or_default);
            sent.saturating_add(received)
        };
        rows.sort_by_key(|row| std::cmp::Reverse(moved(row)));
        rows
    }
}

impl Sum {
    fn add(&mut self, process: &Process, call: &Call) {
        let extra = (call.extra as usize).checked_sub(1);
        let Some(extra) = extra
            .and_then(|index| process.extras.get(index))
            .filter(|e| e.ops_started != 0)
        else {
            return;
        };
        let row = &mut self.row;
        row.calls += 1;
        row.operations += u64::from(extra.ops_started);
        row.operations_done += u64::from(extra.ops_stopped);
        row.steps += u64::from(extra.steps);
        self.move_and_wait([extra.bytes_sent, extra.bytes_received], extra.waits_ns);
    }

    fn merge(&mut self, other: &Sum) {
        self.row.calls += other.row.calls;
        self.row.operations += other.row.operations;
        self.row.operations_done += other.row.operations_done;
        self.row.steps += other.row.steps;
        self.move_and_wait(other.bytes, other.waits);
    }

    fn move_and_wait(&mut self, bytes: [u64; 2], waits: [u64; 6]) {
        // Fields of a damaged block may be anything.
        for (sum, moved) in self.bytes.iter_mut().zip(bytes) {
            *sum = sum.saturating_add(moved);
        }
        for (sum, wait) in self.waits.iter_mut().zip(waits) {
            *sum = sum.saturating_add(wait);
        }
    }
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
        let rows = crate::report(&capture).network;
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
        assert_eq!(row.wait_us.send_gpu, Some(2.0));
        assert_eq!(row.wait_us.recv_gpu, None);
    }
}

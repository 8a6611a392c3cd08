//! Communicators that were made and hardly used.
//!
//! Rule: a communicator counts only if all calls on it are known: no process of it may have lost some, or
//! have made some in CUDA graphs that were not seen.

use crate::first_uses;
use crate::inits::locals;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use tables::{Capture, Process};

/// More calls than these on some rank are a use.
const FEW: u64 = 2;

/// A communicator with few calls.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HardlyUsed {
    /// The communicator.
    pub communicator: String,
    /// Its name, if the program gave it one.
    pub name: Option<String>,
    /// Ranks in it; null if that is not known.
    pub nranks: Option<u32>,
    /// Calls on it in the recording, on the rank that made most.
    pub calls: u64,
    /// How long it took to make it, on the rank where that took longest; null if NCCL did not say so.
    pub time_s: Option<f64>,
    /// That time's share of all inits on that rank.
    pub share: Option<f64>,
}

/// The communicators of a capture with few calls, the one that took longest to make first.
pub(super) fn hardly_used(capture: &Capture, uses: &first_uses::Gatherer) -> Vec<HardlyUsed> {
    let processes: Vec<Known> = capture.processes.iter().map(Known::of).collect();
    let mut rows: Vec<HardlyUsed> = (capture.communicators.iter().enumerate())
        .filter_map(|(number, of)| {
            let members = of.members.iter();
            let calls = members.clone().map(|of| {
                let without_row = processes.get(of.process)?.without_row(of.uid)?;
                Some(uses.calls(of.process, number as u32) + without_row)
            });
            let calls = calls.collect::<Option<Vec<u64>>>()?.into_iter().max()?;
            if calls > FEW {
                return None;
            }
            let times = members.filter_map(|m| processes.get(m.process)?.init_s(m.uid));
            let longest = times.reduce(|a, b| if b.0 > a.0 { b } else { a });
            Some(HardlyUsed {
                communicator: of.id.clone(),
                name: of.name.clone(),
                nranks: of.nranks,
                calls,
                time_s: longest.map(|(time_s, _)| time_s),
                share: longest.map(|(time_s, all_s)| time_s / all_s),
            })
        })
        .collect();
    let time = |row: &HardlyUsed| row.time_s.unwrap_or(-1.0);
    rows.sort_by(|a, b| time(b).total_cmp(&time(a)));
    rows
}

/// What is known of a process, by its number of the communicator: a process may have made very many.
struct Known {
    /// Some calls of the process are not known.
    lacks_calls: bool,
    /// Calls that have no row.
    without_row: HashMap<u32, u64>,
    /// How long it took to make each, s.
    inits_s: HashMap<u32, f64>,
    /// And all of them.
    all_inits_s: f64,
}

impl Known {
    fn of(process: &Process) -> Known {
        let unknown = [
            process.rotated_unlisted,
            process.forgotten,
            process.shapeless,
            process.bad_blocks,
        ];
        let mut without_row: HashMap<u32, u64> = HashMap::new();
        for total in &process.totals {
            if let Some(shape) = process.shapes.get(total.shape as usize) {
                *without_row.entry(shape.uid).or_default() += total.folded + total.rowless;
            }
        }
        let inits = process.setup.inits.iter();
        let totals = inits.map(|init| init.timings.map(|timings| timings.total_s));
        let mut inits_s = HashMap::new();
        for (local, time_s) in locals(process).into_iter().zip(totals.clone()) {
            if let Some((local, time_s)) = local.zip(time_s.filter(|time_s| *time_s > 0.0)) {
                inits_s.entry(local.uid).or_insert(time_s);
            }
        }
        Known {
            lacks_calls: unknown.iter().any(|n| *n != 0) || !process.graphs.unseen.is_empty(),
            without_row,
            inits_s,
            all_inits_s: totals.flatten().sum(),
        }
    }

    /// Calls on a communicator that have no row; `None` if some calls of the process are not known.
    fn without_row(&self, uid: u32) -> Option<u64> {
        let calls = self.without_row.get(&uid).copied().unwrap_or(0);
        (!self.lacks_calls).then_some(calls)
    }

    /// How long the process took to make a communicator, and to make all.
    fn init_s(&self, uid: u32) -> Option<(f64, f64)> {
        Some((*self.inits_s.get(&uid)?, self.all_inits_s))
    }
}

#[cfg(test)]
mod tests {
    use setup::log::{Init, Timings};
    use tables::communicators::{Communicator, Local, Member};
    use tables::{Call, Capture, Process, Shape};

    /// Three communicators on one rank: with many calls, with none, and with two.
    fn capture() -> Capture {
        let mut capture = Capture::default();
        let function = capture.names.intern("AllReduce");
        let shape = |uid: u32| Shape {
            uid,
            communicator: Some(uid - 1),
            function,
            ..Shape::default()
        };
        let call = |ticket: u64, shape: u32| Call {
            ticket,
            shape,
            api_ns: 1000 * ticket as i64 + 1,
            return_ns: 1000 * ticket as i64 + 500,
            sealed: true,
            ..Call::default()
        };
        let mut process = Process {
            rank: Some(0),
            shapes: vec![shape(1), shape(3)],
            calls: (0..9).map(|n| call(n, u32::from(n > 6))).collect(),
            ..Process::default()
        };
        for (uid, total_s) in [(1, 2.0), (2, 6.0), (3, 1.0)] {
            process.communicators.push(Local {
                uid,
                hash: uid.into(),
                nranks: 8,
                ..Local::default()
            });
            process.setup.inits.push(Init {
                id: Some(uid.into()),
                nranks: 8,
                timings: Some(Timings {
                    total_s,
                    ..Timings::default()
                }),
                ..Init::default()
            });
            capture.communicators.push(Communicator {
                id: format!("c{uid}"),
                members: vec![Member {
                    process: 0,
                    uid,
                    rank: None,
                }],
                ..Communicator::default()
            });
        }
        capture.processes.push(process);
        capture
    }

    #[test]
    fn communicators_with_few_calls_are_told_with_their_share_of_all_inits() {
        let rows = crate::report(&capture()).startup.hardly_used;
        let of: Vec<_> = (rows.iter())
            .map(|row| (row.communicator.as_str(), row.calls, row.time_s))
            .collect();
        assert_eq!(of, [("c2", 0, Some(6.0)), ("c3", 2, Some(1.0))]);
        assert_eq!(rows[0].share, Some(6.0 / 9.0));
    }

    #[test]
    fn nothing_is_said_if_calls_are_missing() {
        let mut capture = capture();
        capture.processes[0].bad_blocks = 1;
        assert_eq!(crate::report(&capture).startup.hardly_used, Vec::new());
    }
}

//! What was done, from the work itself or from a counter that no profiler has a part in.
//!
//! A [`Truth`] has the calls of one run by [`Key`]. [`from_fake_nccl`] reads what fake-nccl counted on NCCL's
//! side, [`bench::read`] what `ncclscope bench` timed call by call, and [`counter::read`] what the preloaded
//! counter saw.
//!
//! Rule: sizes follow nccl-tests' convention, and ranks are the launcher's.

use crate::records::Record;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

pub mod bench;
pub mod counter;

/// What calls are told apart by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// NCCL's name of what the user called.
    pub function: String,
    /// Bytes by nccl-tests' convention.
    pub bytes: u64,
    /// The launcher's rank.
    pub rank: u32,
}

/// One call that the work timed itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Its place among this rank's calls of the function, from 0, whatever their size.
    pub index: u64,
    /// How long it took by the work's own clock, ns; none where the work timed a batch that it was in.
    pub time_ns: Option<u64>,
}

/// The calls of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyCalls {
    /// How many.
    pub number: u64,
    /// Each, in the order made; empty where they were only counted.
    pub each: Vec<Timed>,
}

/// Which of a profiler's rows are calls in the work's sense, where CUDA graphs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Graphs {
    /// A captured call counts where it was made, and its replays don't.
    Templates,
    /// What was executed counts: replays, and no captured call.
    Executions,
    /// Both.
    #[default]
    Both,
}

/// The calls of one run.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// By key.
    pub calls: BTreeMap<Key, KeyCalls>,
    /// Ranks of the job, where all its operations are over all of them.
    pub nranks: Option<u32>,
    /// The launcher's rank by process id, as far as the work tells.
    pub ranks: HashMap<u32, u32>,
    /// Which rows count.
    pub graphs: Graphs,
    /// Whether every call that the job made is here, warm-up included, so that NCCL's sequence numbers can be
    /// held against their number.
    pub whole: bool,
}

impl Key {
    pub(crate) fn new(function: &str, bytes: u64, rank: u32) -> Key {
        Key {
            function: function.to_owned(),
            bytes,
            rank,
        }
    }
}

impl Truth {
    /// The launcher's rank of a record, where it is known.
    pub(crate) fn rank_of(&self, record: &Record) -> Option<u32> {
        let told = record.pid.and_then(|pid| self.ranks.get(&pid).copied());
        told.or(record.rank)
    }

    /// Calls done.
    pub fn total(&self) -> u64 {
        self.calls.values().map(|c| c.number).sum()
    }

    pub(crate) fn add(&mut self, key: Key, number: u64) {
        self.calls.entry(key).or_default().number += number;
    }
}

/// What fake-nccl counted, from the line that `fake-nccl play` prints. `None` if it isn't such a line, or if
/// a process crashed before it could say.
pub fn from_fake_nccl(line: &Value) -> Option<Truth> {
    let mut truth = Truth {
        whole: true,
        ..Truth::default()
    };
    let processes = line["processes"].as_array()?;
    truth.nranks = Some(processes.len() as u32);
    for process in processes {
        let rank = process["rank"].as_u64()? as u32;
        truth.ranks.insert(process["pid"].as_u64()? as u32, rank);
        for operation in process["operations"].as_array()? {
            let key = Key {
                function: operation["function"].as_str()?.to_owned(),
                bytes: operation["bytes"].as_u64()?,
                rank,
            };
            // Whatever the profiler was told of them.
            let replayed = operation["replayed"].as_u64()?;
            truth.add(key, operation["calls"].as_u64()? + replayed);
            // A replay has a number of its own, or its template's: NCCL's releases differ.
            truth.whole &= replayed == 0;
        }
    }
    Some(truth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_fake_nccl_is_read_by_rank_and_a_crash_is_no_truth() {
        let mut line = serde_json::json!({"processes": [
            {"rank": 0, "pid": 41, "operations": [{"function": "AllReduce", "bytes": 1024, "calls": 3,
                "replayed": 0}]},
            {"rank": 1, "pid": 42, "operations": [{"function": "AllReduce", "bytes": 1024, "calls": 2,
                "replayed": 4}]},
        ]});
        let truth = from_fake_nccl(&line).expect("a truth");
        assert_eq!(
            (truth.total(), truth.nranks, truth.whole),
            (9, Some(2), false)
        );
        assert_eq!(truth.ranks[&42], 1);
        line["processes"][1]["operations"] = Value::Null;
        assert!(from_fake_nccl(&line).is_none());
    }
}

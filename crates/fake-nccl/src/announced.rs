//! Counts what a job announced to its plugins, on NCCL's side of the ABI.
//!
//! Rule: a call counts if the plugin was called with its start: CollApi or P2pApi from ABI v5 on, Coll or P2p
//! below. A graph replay counts if its Coll or P2p did. What a shim dropped or the mask left out does not
//! count.

use serde_json::{json, Map, Value};
use std::collections::BTreeMap;

/// One kind of user call on one communicator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Operation {
    /// Hash of the communicator.
    pub communicator: u64,
    /// Its name in the script; empty in a replay of a capture.
    pub name: String,
    /// Its size.
    pub nranks: usize,
    /// NCCL's name of what the user called.
    pub function: String,
    /// NCCL's name.
    pub datatype: String,
    /// By nccl-tests' convention.
    pub bytes: u64,
}

/// How often a call was made, announced and replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Calls that the user made, whatever the plugin saw.
    pub calls: u64,
    /// Starts that announced it. Each send and receive of an AlltoAll announces it once.
    pub announced: u64,
    /// Replays that the plugin saw, counted like `announced`.
    pub replays: u64,
    /// Replays, counted like `calls`.
    pub replayed: u64,
}

impl Times {
    pub(crate) fn add(&mut self, other: Times) {
        self.calls += other.calls;
        self.announced += other.announced;
        self.replays += other.replays;
        self.replayed += other.replayed;
    }
}

/// What calls took in a process, whatever it announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Took {
    /// Groups of calls; a call alone is one.
    pub groups: u64,
    /// Processor time of the threads that made these, ns.
    pub calls_ns: u64,
    /// That of all other threads meanwhile, ns.
    pub other_ns: u64,
}

/// What one process, or a job, announced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announced {
    /// By what the user called.
    pub operations: BTreeMap<Operation, Times>,
    /// By the function's name in the event, replays included.
    pub functions: BTreeMap<String, u64>,
    /// How long the calls took.
    pub took: Took,
}

impl Announced {
    /// All starts that announced a call or a replay.
    pub fn total(&self) -> u64 {
        self.functions.values().sum()
    }

    /// Replays among them.
    pub fn replays(&self) -> u64 {
        self.operations.values().map(|t| t.replays).sum()
    }

    /// Adds another process's.
    pub fn merge(&mut self, other: &Announced) {
        for (operation, times) in &other.operations {
            self.operations
                .entry(operation.clone())
                .or_default()
                .add(*times);
        }
        self.took.groups += other.took.groups;
        self.took.calls_ns += other.took.calls_ns;
        self.took.other_ns += other.took.other_ns;
        for (function, n) in &other.functions {
            *self.functions.entry(function.clone()).or_default() += n;
        }
    }

    /// For the JSON line.
    pub fn to_json(&self) -> Value {
        let functions: Map<_, _> = self
            .functions
            .iter()
            .map(|(f, n)| (f.clone(), json!(n)))
            .collect();
        let operations: Vec<Value> = self
            .operations
            .iter()
            .map(|(o, t)| {
                json!({
                    "communicator": format!("{:016x}", o.communicator), "name": o.name, "nranks": o.nranks,
                    "function": o.function, "datatype": o.datatype, "bytes": o.bytes,
                    "calls": t.calls, "announced": t.announced, "replays": t.replays,
                    "replayed": t.replayed,
                })
            })
            .collect();
        json!({
            "announced": self.total(), "replays": self.replays(), "functions": functions,
            "operations": operations,
            "took": {
                "groups": self.took.groups, "calls_ns": self.took.calls_ns,
                "other_ns": self.took.other_ns,
            },
        })
    }

    /// Reads [`Announced::to_json`]; `None` if it isn't.
    pub fn from_json(value: &Value) -> Option<Announced> {
        let took = |key: &str| value["took"][key].as_u64();
        let mut out = Announced {
            took: Took {
                groups: took("groups")?,
                calls_ns: took("calls_ns")?,
                other_ns: took("other_ns")?,
            },
            ..Announced::default()
        };
        for (function, n) in value["functions"].as_object()? {
            out.functions.insert(function.clone(), n.as_u64()?);
        }
        for o in value["operations"].as_array()? {
            let text = |key: &str| o[key].as_str().map(String::from);
            let operation = Operation {
                communicator: u64::from_str_radix(o["communicator"].as_str()?, 16).ok()?,
                name: text("name")?,
                nranks: o["nranks"].as_u64()? as usize,
                function: text("function")?,
                datatype: text("datatype")?,
                bytes: o["bytes"].as_u64()?,
            };
            let times = Times {
                calls: o["calls"].as_u64()?,
                announced: o["announced"].as_u64()?,
                replays: o["replays"].as_u64()?,
                replayed: o["replayed"].as_u64()?,
            };
            out.operations.insert(operation, times);
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_round_trips() {
        let mut announced = Announced::default();
        let operation = Operation {
            communicator: 0xfeed_0000_0000_0001,
            name: "world".into(),
            nranks: 8,
            function: "AlltoAll".into(),
            datatype: "ncclFloat32".into(),
            bytes: 1 << 20,
        };
        let times = Times {
            calls: 2,
            announced: 32,
            replays: 0,
            replayed: 5,
        };
        announced.operations.insert(operation, times);
        announced.functions.insert("Send".into(), 16);
        announced.functions.insert("Recv".into(), 16);
        announced.took = Took {
            groups: 2,
            calls_ns: 7_000,
            other_ns: 9_000,
        };
        assert_eq!(
            Announced::from_json(&announced.to_json()).as_ref(),
            Some(&announced)
        );
        let mut twice = announced.clone();
        twice.merge(&announced);
        assert_eq!(twice.total(), 64);
    }
}

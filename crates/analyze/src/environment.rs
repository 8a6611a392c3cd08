//! What a job ran in, and how two jobs differ in it.
//!
//! [`facts`] gathers what the recorder wrote about each process, with its variables and the topology, into
//! one value per key. If processes differ, the value says so: `8.8 (2 of 8 processes)`. [`changes`] lists the
//! keys that differ between two runs.
//!
//! Rule: what differs in any two runs (process ids, times, the capture's own folder, addresses) is no fact of
//! the environment. Which hosts and GPUs it was is one, of the kind [`Kind::Placement`].

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tables::{topologies_of, Capture, Process};

/// What a fact is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FactKind {
    /// NCCL and the driver.
    Software,
    /// NCCL's and ncclscope's variables.
    Variable,
    /// Processes, hosts and GPUs by number.
    Topology,
    /// How it was recorded.
    Recorder,
    /// Which hosts and GPUs it was, and the command: another run's may differ without being another
    /// environment.
    Placement,
}

/// The facts of a capture by kind and key.
pub type Facts = BTreeMap<(FactKind, String), String>;

/// A fact that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Change {
    /// What it is about.
    pub kind: FactKind,
    /// Its name; a variable's own.
    pub key: String,
    /// In A; null where it is not set or not known.
    pub a: Option<String>,
    /// In B.
    pub b: Option<String>,
}

impl Change {
    /// What it is where it has no value: a variable is not set, and any other fact was not recorded.
    pub fn missing(&self) -> &'static str {
        match self.kind {
            FactKind::Variable => "not set",
            _ => "not known",
        }
    }
}

const FACTS: [(&str, FactKind); 12] = [
    ("platform", FactKind::Software),
    ("nccl", FactKind::Software),
    ("driver", FactKind::Software),
    ("driver_version", FactKind::Software),
    ("gpus", FactKind::Topology),
    ("world_size", FactKind::Topology),
    ("ncclscope", FactKind::Recorder),
    ("mode", FactKind::Recorder),
    ("timing", FactKind::Recorder),
    ("mask", FactKind::Recorder),
    ("clock", FactKind::Recorder),
    ("command", FactKind::Placement),
];
/// Variables that are another in each run.
const PER_RUN: [&str; 14] = [
    "NCCLSCOPE_OUT",
    "NCCLSCOPE_NCCL_LOG",
    "NCCLSCOPE_COSTS",
    "NCCLSCOPE_QUIET",
    "NCCLSCOPE_RUN",
    "NCCLSCOPE_RUN_SOCKET",
    "NCCLSCOPE_PLUGIN",
    "NCCL_PROFILER_PLUGIN",
    "NCCL_COMM_ID",
    "NCCL_TOPO_DUMP_FILE",
    "NCCL_TOPO_DUMP_FILE_RANK",
    "NCCL_GRAPH_DUMP_FILE",
    "NCCL_GRAPH_DUMP_FILE_RANK",
    "NCCL_DEBUG_FILE",
];

/// What a job ran in.
pub fn facts(capture: &Capture) -> Facts {
    let mut facts = Facts::new();
    for (key, kind) in FACTS {
        facts.extend(
            over_processes(capture, |p| p.fact(key)).map(|value| ((kind, key.to_owned()), value)),
        );
    }
    let variables: BTreeSet<&str> = capture
        .processes
        .iter()
        .flat_map(|p| p.facts.keys())
        .filter_map(|key| key.strip_prefix("env."))
        .filter(|name| !PER_RUN.contains(name))
        .collect();
    for name in variables {
        let key = format!("env.{name}");
        // An empty value is a value.
        let value = over_processes(capture, |p| p.facts.get(&key).map(String::as_str));
        facts.extend(value.map(|value| ((FactKind::Variable, name.to_owned()), value)));
    }
    let mut insert = |kind, key: &str, value: String| facts.insert((kind, key.to_owned()), value);
    let locals = || capture.processes.iter().flat_map(|p| &p.communicators);
    let abis: BTreeSet<String> = locals()
        .map(|l| format!("v{}", l.abi))
        .filter(|v| v != "v0")
        .collect();
    if !abis.is_empty() {
        insert(FactKind::Recorder, "profiler ABI", list(&abis));
    }
    let mut by_host: BTreeMap<&str, u64> = BTreeMap::new();
    for process in capture
        .processes
        .iter()
        .filter(|p| !p.host.is_empty() && p.restart == 0)
    {
        *by_host.entry(&process.host).or_default() += 1;
    }
    let first_start = capture.processes.iter().filter(|p| p.restart == 0).count();
    insert(FactKind::Topology, "processes", first_start.to_string());
    if !by_host.is_empty() {
        insert(FactKind::Topology, "hosts", by_host.len().to_string());
        let per_host: BTreeSet<u64> = by_host.values().copied().collect();
        let per_host: BTreeSet<String> = per_host.iter().map(u64::to_string).collect();
        insert(FactKind::Topology, "processes per host", list(&per_host));
        let hosts: BTreeSet<String> = by_host.keys().map(|h| (*h).to_owned()).collect();
        insert(FactKind::Placement, "host names", list(&hosts));
    }
    for (pair, links) in links(&topologies_of(&capture.nodes, capture.root())) {
        insert(FactKind::Topology, &format!("link {pair}"), list(&links));
    }
    // NCCL's own count: its nodes need not be hosts (NCCL_HOSTID, containers).
    let largest = capture
        .communicators
        .iter()
        .filter(|c| c.nnodes.is_some())
        .max_by_key(|c| (c.nranks, c.nnodes));
    if let Some(nodes) = largest.and_then(|c| c.nnodes) {
        insert(
            FactKind::Topology,
            "nodes of the largest communicator",
            nodes.to_string(),
        );
    }
    let gpus: BTreeSet<String> = locals().filter_map(|l| l.gpu.clone()).collect();
    if !gpus.is_empty() {
        insert(FactKind::Topology, "GPUs", gpus.len().to_string());
        insert(FactKind::Placement, "GPU ids", list(&gpus));
    }
    facts
}

/// The links between any two devices, over hosts.
fn links(hosts: &[(String, setup::topology::Topology)]) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, topology) in hosts {
        for (at, (from, links)) in topology.devices.iter().zip(&topology.links).enumerate() {
            let later = topology.devices.iter().zip(links).skip(at + 1);
            for (to, link) in later {
                let pair = format!("{} - {}", from.name, to.name);
                all.entry(pair).or_default().insert(link.clone());
            }
        }
    }
    all
}

/// At most three of them.
fn list(values: &BTreeSet<String>) -> String {
    let mut text = values
        .iter()
        .take(3)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if values.len() > 3 {
        // The rest must still tell two lists apart.
        let rest = values.iter().skip(3).flat_map(|v| v.bytes().chain([0]));
        let digest = rest.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        text += &format!(
            " and {} more (list {:08x})",
            values.len() - 3,
            digest as u32
        );
    }
    text
}

/// The value of all processes, or every value with its share.
fn over_processes<'a>(
    capture: &'a Capture,
    fact: impl Fn(&'a Process) -> Option<&'a str>,
) -> Option<String> {
    let mut values: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for process in &capture.processes {
        *values.entry(fact(process)).or_default() += 1;
    }
    let all = capture.processes.len();
    if let (Some((value, _)), 1) = (values.first_key_value(), values.len()) {
        return value.map(str::to_owned);
    }
    let shares = values.iter().map(|(value, n)| {
        let value = value.unwrap_or("not set");
        format!("{value} ({n} of {all} processes)")
    });
    Some(list(&shares.collect()))
}

/// How B's facts differ from A's.
pub fn changes(a: &Facts, b: &Facts) -> Vec<Change> {
    let keys: BTreeSet<&(FactKind, String)> = a.keys().chain(b.keys()).collect();
    let different = keys.into_iter().filter(|key| a.get(*key) != b.get(*key));
    different
        .map(|key| Change {
            kind: key.0,
            key: key.1.clone(),
            a: a.get(key).cloned(),
            b: b.get(key).cloned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(processes: &[&[(&str, &str)]]) -> Capture {
        Capture {
            processes: processes
                .iter()
                .map(|facts| Process {
                    facts: facts
                        .iter()
                        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                        .collect(),
                    ..Process::default()
                })
                .collect(),
            ..Capture::default()
        }
    }

    #[test]
    fn what_differs_is_listed_and_what_always_differs_is_not() {
        let a = capture(&[&[
            ("nccl", "2.28.9"),
            ("env.NCCL_ALGO", "RING"),
            ("pid", "7"),
            ("env.NCCLSCOPE_OUT", "a"),
        ]]);
        let b = capture(&[&[
            ("nccl", "2.30.7"),
            ("pid", "8"),
            ("env.NCCLSCOPE_OUT", "b"),
            ("env.NCCL_P2P_LEVEL", ""),
        ]]);
        let found: Vec<_> = changes(&facts(&a), &facts(&b))
            .into_iter()
            .map(|c| (c.kind, c.key, c.a, c.b))
            .collect();
        let text = |t: &str| Some(t.to_owned());
        assert_eq!(
            found,
            [
                (
                    FactKind::Software,
                    "nccl".to_owned(),
                    text("2.28.9"),
                    text("2.30.7")
                ),
                (
                    FactKind::Variable,
                    "NCCL_ALGO".to_owned(),
                    text("RING"),
                    None
                ),
                (
                    FactKind::Variable,
                    "NCCL_P2P_LEVEL".to_owned(),
                    None,
                    text("")
                ),
            ]
        );
    }

    #[test]
    fn one_process_that_differs_shows() {
        let ring: &[(&str, &str)] = &[("env.NCCL_ALGO", "RING")];
        let a = facts(&capture(&[ring, ring]));
        let b = facts(&capture(&[ring, &[]]));
        let found = changes(&a, &b);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].b.as_deref(),
            Some("RING (1 of 2 processes), not set (1 of 2 processes)")
        );
    }
}

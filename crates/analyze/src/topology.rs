//! The links of the job's hosts, and what about them costs bandwidth.
//!
//! [`topologies`] puts together what NVML, /sys and NCCL say of each host ([`setup::topology`]), and on which
//! CPUs the job's processes may run. [`findings`] are what stands out.
//!
//! Rule: a network card is a finding only if the job uses a network. CPUs are one only if a process may run
//! on none that is beside its GPU.

use crate::subject::plain_uuid;
use schemars::JsonSchema;
use serde::Serialize;
use setup::topology::{apart, facts, far_cards, remarks, GraphChoice, Remark, Topology};
use std::collections::BTreeSet;
use tables::{Capture, Process};

/// The format of a page of [`Host`]s.
pub const SCHEMA: &str = "ncclscope.topo/1";

/// One host.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Host {
    /// Its name, or that of a file.
    pub host: String,
    /// GPUs and network cards, and the links between them.
    #[serde(flatten)]
    pub topology: Topology,
    /// Rings, trees and others that NCCL made of it; empty if NCCL wrote none on this host.
    pub graphs: Vec<GraphChoice>,
    /// What costs bandwidth.
    pub remarks: Vec<Remark>,
    /// What is worth knowing about its links although nothing is wrong.
    pub facts: Vec<String>,
}

/// A host as a file has it.
pub fn of_file(host: String, topology: Topology) -> Host {
    Host {
        host,
        remarks: remarks(&topology),
        facts: facts(&topology),
        topology,
        graphs: Vec::new(),
    }
}

/// The hosts of a capture that have a topology, in order.
pub fn topologies(capture: &Capture) -> Vec<Host> {
    let all = tables::topologies_of(&capture.nodes, capture.root());
    let graphs = tables::all_graphs(capture.root());
    let nccl = tables::topologies_of_nccl(capture.root());
    let host = |(host, topology): (String, Topology)| {
        let node = capture.nodes.iter().find(|node| node.host == host);
        let names = [Some(host.as_str()), node.and_then(|node| node.fact("host"))];
        let is_here = |name: &str| names.contains(&Some(name));
        let found = graphs.iter().find(|(name, _)| is_here(name));
        let graphs = found.map_or(Vec::new(), |(_, graphs)| graphs.clone());
        let mut remarks = remarks(&topology);
        // NCCL's cards have numbers of its own, so they are looked up in its own topology.
        let own = nccl.iter().find(|(name, _)| is_here(name));
        remarks.extend(own.map_or(Vec::new(), |(_, own)| far_cards(own, &graphs)));
        remarks.extend(far_cpus(capture, &host, &topology));
        Host {
            host,
            facts: facts(&topology),
            topology,
            graphs,
            remarks,
        }
    };
    all.into_iter().map(host).collect()
}

/// The place in the topology of the GPU that a process uses on one of its communicators. GPUs come first
/// there, in the order of NVML.
pub(crate) fn gpu_of(
    capture: &Capture,
    process: &Process,
    uid: u32,
    topology: &Topology,
) -> Option<usize> {
    let node = capture
        .nodes
        .iter()
        .find(|node| node.host == process.host)?;
    let local = process
        .communicators
        .iter()
        .find(|local| local.uid == uid)?;
    let used = plain_uuid(local.gpu.as_deref()?);
    let index = node.gpus().position(|(uuid, _)| plain_uuid(uuid) == used)?;
    topology
        .devices
        .get(index)
        .filter(|device| device.is_gpu())?;
    Some(index)
}

/// Processes that may run on no CPU that is beside their GPU.
fn far_cpus(capture: &Capture, host: &str, topology: &Topology) -> Vec<Remark> {
    let of = |process: &Process| {
        let allowed = process.setup.cpus.as_deref()?;
        let first = process
            .communicators
            .iter()
            .find(|local| local.gpu.is_some())?;
        let device = topology
            .devices
            .get(gpu_of(capture, process, first.uid, topology)?)?;
        let beside = device.cpus.as_deref()?;
        let is_apart = cpus(allowed)?.is_disjoint(&cpus(beside)?);
        is_apart.then(|| apart(process.rank, process.pid, allowed, &device.name, beside))
    };
    let here = capture
        .processes
        .iter()
        .filter(|process| process.host == host);
    here.filter_map(of).collect()
}

/// The numbers of `0-3,8`, as the kernel writes them.
fn cpus(list: &str) -> Option<BTreeSet<u32>> {
    /// More CPUs than any machine has.
    const MOST: u32 = 1 << 16;
    let mut all = BTreeSet::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last >= MOST {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::topology as findings;
    use setup::topology::{FAR_CPUS, FAR_NETWORK_CARD};
    use tables::communicators::Local;
    use tables::{Communicator, Node};

    const UUID: &str = "GPU-00000000-0000-0000-0000-000000000abc";

    /// Rank 0 on a host with two GPUs, which may run on these CPUs. Its GPU is beside the CPUs 0 to 47.
    fn capture(allowed: &str, links: [&str; 3], nnodes: u32) -> Capture {
        let mut capture = Capture::default();
        let facts = [
            ("gpu.0", format!("{UUID} H200")),
            ("device.0", "GPU0 0000:18:00.0".to_owned()),
            ("cpus.0", "0-23,24-47".to_owned()),
            ("links.0", links[0].to_owned()),
            ("device.1", "GPU1 0000:98:00.0".to_owned()),
            ("links.1", links[1].to_owned()),
            ("device.2", "NIC0 mlx5_0".to_owned()),
            ("links.2", links[2].to_owned()),
        ];
        capture.nodes.push(Node {
            host: "n1".to_owned(),
            facts: facts.map(|(k, v)| (k.to_owned(), v)).into(),
            ..Node::default()
        });
        let mut process = Process {
            rank: Some(0),
            host: "n1".to_owned(),
            communicators: vec![Local {
                gpu: Some("00000000000000000000000000000abc".to_owned()),
                ..Local::default()
            }],
            ..Process::default()
        };
        process.setup.cpus = Some(allowed.to_owned());
        capture.processes.push(process);
        capture.communicators.push(Communicator {
            id: "a".to_owned(),
            hash: 10,
            nranks: Some(2),
            nnodes: Some(nnodes),
            name: None,
            members: Vec::new(),
            created_ns: None,
            parent: None,
        });
        capture
    }

    const NEAR: [&str; 3] = ["X NV18 PIX", "NV18 X PIX", "PIX PIX X"];
    /// The second GPU has no card on its socket.
    const FAR: [&str; 3] = ["X NV18 PIX", "NV18 X SYS", "PIX SYS X"];

    fn kinds(capture: &Capture) -> Vec<&'static str> {
        let found = findings(&topologies(capture), capture);
        found
            .into_iter()
            .map(|finding| finding.kind().name())
            .collect()
    }

    #[test]
    fn a_process_on_the_other_socket_s_cpus_is_a_finding() {
        assert_eq!(kinds(&capture("48-95", NEAR, 1)), [FAR_CPUS]);
        let said = &topologies(&capture("48-95", NEAR, 1))[0].remarks[0].sentence;
        assert_eq!(
            said,
            "Rank 0 runs on the CPUs 48-95, and its GPU0 is beside the CPUs 0-23,24-47."
        );
        // One of its CPUs is there, or nothing is bound.
        assert!(kinds(&capture("40-60", NEAR, 1)).is_empty());
        assert!(kinds(&capture("0-95", NEAR, 1)).is_empty());
    }

    #[test]
    fn a_far_network_card_is_a_finding_if_the_job_uses_a_network() {
        assert_eq!(kinds(&capture("0-95", FAR, 2)), [FAR_NETWORK_CARD]);
        assert!(kinds(&capture("0-95", FAR, 1)).is_empty());
        assert!(kinds(&capture("0-95", NEAR, 2)).is_empty());
    }

    #[test]
    fn lists_of_cpus_are_read_or_refused() {
        assert_eq!(cpus("0-2,5"), Some(BTreeSet::from([0, 1, 2, 5])));
        for text in ["", "a", "1-", "0-4000000000"] {
            assert_eq!(cpus(text), None, "{text}");
        }
    }
}

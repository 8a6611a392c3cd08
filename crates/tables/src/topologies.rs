//! The topologies that a capture has: NCCL's, which `ncclscope run` had it write, and NVML's, which the node
//! sampler asked for.
//!
//! Rule: NVML's is preferred, because it names the links as nvidia-smi does and knows CPUs.

use crate::nodes::{self, Node};
use setup::topology::{graphs, Device, Graph, Topology};
use std::path::Path;

/// How the names of these files begin and end; the host is between.
pub const TOPOLOGY_FILE: (&str, &str) = ("topology-", ".xml");

/// How the names of files with rings and trees begin and end.
pub const GRAPHS_FILE: (&str, &str) = ("graphs-", ".xml");

/// By host, in order: NVML's, or else NCCL's.
pub fn topologies(capture: &Path) -> Vec<(String, Topology)> {
    of_nodes(&nodes::read(capture, &[], &mut Vec::new()), capture)
}

/// The same with nodes that are read already.
pub fn of_nodes(nodes: &[Node], capture: &Path) -> Vec<(String, Topology)> {
    let mut found = of_nccl(capture);
    for node in nodes {
        let Some(topology) = of_node(node) else {
            continue;
        };
        // A file of NCCL has the name of its host with other letters for some.
        found.retain(|(host, _)| *host != node.host && Some(host.as_str()) != node.fact("host"));
        found.push((node.host.clone(), topology));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// What NVML and /sys said to the node's sampler.
fn of_node(node: &Node) -> Option<Topology> {
    let mut topology = Topology::default();
    while let Some(device) = node.fact(&format!("device.{}", topology.devices.len())) {
        let number = topology.devices.len();
        let (name, label) = device.split_once(' ').unwrap_or((device, ""));
        let links = node.fact(&format!("links.{number}"))?;
        topology.devices.push(Device {
            name: name.to_owned(),
            label: Some(label.to_owned()).filter(|label| !label.is_empty()),
            numa: node
                .fact(&format!("numa.{number}"))
                .and_then(|n| n.parse().ok()),
            cpus: node.fact(&format!("cpus.{number}")).map(str::to_owned),
        });
        topology
            .links
            .push(links.split(' ').map(str::to_owned).collect());
    }
    let n = topology.devices.len();
    let is_square = topology.links.iter().all(|row| row.len() == n);
    (n > 0 && is_square).then_some(topology)
}

/// Rings and trees by host, from NCCL's files.
pub fn all_graphs(capture: &Path) -> Vec<(String, Vec<Graph>)> {
    files(capture, GRAPHS_FILE, |text| {
        Some(graphs(text)).filter(|graphs| !graphs.is_empty())
    })
}

/// NCCL's topologies by host, in order. What can't be read is left out: NCCL may have been ended while it
/// wrote.
pub fn of_nccl(capture: &Path) -> Vec<(String, Topology)> {
    files(capture, TOPOLOGY_FILE, Topology::read)
}

/// What the files with such names hold, by the host in their names.
fn files<T>(
    capture: &Path,
    (begin, end): (&str, &str),
    read: impl Fn(&str) -> Option<T>,
) -> Vec<(String, T)> {
    let entries = std::fs::read_dir(capture).into_iter().flatten().flatten();
    let read = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let host = name.strip_prefix(begin)?.strip_suffix(end)?;
        let text = crate::files::text(&entry.path()).ok()?;
        Some((host.to_owned(), read(&text)?))
    };
    let mut found: Vec<(String, T)> = entries.filter_map(read).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nvml_s_links_are_preferred() {
        let folder = tempfile::tempdir().expect("a folder");
        let xml = "<system version=\"1\"></system>";
        std::fs::write(folder.path().join("topology-n1.xml"), xml).expect("written");
        let facts = [
            ("device.0", "GPU0 0000:18:00.0"),
            ("numa.0", "1"),
            ("cpus.0", "0-47"),
            ("links.0", "X NV18"),
            ("device.1", "GPU1 0000:19:00.0"),
            ("links.1", "NV18 X"),
        ];
        let mut node = Node {
            host: "n1".to_owned(),
            facts: facts.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            ..Node::default()
        };
        let found = of_nodes(std::slice::from_ref(&node), folder.path());
        let [(host, topology)] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(
            (host.as_str(), topology.link("GPU0", "GPU1")),
            ("n1", Some("NV18"))
        );
        assert_eq!(topology.devices[0].numa, Some(1));
        // A row that is too short is none.
        node.facts.insert("links.1".to_owned(), "X".to_owned());
        assert_eq!(of_nodes(&[node], folder.path())[0].1.devices.len(), 0);
    }

    #[test]
    fn a_file_that_ends_early_is_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("written");
        };
        write("topology-n2.xml", "<system version=\"1\"></system>");
        write("topology-n1.xml", "<system version=\"1\"><cpu");
        write("topology-n3.txt", "<system version=\"1\"></system>");
        let hosts: Vec<String> = topologies(folder.path())
            .into_iter()
            .map(|(host, _)| host)
            .collect();
        assert_eq!(hosts, ["n2"]);
    }
}

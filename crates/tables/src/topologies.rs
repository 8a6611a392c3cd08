//! The topologies that a capture has: NCCL's, which `ncclscope run` had it write, and NVML's, which the node
//! sampler asked for.
//!
//! Rule: NVML's is preferred, because it names the links as nvidia-smi does and knows CPUs. Only a link's
//! rate that NVML does not tell is taken from NCCL's.

use crate::nodes::{self, Node};
use setup::peak::Rates;
use setup::topology::{graphs, Device, GraphChoice, Topology};
use std::path::Path;

/// How the names of these files begin and end; the host is between.
pub const TOPOLOGY_FILE: (&str, &str) = ("topology-", ".xml");

/// How the names of files with rings and trees begin and end.
pub const GRAPHS_FILE: (&str, &str) = ("graphs-", ".xml");

/// By host, in order: NVML's, or else NCCL's.
pub fn topologies(capture: &Path) -> Vec<(String, Topology)> {
    of_nodes(
        &nodes::read(capture, &[], Default::default(), &mut Vec::new()),
        capture,
    )
}

/// The same with nodes that are read already.
pub fn of_nodes(nodes: &[Node], capture: &Path) -> Vec<(String, Topology)> {
    let mut found = of_nccl(capture);
    for node in nodes {
        let Some(mut topology) = of_node(node) else {
            continue;
        };
        // A file of NCCL has the name of its host with other letters for some.
        let here = |host: &str| host == node.host || Some(host) == node.fact("host");
        for (_, of_nccl) in found.iter().filter(|(host, _)| here(host)) {
            add_rates(&mut topology, of_nccl);
        }
        found.retain(|(host, _)| !here(host));
        found.push((node.host.clone(), topology));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// Adds the rates of NVLinks that are not known to the same GPUs, by their place on the bus.
fn add_rates(topology: &mut Topology, others: &Topology) {
    let unknown = |device: &&mut Device| device.rates.nvlink_gb_per_s.is_none();
    for device in topology.devices.iter_mut().filter(unknown) {
        let mut others = others.devices.iter();
        let same = others.find(|other| device.label.is_some() && other.label == device.label);
        device.rates.nvlink_gb_per_s = same.and_then(|other| other.rates.nvlink_gb_per_s);
    }
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
            rates: Rates::of_nvml(
                node.fact(&format!("nvlinks.{number}")),
                node.fact(&format!("pcie.{number}")),
            ),
            pcie_way: None,
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
pub fn all_graphs(capture: &Path) -> Vec<(String, Vec<GraphChoice>)> {
    files(capture, GRAPHS_FILE, |text| {
        Some(graphs(text)).filter(|graphs| !graphs.is_empty())
    })
}

/// NCCL's topologies by host, in order. What can't be read is left out: NCCL may have been ended while it
/// wrote.
pub fn of_nccl(capture: &Path) -> Vec<(String, Topology)> {
    files(capture, TOPOLOGY_FILE, |text| Topology::read(text).ok())
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

    /// What NCCL writes about a node with one GPU.
    const XML: &str = "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:18:00.0\" \
                       class=\"0x030200\"><gpu dev=\"0\" sm=\"90\"/></pci></cpu></system>";

    #[test]
    fn nvml_s_links_are_preferred() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("topology-n1.xml"), XML).expect("written");
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
        // A row that is too short is none, and NCCL's file is left.
        node.facts.insert("links.1".to_owned(), "X".to_owned());
        assert_eq!(of_nodes(&[node], folder.path())[0].1.devices.len(), 1);
    }

    #[test]
    fn a_rate_that_nvml_does_not_tell_is_nccl_s() {
        // As on an H200 in a virtual machine.
        let folder = tempfile::tempdir().expect("a folder");
        let gpu = |bus: &str| {
            format!(
                "<pci busid=\"{bus}\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"0\">\
                 <gpu dev=\"0\" sm=\"90\"><nvlink target=\"fffffff:ff:ff.0\" count=\"18\" \
                 tclass=\"0x068000\"/></gpu></pci>"
            )
        };
        let xml = format!(
            "<system version=\"1\"><cpu numaid=\"-1\">{}</cpu></system>",
            gpu("0000:00:06.0")
        );
        std::fs::write(folder.path().join("topology-n1.xml"), xml).expect("written");
        let facts = [
            ("device.0", "GPU0 0000:00:06.0"),
            ("nvlinks.0", "18 -"),
            ("pcie.0", "5 16"),
            ("links.0", "X NV18"),
            ("device.1", "GPU1 0000:00:07.0"),
            ("nvlinks.1", "18 -"),
            ("links.1", "NV18 X"),
        ];
        let node = Node {
            host: "n1".to_owned(),
            facts: facts.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            ..Node::default()
        };
        let found = of_nodes(&[node], folder.path());
        let rates = found[0].1.devices.iter().map(|device| &device.rates);
        let rates: Vec<_> = rates.map(|of| (of.nvlinks, of.nvlink_gb_per_s)).collect();
        assert_eq!(rates, [(Some(18), Some(25.0)), (Some(18), None)]);
    }

    #[test]
    fn a_file_that_ends_early_is_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("written");
        };
        write("topology-n2.xml", XML);
        write("topology-n1.xml", &XML[..XML.len() / 2]);
        write("topology-n3.txt", XML);
        let hosts: Vec<String> = topologies(folder.path())
            .into_iter()
            .map(|(host, _)| host)
            .collect();
        assert_eq!(hosts, ["n2"]);
    }
}

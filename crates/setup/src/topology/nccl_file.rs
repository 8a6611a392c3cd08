//! The file that NCCL writes for `NCCL_TOPO_DUMP_FILE`.

use super::{Device, PcieLink, Topology, Unreadable};
use crate::peak::Rates;
use crate::xml::Element;
use std::collections::{BTreeMap, BTreeSet};

impl Topology {
    /// Of NCCL's topology file.
    pub(super) fn of_xml(root: &Element) -> Result<Topology, Unreadable> {
        match root.name.as_str() {
            "system" => {}
            "graphs" => return Err(Unreadable::Graphs),
            _ => return Err(Unreadable::Xml),
        }
        let mut found = Vec::new();
        walk(root, None, &mut Vec::new(), &mut Vec::new(), &mut found);
        if found.is_empty() {
            return Err(skeleton(root));
        }
        let is_gpu = |place: &ListedDevice| place.device.is_gpu();
        for gpus in [true, false] {
            number_unreadable(&mut found, gpus);
        }
        // Each host counts its devices from 0. Then they are numbered in the order of the file.
        for gpus in [true, false] {
            let mut all: Vec<&mut ListedDevice> =
                found.iter_mut().filter(|p| is_gpu(p) == gpus).collect();
            let numbers: BTreeSet<u32> = all.iter().map(|place| place.number).collect();
            if numbers.len() < all.len() {
                for (number, place) in (0..).zip(&mut all) {
                    place.number = number;
                    place.device.name = format!("{}{number}", if gpus { "GPU" } else { "NIC" });
                }
            }
        }
        found.sort_by_key(|place| (!is_gpu(place), place.number));
        let links = found
            .iter()
            .map(|a| found.iter().map(|b| between(a, b)).collect());
        Ok(Topology {
            links: links.collect(),
            devices: found.into_iter().map(|place| place.device).collect(),
        })
    }
}

/// In place of a number that can't be read. No host has as many devices.
const UNREADABLE: u32 = u32::MAX;

/// Gives devices whose number can't be read the lowest free ones, and says so in their labels.
fn number_unreadable(found: &mut [ListedDevice], gpus: bool) {
    let mut of_kind: Vec<&mut ListedDevice> = found
        .iter_mut()
        .filter(|place| place.device.is_gpu() == gpus)
        .collect();
    let used: BTreeSet<u32> = of_kind.iter().map(|place| place.number).collect();
    let mut free = (0..UNREADABLE).filter(|number| !used.contains(number));
    for place in of_kind
        .iter_mut()
        .filter(|place| place.number == UNREADABLE)
    {
        let Some(number) = free.next() else { return };
        place.number = number;
        place.device.name = format!("{}{number}", if gpus { "GPU" } else { "NIC" });
        let label = place.device.label.take().unwrap_or_default();
        let told = format!("{label} (dev is no number)");
        place.device.label = Some(told.trim_start().to_owned());
    }
}

/// A device in NCCL's file.
struct ListedDevice {
    device: Device,
    number: u32,
    /// Its host, if the file says so: GPUs of several hosts with NVLinks between them are in one file.
    host: Option<String>,
    /// From the root: the NUMA node, then PCI addresses.
    path: Vec<String>,
    /// Number of NVLinks by target: the PCI address of a GPU, or `NVS` for switches.
    nvlinks: BTreeMap<String, u32>,
}

fn walk(
    element: &Element,
    host: Option<&str>,
    path: &mut Vec<String>,
    ways: &mut Vec<PcieLink>,
    found: &mut Vec<ListedDevice>,
) {
    let number = |element: &Element, name: &str| element.attribute(name)?.parse::<u32>().ok();
    for child in &element.children {
        let step = match child.name.as_str() {
            "cpu" => Some(format!("cpu {}", child.attribute("numaid").unwrap_or("?"))),
            "pci" => child.attribute("busid").map(str::to_owned),
            _ => None,
        };
        let numa = path
            .first()
            .and_then(|cpu| cpu.strip_prefix("cpu ")?.parse().ok());
        let slowest = ways
            .iter()
            .min_by(|a, b| a.gb_per_s.total_cmp(&b.gb_per_s))
            .cloned();
        let mut device = |kind: &str, label: Option<String>, nvlinks, rates| {
            let number = number(child, "dev").unwrap_or(UNREADABLE);
            found.push(ListedDevice {
                device: Device {
                    name: format!("{kind}{number}"),
                    label,
                    numa,
                    cpus: None,
                    rates,
                    pcie_way: slowest.clone(),
                },
                number,
                host: host.map(str::to_owned),
                path: path.clone(),
                nvlinks,
            });
        };
        match child.name.as_str() {
            "gpu" => {
                let mut links = BTreeMap::new();
                for link in child.children.iter().filter(|c| c.name == "nvlink") {
                    // The classes of bridges: 0x068000 of switches, 0x068001 of POWER CPUs.
                    let target = match link.attribute("tclass") {
                        Some(class) if class.starts_with("0x068001") => continue,
                        Some(class) if class.starts_with("0x0680") => "NVS",
                        _ => link.attribute("target").unwrap_or("?"),
                    };
                    *links.entry(target.to_owned()).or_insert(0) +=
                        number(link, "count").unwrap_or(0);
                }
                // The PCI device that the GPU is.
                let rates = Rates::of_nccl(
                    links.values().sum(),
                    child.attribute("sm"),
                    element.attribute("link_speed"),
                    element.attribute("link_width"),
                );
                device("GPU", path.last().cloned(), links, rates);
            }
            "net" => device(
                "NIC",
                child.attribute("name").map(str::to_owned),
                BTreeMap::new(),
                Rates::default(),
            ),
            _ => {}
        }
        let host = child
            .attribute("host_hash")
            .filter(|_| child.name == "cpu")
            .or(host);
        let depth = (path.len(), ways.len());
        path.extend(step);
        ways.extend(PcieLink::of(child).filter(|_| child.name == "pci"));
        walk(child, host, path, ways, found);
        path.truncate(depth.0);
        ways.truncate(depth.1);
    }
}

/// A file without `<gpu>` and `<net>`: clouds give NCCL the PCI functions, and it adds the rest.
fn skeleton(root: &Element) -> Unreadable {
    fn count(element: &Element, counts: &mut [usize; 2]) {
        for child in &element.children {
            match child.attribute("class") {
                Some(class) if class.starts_with("0x03") => counts[0] += 1,
                Some(class) if class.starts_with("0x02") => counts[1] += 1,
                _ => {}
            }
            count(child, counts);
        }
    }
    let mut counts = [0; 2];
    count(root, &mut counts);
    let [gpus, cards] = counts;
    Unreadable::Skeleton { gpus, cards }
}

/// The link between two devices of NCCL's file.
fn between(a: &ListedDevice, b: &ListedDevice) -> String {
    if a.device.name == b.device.name {
        return "X".to_owned();
    }
    // Addresses on the bus are those of a host. Older releases name none, and have one in a file.
    let is_one_host = a.host.is_none() || b.host.is_none() || a.host == b.host;
    let direct = |from: &ListedDevice, to: &ListedDevice| {
        let links = from.nvlinks.get(to.path.last()?).copied();
        links.filter(|_| is_one_host)
    };
    let switched = a
        .nvlinks
        .get("NVS")
        .zip(b.nvlinks.get("NVS"))
        .map(|(a, b)| *a.min(b));
    if let Some(links) = direct(a, b)
        .or(direct(b, a))
        .or(switched)
        .filter(|n| *n > 0)
    {
        return format!("NV{links}");
    }
    if !is_one_host {
        return "-".to_owned();
    }
    let common = a
        .path
        .iter()
        .zip(&b.path)
        .take_while(|(a, b)| a == b)
        .count();
    // The last part of a path is the device's own address.
    let above = |place: &ListedDevice| place.path.len().saturating_sub(1 + common);
    match common {
        0 => "SYS",
        1 => "PHB",
        _ if above(a) == 0 && above(b) == 0 => "PIX",
        _ => "PXB",
    }
    .to_owned()
}

//! The machine's topology: which GPUs and network cards there are, and what is between any two of them.
//!
//! [`Topology::read`] takes the matrix that `nvidia-smi topo -m` prints, or the file that NCCL writes for
//! `NCCL_TOPO_DUMP_FILE` ([`crate::xml`]). [`compare`] lists the links that differ, and [`remarks`] says what
//! costs bandwidth.
//!
//! Links have nvidia-smi's names. `NV4` is four NVLinks, `PIX` one PCIe switch, and `PXB` several of these.
//! `PHB` is the host bridge of a socket, `NODE` several of its host bridges, and `SYS` the link between
//! sockets.
//!
//! Rule: a link is told as it was read. A link that is not known is `-`.

use crate::peak::Rates;
use crate::xml::{self, Element};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// GPUs and network cards of a host, and the links between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Topology {
    /// GPUs, then network cards.
    pub devices: Vec<Device>,
    /// The link between any two devices, in their order; `X` from a device to itself.
    pub links: Vec<Vec<String>>,
}

/// A GPU or a network card.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Device {
    /// `GPU0` or `NIC0`.
    pub name: String,
    /// The network card's own name, such as `mlx5_0`, or the GPU's address on the PCI bus.
    pub label: Option<String>,
    /// Its NUMA node.
    pub numa: Option<u32>,
    /// The CPUs beside it.
    pub cpus: Option<String>,
    /// What its links carry, if it is a GPU of which that is known.
    #[serde(flatten)]
    pub rates: Rates,
}

impl Device {
    /// Whether it is a GPU.
    pub fn is_gpu(&self) -> bool {
        self.name.starts_with("GPU")
    }

    /// Its name, with its label.
    pub fn title(&self) -> String {
        match &self.label {
            Some(label) => format!("{} ({label})", self.name),
            None => self.name.clone(),
        }
    }
}

/// A link that differs between two topologies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// A device.
    pub from: String,
    /// The other one.
    pub to: String,
    /// The link in the first topology; null if it does not have both devices.
    pub a: Option<String>,
    /// In the second.
    pub b: Option<String>,
}

impl Topology {
    /// Reads either form; `None` if it is neither.
    pub fn read(text: &str) -> Option<Topology> {
        match text.trim_start().starts_with('<') {
            true => Topology::of_xml(&xml::parse(text)?),
            false => Topology::of_matrix(text),
        }
    }

    /// The link between two devices by name.
    pub fn link(&self, from: &str, to: &str) -> Option<&str> {
        let at = |name: &str| self.devices.iter().position(|device| device.name == name);
        Some(&self.links[at(from)?][at(to)?])
    }

    /// Of `nvidia-smi topo -m`, as it prints it with tabs, or as people paste it with blanks.
    fn of_matrix(text: &str) -> Option<Topology> {
        // It underlines the heading on a terminal, and keeps doing so in files.
        let plain = text.replace("\u{1b}[4m", "").replace("\u{1b}[0m", "");
        let is_gpu = |word: &str| is_numbered(word, "GPU");
        let mut lines = plain.lines();
        let heading = lines.find(|line| line.split_whitespace().next().is_some_and(is_gpu))?;
        // Devices, then columns with blanks in their names, of which `CPU Affinity` is the first. Cards are
        // `NIC0` or, before driver 510, have their own names.
        let is_column = |word: &&str| ["CPU", "NUMA"].contains(word);
        let names: Vec<&str> = heading
            .split_whitespace()
            .take_while(|w| !is_column(w))
            .collect();
        let mut columns: Vec<(usize, &str)> = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]
            .into_iter()
            .filter_map(|column| Some((heading.find(column)?, column)))
            .collect();
        columns.sort_unstable();
        // `GPU NUMA ID` begins with a word like a device's.
        let names: Vec<&str> = names.into_iter().filter(|name| *name != "GPU").collect();
        let mut rows: BTreeMap<&str, &str> = BTreeMap::new();
        let mut legend: BTreeMap<&str, &str> = BTreeMap::new();
        for line in lines {
            if let Some((name, label)) = line.trim().split_once(':') {
                if is_numbered(name, "NIC") {
                    legend.insert(name, label.trim());
                    continue;
                }
            }
            let first = line.split_whitespace().next();
            if let Some(name) = first.filter(|first| names.contains(first)) {
                // Another matrix may follow.
                rows.entry(name).or_insert(line);
            }
        }
        let column = |row: &str, name: &str| {
            let place = columns.iter().position(|(_, column)| *column == name)?;
            let at = 1 + names.len() + place;
            // With tabs, a cell may be empty.
            let cell = match row.contains('\t') {
                true => row.trim_start().split('\t').nth(at)?.trim(),
                false => row.split_whitespace().nth(at)?,
            };
            Some(cell.to_owned()).filter(|cell| !cell.is_empty() && cell != "N/A")
        };
        let mut links: Vec<Option<Vec<String>>> = Vec::new();
        for name in &names {
            let row = rows
                .get(name)
                .map(|row| row.split_whitespace().skip(1).take(names.len()));
            let row: Option<Vec<String>> = row.map(|row| row.map(str::to_owned).collect());
            // `topo -p2p` has a matrix of what is possible instead of links.
            if row
                .iter()
                .any(|row| row.len() != names.len() || !row.iter().all(|l| is_link(l)))
            {
                return None;
            }
            links.push(row);
        }
        if links.iter().all(Option::is_none) {
            return None;
        }
        // A link has a cell at both of its ends, and people paste the rows of GPUs alone.
        let link = |a: usize, b: usize| {
            let cell = |a: usize, b: usize| links[a].as_ref().map(|row| row[b].clone());
            let known = cell(a, b).or_else(|| cell(b, a));
            known.unwrap_or_else(|| if a == b { "X" } else { "-" }.to_owned())
        };
        let all = 0..names.len();
        let mut topology = Topology {
            links: all
                .clone()
                .map(|a| all.clone().map(|b| link(a, b)).collect())
                .collect(),
            ..Topology::default()
        };
        for name in &names {
            let (title, own) = match is_gpu(name) || is_numbered(name, "NIC") {
                true => ((*name).to_owned(), legend.get(name)),
                false => {
                    let cards = topology.devices.iter().filter(|device| !device.is_gpu());
                    (format!("NIC{}", cards.count()), Some(name))
                }
            };
            let of = |name: &str, column_name: &str| column(rows.get(name)?, column_name);
            topology.devices.push(Device {
                name: title,
                label: own.map(|label| (*label).to_owned()),
                numa: of(name, "NUMA Affinity").and_then(|numa| numa.parse().ok()),
                cpus: of(name, "CPU Affinity"),
                rates: Rates::default(),
            });
        }
        Some(topology)
    }

    /// Of NCCL's topology file.
    fn of_xml(root: &Element) -> Option<Topology> {
        if root.name != "system" {
            return None;
        }
        let mut found = Vec::new();
        walk(root, None, &mut Vec::new(), &mut found);
        let is_gpu = |place: &ListedDevice| place.device.is_gpu();
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
        Some(Topology {
            links: links.collect(),
            devices: found.into_iter().map(|place| place.device).collect(),
        })
    }
}

/// Whether a word is this kind and a number, such as `GPU0`.
fn is_numbered(word: &str, kind: &str) -> bool {
    let digits = word.strip_prefix(kind);
    digits.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether nvidia-smi calls a link so. `SOC` is `SYS` of old drivers.
fn is_link(word: &str) -> bool {
    const LINKS: [&str; 8] = ["X", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC", "N/A"];
    LINKS.contains(&word) || is_numbered(word, "NV")
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
        let mut device = |kind: &str, label: Option<String>, nvlinks, rates| {
            let Some(number) = number(child, "dev") else {
                return;
            };
            found.push(ListedDevice {
                device: Device {
                    name: format!("{kind}{number}"),
                    label,
                    numa,
                    cpus: None,
                    rates,
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
        let depth = path.len();
        path.extend(step);
        walk(child, host, path, found);
        path.truncate(depth);
    }
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

/// The links that differ, each once.
pub fn compare(a: &Topology, b: &Topology) -> Vec<Change> {
    let names = |t: &Topology| t.devices.iter().map(|d| d.name.clone()).collect::<Vec<_>>();
    let mut all = names(a);
    all.extend(
        names(b)
            .into_iter()
            .filter(|name| a.devices.iter().all(|d| d.name != *name)),
    );
    let mut changes = Vec::new();
    for (at, from) in all.iter().enumerate() {
        for to in &all[at + 1..] {
            let (before, after) = (a.link(from, to), b.link(from, to));
            if before != after {
                changes.push(Change {
                    from: from.clone(),
                    to: to.clone(),
                    a: before.map(str::to_owned),
                    b: after.map(str::to_owned),
                });
            }
        }
    }
    changes
}

/// Something about a topology that costs bandwidth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// [`MISSING_NVLINK`], [`FAR_NETWORK_CARD`] or [`FAR_CPUS`].
    pub kind: &'static str,
    /// It.
    pub sentence: String,
}

/// GPUs have fewer NVLinks than others of the host.
pub const MISSING_NVLINK: &str = "missing_nvlink";
/// A GPU uses a network card on another socket.
pub const FAR_NETWORK_CARD: &str = "far_network_card";
/// A process runs on CPUs that are not beside its GPU.
pub const FAR_CPUS: &str = "far_cpus";

/// Network cards that NCCL uses beside a GPU although they are on another socket and a nearer one is there.
///
/// NCCL's channels begin or end at a card, and the GPU next to it there sends and receives through it.
pub fn far_cards(topology: &Topology, graphs: &[GraphChoice]) -> Vec<Remark> {
    let mut pairs = BTreeSet::new();
    for channel in graphs.iter().flat_map(|graph| &graph.channels) {
        for pair in channel.windows(2) {
            match [pair[0].as_str(), pair[1].as_str()] {
                [card, gpu] | [gpu, card] if card.starts_with("NIC") && gpu.starts_with("GPU") => {
                    pairs.insert((gpu, card));
                }
                _ => {}
            }
        }
    }
    let title = |name: &str| {
        let device = topology.devices.iter().find(|device| device.name == name);
        device.map_or_else(|| name.to_owned(), Device::title)
    };
    let far = pairs.into_iter().filter_map(|(gpu, card)| {
        let cards = topology.devices.iter().filter(|device| !device.is_gpu());
        let nearer = cards
            .filter_map(|device| Some((distance(topology.link(gpu, &device.name)?)?, &device.name)))
            .min()?;
        let is_far = topology.link(gpu, card)? == "SYS";
        (is_far && Some(nearer.0) < distance("SYS")).then(|| Remark {
            kind: FAR_NETWORK_CARD,
            sentence: format!(
                "NCCL uses {} beside {gpu}, across sockets (SYS), although {} is nearer.",
                title(card),
                title(nearer.1)
            ),
        })
    });
    far.collect()
}

/// What NCCL made of the topology: rings, trees and others, from its file of `NCCL_GRAPH_DUMP_FILE`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GraphChoice {
    /// `ring`, `tree`, `collnet` or `nvls`; NCCL's number for another.
    pub name: String,
    /// GB/s that NCCL expects of a channel within the host.
    pub gb_per_s: Option<f64>,
    /// NCCL's name for the links within the host.
    pub links: Option<String>,
    /// The GPUs by rank in the communicator, and network cards, of each channel in its order.
    pub channels: Vec<Vec<String>>,
}

/// The graphs of such a file; nothing for another.
pub fn graphs(text: &str) -> Vec<GraphChoice> {
    let Some(root) = xml::parse(text).filter(|root| root.name == "graphs") else {
        return Vec::new();
    };
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    let device = |element: &Element| {
        let kind = match element.name.as_str() {
            "gpu" => "GPU",
            "net" => "NIC",
            _ => return None,
        };
        // Of a NIC, the upper half is the host.
        let n = number(element.attribute("dev")?)? & 0xffff_ffff;
        Some(format!("{kind}{n}"))
    };
    let graph = |element: &Element| GraphChoice {
        name: match element.attribute("id") {
            Some("0") => "ring".to_owned(),
            Some("1") => "tree".to_owned(),
            Some("2") => "collnet".to_owned(),
            Some("3") => "nvls".to_owned(),
            other => other.unwrap_or("?").to_owned(),
        },
        gb_per_s: element
            .attribute("speedintra")
            .and_then(|bw| bw.parse().ok()),
        links: element.attribute("typeintra").map(str::to_owned),
        channels: element
            .children
            .iter()
            .map(|channel| channel.children.iter().filter_map(device).collect())
            .collect(),
    };
    let graphs = root
        .children
        .iter()
        .filter(|element| element.name == "graph");
    graphs.map(graph).collect()
}

/// How far a link goes; less is nearer.
fn distance(link: &str) -> Option<u32> {
    let order = ["X", "PIX", "PXB", "PHB", "NODE", "SYS"];
    order
        .iter()
        .position(|name| *name == link)
        .map(|at| at as u32)
}

/// GPUs that have fewer NVLinks than others of the host, in sentences.
///
/// Without a switch, pairs of GPUs may differ by design, and a part of the host's GPUs may be all that is
/// visible. So a GPU lacks something if it has fewer NVLinks in all. NVML and NCCL tell that number, links to
/// GPUs that are hidden included. A matrix does not.
fn missing_nvlinks(topology: &Topology, gpus: &[usize]) -> Vec<String> {
    let nvlinks = |a: usize, b: usize| {
        let count = topology.links[a][b].strip_prefix("NV")?;
        count.parse::<u32>().ok()
    };
    let pairs = |of: &[usize]| -> Vec<(usize, usize)> {
        let behind = |a: usize| of.iter().filter(move |b| **b > a).map(move |b| (a, *b));
        of.iter().flat_map(|a| behind(*a)).collect()
    };
    let name = |gpu: usize| &topology.devices[gpu].name;
    let told = |gpu: usize| topology.devices[gpu].rates.nvlinks.filter(|n| *n > 0);
    let are_told = gpus.iter().all(|gpu| told(*gpu).is_some());
    let visible = |a: usize| gpus.iter().filter_map(|b| nvlinks(a, *b)).sum::<u32>();
    let in_all = |gpu: usize| {
        told(gpu)
            .filter(|_| are_told)
            .unwrap_or_else(|| visible(gpu))
    };
    let full = gpus.iter().map(|gpu| in_all(*gpu)).max().unwrap_or(0);
    let (whole, lacking): (Vec<usize>, Vec<usize>) =
        gpus.iter().partition(|gpu| in_all(**gpu) == full);
    let most = pairs(gpus)
        .into_iter()
        .filter_map(|(a, b)| nvlinks(a, b))
        .max();
    let Some(most) = most.filter(|_| !lacking.is_empty()) else {
        return Vec::new();
    };
    // As through a switch: three GPUs or more have as many NVLinks to each other.
    let is_switched = whole.len() >= 3
        && pairs(&whole)
            .iter()
            .all(|(a, b)| nvlinks(*a, *b) == Some(most));
    if is_switched || are_told {
        let sentence = |gpu: usize| {
            let own = match are_told {
                true => in_all(gpu),
                false => whole
                    .iter()
                    .filter_map(|other| nvlinks(gpu, *other))
                    .max()
                    .unwrap_or(0),
            };
            let usual = if are_told { full } else { most };
            match own {
                0 => format!(
                    "{} has no NVLink, unlike others of this host, and reaches {} by {}.",
                    name(gpu),
                    name(whole[0]),
                    topology.links[gpu][whole[0]]
                ),
                n => format!(
                    "{} has {n} NVLinks, and others of this host have {usual}.",
                    name(gpu)
                ),
            }
        };
        return lacking.into_iter().map(sentence).collect();
    }
    let partners = |a: usize| gpus.iter().filter(|b| nvlinks(a, **b).is_some()).count();
    let sentence = |(a, b): (usize, usize)| {
        // Bridges connect pairs. A GPU without a partner has none by design.
        let is_left_over = |one: usize, other: usize| partners(one) == 0 && partners(other) == 1;
        match nvlinks(a, b) {
            None if is_left_over(a, b) || is_left_over(b, a) => None,
            None if lacking.contains(&a) || lacking.contains(&b) => Some(format!(
                "{} and {} have no NVLink and are connected by {}, unlike others of this host.",
                name(a),
                name(b),
                topology.links[a][b]
            )),
            Some(n) if n < most && lacking.contains(&a) && lacking.contains(&b) => Some(format!(
                "{} and {} have {n} NVLinks, and others have {most}.",
                name(a),
                name(b)
            )),
            _ => None,
        }
    };
    pairs(gpus).into_iter().filter_map(sentence).collect()
}

/// What costs bandwidth, in sentences: GPUs with fewer NVLinks than others, and GPUs that no network card is
/// near.
pub fn remarks(topology: &Topology) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let gpus: Vec<usize> = (0..topology.devices.len())
        .filter(|at| topology.devices[*at].is_gpu())
        .collect();
    let cards: Vec<usize> = (0..topology.devices.len())
        .filter(|at| !topology.devices[*at].is_gpu())
        .collect();
    remarks.extend(
        missing_nvlinks(topology, &gpus)
            .into_iter()
            .map(|sentence| Remark {
                kind: MISSING_NVLINK,
                sentence,
            }),
    );
    let nearest = |gpu: usize| {
        let links = cards
            .iter()
            .filter_map(|card| distance(&topology.links[gpu][*card]));
        links.min()
    };
    let best = gpus.iter().filter_map(|gpu| nearest(*gpu)).min();
    for gpu in &gpus {
        let near = nearest(*gpu);
        if near == distance("SYS") && best < near {
            remarks.push(Remark {
                kind: FAR_NETWORK_CARD,
                sentence: format!(
                    "{} reaches every network card across sockets (SYS), while other GPUs have one nearer.",
                    topology.devices[*gpu].name
                ),
            });
        }
    }
    if let (false, Some(5)) = (gpus.is_empty(), best) {
        remarks.push(Remark {
            kind: FAR_NETWORK_CARD,
            sentence: "Every GPU reaches every network card across sockets (SYS).".to_owned(),
        });
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written for this test, in the form that nvidia-smi prints.
    const MATRIX: &str = "\t\u{1b}[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\t\
        GPU NUMA ID\u{1b}[0m\n\
        GPU0\t X \tNV18\tNV18\tPIX\t0-47\t0\t\tN/A\n\
        GPU1\tNV18\t X \tSYS\tSYS\t48-95\t1\t\tN/A\n\
        GPU2\tNV18\tSYS\t X \tSYS\t48-95\t1\t\tN/A\n\
        NIC0\tPIX\tSYS\tSYS\t X \t\t\t\n\n\
        Legend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n\nNIC Legend:\n\n  NIC0: mlx5_0\n";

    const XML: &str = r#"<system version="1">
  <cpu host_hash="0x1" numaid="0" arch="x86_64">
    <pci busid="0000:10:00.0" class="0x060400">
      <pci busid="0000:18:00.0" class="0x030200">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:05:00.0" count="10" tclass="0x068000"/>
          <nvlink target="0000:06:00.0" count="8" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:1a:00.0" class="0x020700">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1"/>
        </nic>
      </pci>
    </pci>
    <pci busid="0000:2a:00.0" class="0x020700">
      <nic><net name="mlx5_1" dev="1" speed="400000" port="1"/></nic>
    </pci>
  </cpu>
  <cpu numaid="1">
    <pci busid="0000:98:00.0" class="0x030200">
      <gpu dev="1" sm="90" rank="1" gdr="1">
        <nvlink target="0000:05:00.0" count="18" tclass="0x068000"/>
      </gpu>
    </pci>
  </cpu>
</system>
"#;

    #[test]
    fn the_matrix_of_nvidia_smi_is_read() {
        let topology = Topology::read(MATRIX).expect("a matrix");
        let names: Vec<String> = topology.devices.iter().map(Device::title).collect();
        assert_eq!(names, ["GPU0", "GPU1", "GPU2", "NIC0 (mlx5_0)"]);
        assert_eq!(topology.link("GPU0", "GPU1"), Some("NV18"));
        assert_eq!(topology.link("NIC0", "GPU0"), Some("PIX"));
        let first = &topology.devices[1];
        assert_eq!(
            (first.numa, first.cpus.as_deref()),
            (Some(1), Some("48-95"))
        );
    }

    #[test]
    fn matrices_of_other_machines_and_drivers_are_read() {
        // Pasted, so with blanks. Two GPUs and a bond; GPUs with memory that is a NUMA node.
        let pasted =
            "        GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID\n\
            GPU0     X      NV6     SYS     0-71    0               4\n\
            GPU1    NV6      X      PHB     72-143    1               12\n\
            NIC0    SYS     PHB      X\n\n\
            NIC Legend:\n\n  NIC0: mlx5_bond_0\n";
        let topology = Topology::read(pasted).expect("a matrix");
        assert_eq!(topology.link("GPU1", "NIC0"), Some("PHB"));
        let places: Vec<_> = topology
            .devices
            .iter()
            .map(|d| (d.numa, d.cpus.as_deref()))
            .collect();
        assert_eq!(
            places,
            [
                (Some(0), Some("0-71")),
                (Some(1), Some("72-143")),
                (None, None)
            ]
        );
        assert_eq!(topology.devices[2].title(), "NIC0 (mlx5_bond_0)");
        // An old driver has the cards' own names, and no NUMA nodes. `SOC` was `SYS`.
        let old = "        GPU0    GPU1    mlx5_0  mlx5_1  CPU Affinity\n\
            GPU0     X      SOC     PIX     SOC     0-9,20-29\n\
            GPU1    SOC      X      SOC     PXB     10-19,30-39\n\
            mlx5_0  PIX     SOC      X      SOC\n\
            mlx5_1  SOC     PXB     SOC      X\n";
        let topology = Topology::read(old).expect("a matrix");
        assert_eq!(topology.link("GPU1", "NIC1"), Some("PXB"));
        assert_eq!(topology.devices[3].title(), "NIC1 (mlx5_1)");
        assert_eq!(topology.devices[1].cpus.as_deref(), Some("10-19,30-39"));
        // One GPU, as in a container, and one with unknown CPUs, as in a virtual machine.
        let one = "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-15\t0-1\t\tN/A\n";
        let topology = Topology::read(one).expect("a matrix");
        assert_eq!(
            (topology.devices.len(), topology.devices[0].numa),
            (1, None)
        );
        assert_eq!(topology.devices[0].cpus.as_deref(), Some("0-15"));
        let unknown = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPHB\t\tN/A\n\
            GPU1\tPHB\t X \t\tN/A\n";
        let topology = Topology::read(unknown).expect("a matrix");
        assert_eq!(
            (topology.devices[0].numa, &topology.devices[0].cpus),
            (None, &None)
        );
        // Without the tab before the heading, indented, and the rows of GPUs alone.
        let cut = "  GPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n  \
            GPU0\t X \tSYS\tPIX\t0,2,4,6\t0\t\tN/A\n  GPU1\tSYS\t X \tSYS\t1,3,5,7\t1\t\tN/A\n";
        let topology = Topology::read(cut).expect("a matrix");
        let second = &topology.devices[1];
        assert_eq!(
            (second.numa, second.cpus.as_deref()),
            (Some(1), Some("1,3,5,7"))
        );
        assert_eq!(topology.link("NIC0", "GPU0"), Some("PIX"));
        assert_eq!(topology.link("NIC0", "NIC0"), Some("X"));
        // What can be done over a link is no link, but may stand behind the matrix.
        let possible = " \tGPU0\tGPU1\t\n GPU0\tX\tGNS\t\n GPU1\tGNS\tX\t\n";
        assert_eq!(Topology::read(possible), None);
        let both = Topology::read(&format!("{unknown}\n{possible}"));
        assert_eq!(
            both.as_ref().and_then(|t| t.link("GPU0", "GPU1")),
            Some("PHB")
        );
    }

    #[test]
    fn a_file_of_several_hosts_keeps_their_devices_apart() {
        let host = |hash: &str, ranks: [u32; 2]| {
            let gpu = |dev: usize| {
                format!(
                    "<pci busid=\"0000:0{dev}:00.0\"><gpu dev=\"{dev}\" sm=\"100\" rank=\"{}\"><nvlink \
                     target=\"ffff:ff:ff\" count=\"18\" tclass=\"0x068000\"/><c2c bw=\"45000\" count=\"10\"/>\
                     </gpu></pci>",
                    ranks[dev]
                )
            };
            format!(
                "<cpu host_hash=\"{hash}\" numaid=\"0\">{}{}<nic><net name=\"mlx5_0\" \
                 dev=\"0\"/></nic></cpu>",
                gpu(0),
                gpu(1)
            )
        };
        let text = format!(
            "<system version=\"1\">{}{}</system>",
            host("0xa", [0, 1]),
            host("0xb", [2, 3])
        );
        let topology = Topology::read(&text).expect("XML");
        let names: Vec<&str> = topology.devices.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(names, ["GPU0", "GPU1", "GPU2", "GPU3", "NIC0", "NIC1"]);
        assert_eq!(topology.link("GPU0", "GPU3"), Some("NV18"));
        assert_eq!(topology.link("GPU0", "NIC0"), Some("PHB"));
        assert_eq!(topology.link("GPU0", "NIC1"), Some("-"));
        assert!(remarks(&topology).is_empty(), "{:?}", remarks(&topology));
    }

    #[test]
    fn an_nvlink_to_a_power_cpu_is_none_between_gpus() {
        let gpu = |dev: u32| {
            format!(
                "<pci busid=\"000{dev}:01:00.0\"><gpu dev=\"{dev}\" sm=\"70\"><nvlink target=\"CPU\" \
                 count=\"3\" tclass=\"0x068001\"/></gpu></pci>"
            )
        };
        let text = format!(
            "<system><cpu numaid=\"0\">{}{}</cpu></system>",
            gpu(0),
            gpu(1)
        );
        let topology = Topology::read(&text).expect("XML");
        assert_eq!(topology.link("GPU0", "GPU1"), Some("PHB"));
    }

    #[test]
    fn nccl_s_file_gives_the_same_kinds_of_links() {
        let topology = Topology::read(XML).expect("XML");
        let names: Vec<String> = topology.devices.iter().map(Device::title).collect();
        assert_eq!(
            names,
            [
                "GPU0 (0000:18:00.0)",
                "GPU1 (0000:98:00.0)",
                "NIC0 (mlx5_0)",
                "NIC1 (mlx5_1)"
            ]
        );
        let links = [
            ("GPU0", "GPU1", "NV18"),
            ("GPU0", "NIC0", "PIX"),
            ("GPU0", "NIC1", "PHB"),
        ];
        for (from, to, link) in links {
            assert_eq!(topology.link(from, to), Some(link), "{from} {to}");
        }
        assert_eq!(topology.link("GPU1", "NIC0"), Some("SYS"));
        assert_eq!(topology.devices[1].numa, Some(1));
    }

    #[test]
    fn a_link_that_changed_is_named_once() {
        let a = Topology::read(MATRIX).expect("a matrix");
        let b = Topology::read(
            &MATRIX
                .replace("NV18\tNV18", "NV18\tPHB")
                .replace("GPU2\tNV18", "GPU2\tPHB"),
        );
        let changes = compare(&a, &b.expect("a matrix"));
        let [change] = changes.as_slice() else {
            panic!("{changes:?}");
        };
        assert_eq!((change.from.as_str(), change.to.as_str()), ("GPU0", "GPU2"));
        assert_eq!(
            (change.a.as_deref(), change.b.as_deref()),
            (Some("NV18"), Some("PHB"))
        );
        assert!(compare(&a, &a).is_empty());
    }

    #[test]
    fn what_costs_bandwidth_is_said() {
        let said = remarks(&Topology::read(MATRIX).expect("a matrix"));
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0]
            .sentence
            .starts_with("GPU1 and GPU2 have no NVLink and are connected by SYS"));
        assert!(said[1]
            .sentence
            .starts_with("GPU1 reaches every network card across sockets"));
    }

    /// A matrix of GPUs alone.
    fn gpus(rows: &[&[&str]]) -> Topology {
        let device = |at| Device {
            name: format!("GPU{at}"),
            ..Device::default()
        };
        Topology {
            devices: (0..rows.len()).map(device).collect(),
            links: rows
                .iter()
                .map(|row| row.iter().map(|link| (*link).to_owned()).collect())
                .collect(),
        }
    }

    #[test]
    fn pairs_without_nvlink_by_design_are_no_loss() {
        // Two GPUs with a bridge each: NVLink in pairs.
        let pairs: [&[&str]; 4] = [
            &["X", "NV12", "SYS", "SYS"],
            &["NV12", "X", "SYS", "SYS"],
            &["SYS", "SYS", "X", "NV12"],
            &["SYS", "SYS", "NV12", "X"],
        ];
        assert!(remarks(&gpus(&pairs)).is_empty());
        // Three GPUs: one has no partner, or its partner is hidden from the container.
        let odd: [&[&str]; 3] = [
            &["X", "NV12", "SYS"],
            &["NV12", "X", "SYS"],
            &["SYS", "SYS", "X"],
        ];
        assert!(remarks(&gpus(&odd)).is_empty());
        // One of four behind a switch has lost all of its links.
        let lost: [&[&str]; 4] = [
            &["X", "NV18", "NV18", "SYS"],
            &["NV18", "X", "NV18", "SYS"],
            &["NV18", "NV18", "X", "SYS"],
            &["SYS", "SYS", "SYS", "X"],
        ];
        let said = remarks(&gpus(&lost));
        let sentence = "GPU3 has no NVLink, unlike others of this host, and reaches GPU0 by SYS.";
        assert_eq!((said.len(), said[0].sentence.as_str()), (1, sentence));
        // Two links of one of them are down.
        let fewer: [&[&str]; 4] = [
            &["X", "NV18", "NV16", "NV18"],
            &["NV18", "X", "NV16", "NV18"],
            &["NV16", "NV16", "X", "NV16"],
            &["NV18", "NV18", "NV16", "X"],
        ];
        let said = remarks(&gpus(&fewer));
        let sentence = "GPU2 has 16 NVLinks, and others of this host have 18.";
        assert_eq!((said.len(), said[0].sentence.as_str()), (1, sentence));
        // Some GPUs of a mesh without a switch: what is hidden is among the links that NVML counts.
        let mesh: [&[&str]; 3] = [
            &["X", "NV1", "NV2"],
            &["NV1", "X", "SYS"],
            &["NV2", "SYS", "X"],
        ];
        let mut mesh = gpus(&mesh);
        mesh.devices
            .iter_mut()
            .for_each(|gpu| gpu.rates.nvlinks = Some(6));
        assert!(remarks(&mesh).is_empty());
        mesh.devices[2].rates.nvlinks = Some(4);
        let said = remarks(&mesh);
        let sentence = "GPU2 has 4 NVLinks, and others of this host have 6.";
        assert_eq!((said.len(), said[0].sentence.as_str()), (1, sentence));
        // The second bridge is gone.
        let mut broken = gpus(&pairs);
        broken.links[2][3] = "PHB".to_owned();
        broken.links[3][2] = "PHB".to_owned();
        let said = remarks(&broken);
        assert!(said.iter().all(|remark| remark.kind == MISSING_NVLINK));
        assert!(said
            .iter()
            .any(|r| r.sentence.starts_with("GPU2 and GPU3 have no NVLink")));
    }

    #[test]
    fn real_files_of_two_h200_are_read() {
        let of_nvidia_smi = Topology::read(include_str!("../tests/two_h200.topo.txt"));
        let of_nccl = Topology::read(include_str!("../tests/two_h200.xml"));
        for topology in [of_nvidia_smi, of_nccl] {
            let topology = topology.expect("a topology");
            assert_eq!(topology.link("GPU0", "GPU1"), Some("NV18"));
            assert!(remarks(&topology).is_empty());
        }
        let graphs = graphs(include_str!("../tests/two_h200.graphs.xml"));
        let ring = &graphs[0];
        assert_eq!(
            (ring.name.as_str(), ring.gb_per_s, ring.channels.len()),
            ("ring", Some(30.0), 12)
        );
        assert_eq!(ring.channels[0], ["GPU0", "GPU1"]);
    }

    const GRAPHS: &str =
        "<graphs version=\"1\"><graph id=\"0\" speedintra=\"30\" typeintra=\"NVL\">\
        <channel><net dev=\"1\"/><gpu dev=\"0\"/><gpu dev=\"0x1\"/><net dev=\"1\"/></channel>\
        </graph></graphs>";

    #[test]
    fn a_card_across_sockets_is_named_if_a_nearer_one_is_there() {
        // NIC0 and NIC1 are on GPU0's socket; GPU1 has none on its own.
        let mut topology = Topology::read(XML).expect("XML");
        let graphs = graphs(GRAPHS);
        assert!(far_cards(&topology, &graphs).is_empty());
        let at = |name: &str| topology.devices.iter().position(|d| d.name == name);
        let (gpu, card) = (at("GPU1").expect("a GPU"), at("NIC0").expect("a card"));
        topology.links[gpu][card] = "PIX".to_owned();
        topology.links[card][gpu] = "PIX".to_owned();
        let said = far_cards(&topology, &graphs);
        assert_eq!(said.len(), 1, "{said:?}");
        assert_eq!(
            said[0].sentence,
            "NCCL uses NIC1 (mlx5_1) beside GPU1, across sockets (SYS), although NIC0 (mlx5_0) is nearer."
        );
    }

    #[test]
    fn other_texts_are_neither() {
        for text in [
            "",
            "hello",
            "<graphs version=\"1\"/>",
            "GPU0\nno row",
            "<system",
            "\tGPU0\nGPU0",
        ] {
            assert_eq!(Topology::read(text), None, "{text}");
        }
    }
}

//! The machine's topology: which GPUs and network cards there are, and what is between any two of them.
//!
//! [`Topology::read`] takes the matrix that `nvidia-smi topo -m` prints, or the file that NCCL writes for
//! `NCCL_TOPO_DUMP_FILE` ([`crate::xml`]). [`compare`] lists the links that differ, and [`fn@remarks`] says
//! what costs bandwidth.
//!
//! Links have nvidia-smi's names. `NV4` is four NVLinks, `PIX` one PCIe switch, and `PXB` several of these.
//! `PHB` is the host bridge of a socket, `NODE` several of its host bridges, and `SYS` the link between
//! sockets. The matrix of `nvidia-smi topo -p2p` has in their place if a GPU can reach another's memory.
//!
//! Rule: a link is told as it was read. A link that is not known is `-`.

mod graphs;
mod matrix;
mod nccl_file;
mod pasted;
mod pcie;
mod remarkable;
mod remarks;
#[cfg(test)]
mod tests;
mod unreadable;

use crate::peak::Rates;
use crate::xml;
use schemars::JsonSchema;
use serde::Serialize;

pub use graphs::{graphs, GraphChoice};
pub use pcie::{PcieLink, SLOW_PCIE};
pub use remarkable::facts;
pub use remarks::{
    apart, far_cards, remarks, Remark, FAR_CPUS, FAR_NETWORK_CARD, MISSING_NVLINK, NO_P2P,
};
pub use unreadable::Unreadable;

/// GPUs and network cards of a host, and the links between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Topology {
    /// GPUs, then network cards.
    pub devices: Vec<Device>,
    /// The link between any two devices, in their order; `X` from a device to itself.
    pub links: Vec<Vec<String>>,
}

/// A GPU or a network card.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
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
    /// The slowest PCIe link between the device and its CPU; null if that is not known.
    pub pcie_way: Option<PcieLink>,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
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
    /// Reads either form.
    ///
    /// # Errors
    /// It is neither, or not whole.
    pub fn read(text: &str) -> Result<Topology, Unreadable> {
        if text.trim_start().starts_with('<') {
            Topology::of_xml(&xml::parse(text).ok_or(Unreadable::Xml)?)
        } else {
            Topology::of_matrix(text)
        }
    }

    /// Reads all hosts of a text. Several matrices may be in it, with the launcher's tag of each host.
    ///
    /// # Errors
    /// Those of [`Topology::read`], if no part of it can be read.
    pub fn read_all(text: &str) -> Result<Vec<(Option<String>, Topology)>, Unreadable> {
        let parts = if text.trim_start().starts_with('<') {
            Vec::new()
        } else {
            pasted::parts(text)
        };
        let mut all: Vec<(Option<String>, Topology)> = Vec::new();
        let mut why = None;
        for (tag, part) in &parts {
            match Topology::of_matrix(part) {
                Ok(topology) => {
                    let tag = Some(tag.clone()).filter(|tag| !tag.is_empty());
                    if !all.contains(&(tag.clone(), topology.clone())) {
                        all.push((tag, topology));
                    }
                }
                // Text about GPUs may be between matrices.
                Err(Unreadable::Other) => {}
                Err(error) => why = why.or(Some(error)),
            }
        }
        if all.iter().any(|(_, topology)| !topology.is_of_p2p()) {
            all.retain(|(_, topology)| !topology.is_of_p2p());
        }
        match (all.is_empty(), why) {
            (false, None) => Ok(all),
            (_, Some(error)) => Err(error),
            (true, None) => Topology::read(text).map(|one| vec![(None, one)]),
        }
    }

    /// Whether it has what is possible between GPUs, in place of links: `nvidia-smi topo -p2p`.
    pub fn is_of_p2p(&self) -> bool {
        let is_one = |cell: &String| matrix::POSSIBLE.iter().any(|(word, _)| word == cell);
        self.links.iter().flatten().any(is_one)
    }

    /// The link between two devices by name.
    pub fn link(&self, from: &str, to: &str) -> Option<&str> {
        let at = |name: &str| self.devices.iter().position(|device| device.name == name);
        Some(&self.links[at(from)?][at(to)?])
    }
}

/// The other end of a device's way over PCIe.
const CPU: &str = "CPU";

/// The links that differ, each once: those between devices, and the slowest one of each on its way to the CPU
/// if both topologies have it.
pub fn compare(a: &Topology, b: &Topology) -> Vec<Change> {
    let names = |t: &Topology| t.devices.iter().map(|d| d.name.clone()).collect::<Vec<_>>();
    let mut all = names(a);
    all.extend(
        names(b)
            .into_iter()
            .filter(|name| a.devices.iter().all(|d| d.name != *name)),
    );
    let mut changes = Vec::new();
    for name in &all {
        let way = |topology: &Topology| {
            let device = topology
                .devices
                .iter()
                .find(|device| device.name == *name)?;
            Some(device.pcie_way.as_ref()?.link.clone())
        };
        if let (Some(before), Some(after)) = (way(a), way(b)) {
            if before != after {
                changes.push(Change {
                    from: name.clone(),
                    to: CPU.to_owned(),
                    a: Some(before),
                    b: Some(after),
                });
            }
        }
    }
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

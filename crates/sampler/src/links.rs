//! The links between the GPUs and network cards of this node: what `nvidia-smi topo -m` shows.
//!
//! [`facts`] asks NVML for the GPUs and their NVLinks, and /sys for network cards, NUMA nodes and CPUs. The
//! names of links are nvidia-smi's.
//!
//! ```text
//! device.0=GPU0 0000:18:00.0      name and label, GPUs first, in the order of NVML
//! numa.0=0                        if the kernel knows it
//! cpus.0=0-47                     CPUs beside it
//! links.0=X NV18 PIX              to each device in this order; `-` if not known
//! nvlinks.0=18 26562              of a GPU: NVLinks that are up, MB/s of the line of one
//! pcie.0=5 16                     generation and lanes that GPU and slot can do; `-` if not known
//! ```
//!
//! Rule: it is asked for once, before the first sample.

use crate::gpus::Gpus;
use nvml_wrapper::enum_wrappers::device::{P2pCapabilitiesIndex, P2pStatus, TopologyLevel};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::{Device, Nvml};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// NVLinks that a GPU has at most.
const MOST_LINKS: u32 = 36;
/// NVML's numbers for the MB/s of an NVLink: of the first one (NVML_FI_DEV_NVLINK_GET_SPEED), and of all that
/// are up (NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON), which H200 does not have (measured, driver 580).
const NVLINK_SPEEDS: [u32; 2] = [164, 90];

/// A GPU or a network card, as /sys has it.
struct Card {
    name: String,
    label: String,
    /// Its folder in /sys without links, which goes through all bridges above it.
    path: Option<PathBuf>,
}

impl Card {
    fn read(&self, file: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.path.as_ref()?.join(file)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// The kernel has -1 if the machine does not say.
    fn numa(&self) -> Option<u32> {
        self.read("numa_node")?.parse().ok()
    }

    /// The root of its PCI tree, then the bridges above it, then itself.
    fn way(&self) -> Vec<String> {
        let parts = self.path.iter().flat_map(|path| path.components());
        let parts = parts.map(|part| part.as_os_str().to_string_lossy().into_owned());
        parts
            .skip_while(|part| !part.starts_with("pci"))
            .filter(|part| part.contains(':'))
            .collect()
    }
}

/// The lines for all GPUs and network cards. `sys` is /sys.
pub fn facts(gpus: &Gpus, sys: &Path) -> String {
    let nvml = gpus.nvml();
    let devices: Vec<Device<'_>> = gpus.devices().collect();
    let mut places: Vec<Card> = devices
        .iter()
        .enumerate()
        .map(|(number, device)| {
            let label = device
                .pci_info()
                .map(|pci| plain(&pci.bus_id))
                .unwrap_or_default();
            Card {
                name: format!("GPU{number}"),
                path: std::fs::canonicalize(sys.join("bus/pci/devices").join(&label)).ok(),
                label,
            }
        })
        .collect();
    places.extend(cards(sys));
    let counts: Vec<u32> = devices.iter().map(active).collect();
    let mut lines = String::new();
    for (a, place) in places.iter().enumerate() {
        let _ = writeln!(lines, "device.{a}={} {}", place.name, place.label);
        if let Some(numa) = place.numa() {
            let _ = writeln!(lines, "numa.{a}={numa}");
        }
        if let Some(cpus) = place.read("local_cpulist") {
            let _ = writeln!(lines, "cpus.{a}={cpus}");
        }
        let link = |b: usize| -> String {
            if a == b {
                return "X".to_owned();
            }
            match (devices.get(a), devices.get(b)) {
                (Some(from), Some(to)) => between_gpus(nvml, from, to, counts[a].min(counts[b])),
                _ => between(place, &places[b]).map(str::to_owned),
            }
            .unwrap_or_else(|| "-".to_owned())
        };
        let links: Vec<String> = (0..places.len()).map(link).collect();
        let _ = writeln!(lines, "links.{a}={}", links.join(" "));
        if let Some(device) = devices.get(a) {
            lines += &rates(device, a, counts[a]);
        }
    }
    lines
}

/// `0000:18:00.0` of `00000000:18:00.0`, which is how /sys has it: a domain of four digits, or more if it
/// needs them.
fn plain(bus: &str) -> String {
    let bus = bus.to_lowercase();
    match bus.split_once(':') {
        Some((domain, rest)) => format!("{:0>4}:{rest}", domain.trim_start_matches('0')),
        None => bus,
    }
}

/// Network cards with RDMA, by name.
fn cards(sys: &Path) -> Vec<Card> {
    let entries = std::fs::read_dir(sys.join("class/infiniband"));
    let mut names: Vec<String> = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    let place = |(number, label): (usize, String)| Card {
        name: format!("NIC{number}"),
        path: std::fs::canonicalize(sys.join("class/infiniband").join(&label).join("device")).ok(),
        label,
    };
    names.into_iter().enumerate().map(place).collect()
}

/// NVLinks of a GPU that are up.
fn active(device: &Device<'_>) -> u32 {
    let up = |link| device.link_wrapper_for(link).is_active();
    (0..MOST_LINKS)
        .map_while(|link| up(link).ok())
        .map(u32::from)
        .sum()
}

/// What the links of a GPU carry; `nvlinks` are up. A PCIe link that has nothing to do may be slower than it
/// can be, so it is not asked how fast it is now.
fn rates(device: &Device<'_>, number: usize, nvlinks: u32) -> String {
    let known = |value: Option<u32>| value.map_or("-".to_owned(), |value| value.to_string());
    let mut lines = String::new();
    if nvlinks > 0 {
        let told = |field: u32| {
            let mut all = device.field_values_for(&[FieldId(field)]).ok()?.into_iter();
            match all.next()?.ok()?.value.ok()? {
                SampleValue::U32(speed) => Some(speed),
                SampleValue::U64(speed) => u32::try_from(speed).ok(),
                _ => None,
            }
        };
        let speed = NVLINK_SPEEDS.into_iter().filter_map(told);
        let speed = speed.filter(|speed| *speed > 0).max();
        let _ = writeln!(lines, "nvlinks.{number}={nvlinks} {}", known(speed));
    }
    let (generation, lanes) = (device.max_pcie_link_gen(), device.max_pcie_link_width());
    if generation.is_ok() || lanes.is_ok() {
        let (generation, lanes) = (known(generation.ok()), known(lanes.ok()));
        let _ = writeln!(lines, "pcie.{number}={generation} {lanes}");
    }
    lines
}

/// The link between two GPUs; `nvlinks` are up at each of them.
fn between_gpus(nvml: &Nvml, a: &Device<'_>, b: &Device<'_>, nvlinks: u32) -> Option<String> {
    let to = b.pci_info().ok().map(|pci| plain(&pci.bus_id));
    let direct = (0..MOST_LINKS)
        .map(|link| a.link_wrapper_for(link))
        .take_while(|link| link.is_active().is_ok())
        .filter_map(|link| link.remote_pci_info().ok())
        .filter(|pci| Some(plain(&pci.bus_id)) == to)
        .count();
    if direct > 0 {
        return Some(format!("NV{direct}"));
    }
    // Through a switch, all links of both lead to it.
    let is_switched = a.p2p_status(b, P2pCapabilitiesIndex::NvLink);
    if nvlinks > 0 && matches!(is_switched, Ok(P2pStatus::Ok)) {
        return Some(format!("NV{nvlinks}"));
    }
    let other = nvml.device_by_index(b.index().ok()?).ok()?;
    let level = match a.topology_common_ancestor(other).ok()? {
        TopologyLevel::Internal | TopologyLevel::Single => "PIX",
        TopologyLevel::Multiple => "PXB",
        TopologyLevel::HostBridge => "PHB",
        TopologyLevel::Node => "NODE",
        TopologyLevel::System => "SYS",
    };
    Some(level.to_owned())
}

/// The link between two devices by where they are in the PCI tree.
fn between(a: &Card, b: &Card) -> Option<&'static str> {
    let (from, to) = (a.way(), b.way());
    if from.is_empty() || to.is_empty() {
        return None;
    }
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    // Bridges below what they have in common.
    let below = |way: &[String]| way.len().saturating_sub(common + 1);
    Some(match common {
        0 => match (a.numa(), b.numa()) {
            (Some(a), Some(b)) if a == b => "NODE",
            _ => "SYS",
        },
        1 => "PHB",
        _ if below(&from) <= 1 && below(&to) <= 1 => "PIX",
        _ => "PXB",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device in a folder that is like /sys, behind these bridges.
    fn place(sys: &Path, way: &str, numa: &str) -> Card {
        let path = sys.join("devices").join(way);
        std::fs::create_dir_all(&path).expect("made");
        std::fs::write(path.join("numa_node"), numa).expect("written");
        Card {
            name: String::new(),
            label: String::new(),
            path: Some(path),
        }
    }

    #[test]
    fn links_have_nvidia_smi_s_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let sys = folder.path();
        let root = "pci0000:10/0000:10:01.0";
        let gpu = place(
            sys,
            &format!("{root}/0000:11:00.0/0000:12:00.0/0000:18:00.0"),
            "0",
        );
        let link = |way: &str, numa: &str| between(&gpu, &place(sys, way, numa));
        let same_switch = format!("{root}/0000:11:00.0/0000:12:01.0/0000:1a:00.0");
        assert_eq!(link(&same_switch, "0"), Some("PIX"));
        let further =
            format!("{root}/0000:11:00.0/0000:12:02.0/0000:20:00.0/0000:21:00.0/0000:22:00.0");
        assert_eq!(link(&further, "0"), Some("PXB"));
        assert_eq!(
            link("pci0000:10/0000:10:02.0/0000:30:00.0", "0"),
            Some("PHB")
        );
        assert_eq!(
            link("pci0000:40/0000:40:01.0/0000:41:00.0", "0"),
            Some("NODE")
        );
        assert_eq!(
            link("pci0000:80/0000:80:01.0/0000:81:00.0", "1"),
            Some("SYS")
        );
        assert_eq!(link("virtual/nothing", "0"), None);
    }

    #[test]
    fn addresses_of_nvml_and_of_the_kernel_agree() {
        assert_eq!(plain("00000000:18:00.0"), "0000:18:00.0");
        assert_eq!(plain("0000:9A:00.0"), "0000:9a:00.0");
        assert_eq!(plain("00000008:06:00.0"), "0008:06:00.0");
        assert_eq!(plain("00010000:01:00.0"), "10000:01:00.0");
    }
}

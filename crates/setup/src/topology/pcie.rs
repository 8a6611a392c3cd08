//! The slowest PCIe link between a device and its CPU.
//!
//! Rule: a link of which speed or width is missing is not known, and limits nothing.

use super::{Device, Remark, Topology};
use crate::peak::pcie_gb_per_s;
use crate::xml::Element;
use schemars::JsonSchema;
use serde::Serialize;

/// A device's PCIe links are slower than they should be.
pub const SLOW_PCIE: &str = "slow_pcie";

/// A PCIe link.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PcieLink {
    /// What it carries in one direction, GB/s.
    pub gb_per_s: f64,
    /// Speed and lanes: `2.5 GT/s x1`.
    pub link: String,
}

impl PcieLink {
    /// The link above a PCI device of NCCL's file.
    pub(super) fn of(element: &Element) -> Option<PcieLink> {
        let speed = element.attribute("link_speed")?.split(' ').next()?;
        let lanes: u32 = element.attribute("link_width")?.parse().ok()?;
        let gb_per_s = pcie_gb_per_s(speed)? * f64::from(lanes);
        let link = format!("{speed} GT/s x{lanes}");
        (1..=64)
            .contains(&lanes)
            .then_some(PcieLink { gb_per_s, link })
    }

    fn words(&self) -> String {
        format!("{} ({:.3} GB/s)", self.link, self.gb_per_s)
    }
}

/// Below this, a link limits any GPU and any fast network card, GB/s: PCIe 3.0 has 8 with 8 lanes.
const SLOW_GB_PER_S: f64 = 5.0;
/// A device differs from others of its kind if it has this part of the best at most.
const ODD: f64 = 0.6;

/// Devices with a slow way to their CPU.
pub(super) fn slow(topology: &Topology) -> Vec<Remark> {
    let remark = |sentence| Remark {
        kind: SLOW_PCIE,
        sentence,
    };
    let known: Vec<(&Device, &PcieLink)> = topology
        .devices
        .iter()
        .filter_map(|device| Some((device, device.pcie_way.as_ref()?)))
        .collect();
    let fastest = known.iter().map(|(_, way)| way.gb_per_s);
    let Some(fastest) = fastest.reduce(f64::max) else {
        return Vec::new();
    };
    if fastest < SLOW_GB_PER_S {
        let way = known[0].1;
        let all = if known.iter().all(|(_, other)| *other == way) {
            way.words()
        } else {
            format!("{fastest:.3} GB/s at most")
        };
        return vec![remark(format!(
            "Every device hangs on a PCIe link of {all}, which limits all data to network cards and to the \
             host. If the machine is virtual, NCCL_TOPO_FILE may say so although it is not: compare \
             `nvidia-smi -q`."
        ))];
    }
    let mut odd: Vec<(&PcieLink, Vec<&str>)> = Vec::new();
    for (device, way) in &known {
        let kind = known
            .iter()
            .filter(|(other, _)| other.is_gpu() == device.is_gpu());
        let best = kind.map(|(_, way)| way.gb_per_s).fold(0.0, f64::max);
        if way.gb_per_s <= ODD * best {
            match odd.iter_mut().find(|(link, _)| link == way) {
                Some((_, names)) => names.push(&device.name),
                None => odd.push((way, vec![&device.name])),
            }
        }
    }
    let sentence = |(way, names): (&PcieLink, Vec<&str>)| {
        let (verb, whose) = match names.len() {
            1 => ("hangs", "its"),
            _ => ("hang", "their"),
        };
        remark(format!(
            "{} {verb} on a PCIe link of {} on {whose} way to the CPU. Others have up to {fastest:.3} GB/s.",
            names.join(" and "),
            way.words()
        ))
    };
    odd.into_iter().map(sentence).collect()
}

//! What a GPU's links carry at most, in one direction.
//!
//! [`Rates`] are of one GPU: its NVLinks and its PCIe link. [`peak`] is of a group of GPUs that communicate:
//! the most that each of them can send to the others.
//!
//! Rates are of data. NVML gives the line rate of an NVLink, error correction included. On an H200 that is
//! 26.562 GB/s, and 25 GB/s of it are data. So NVML's rate and NCCL's compute capability only say which
//! generation a link is, and [`GENERATIONS`] has its data rate.
//!
//! Rule: a rate that nobody tells is `None`. None is guessed from the name of a GPU.

use crate::topology::Topology;
use schemars::JsonSchema;
use serde::Serialize;

/// The links of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Rates {
    /// NVLinks of a GPU that are up.
    pub nvlinks: Option<u32>,
    /// What one of them carries in one direction, GB/s.
    pub nvlink_gb_per_s: Option<f64>,
    /// PCIe generation that GPU and slot can do.
    pub pcie_generation: Option<u32>,
    /// PCIe lanes that GPU and slot can do.
    pub pcie_lanes: Option<u32>,
}

/// What GPUs can send at most.
#[derive(Clone, Debug, PartialEq)]
pub struct Peak {
    /// In one direction, GB/s.
    pub gb_per_s: f64,
    /// By which links: `18 NVLinks of 25 GB/s`.
    pub named: String,
}

/// Generations of NVLink: the line rates that NVML gives (MB/s), the compute capabilities that have them, and
/// the data rate of a link in one direction (GB/s). The data rates are from NVIDIA's data sheets. P100 has
/// 160 GB/s over 4 links in both directions, V100 300 over 6, A100 600 over 12, H100 and H200 900 over 18,
/// and B200 1800 over 18.
const GENERATIONS: [(std::ops::RangeInclusive<u32>, &[u32], f64); 3] = [
    (19_000..=21_000, &[60], 20.0),
    (24_500..=27_000, &[70, 72, 80, 90], 25.0),
    (49_000..=54_000, &[100, 103], 50.0),
];

/// PCIe by generation: gigatransfers a second, and GB/s of a lane without the code of the line.
const PCIE: [(&str, f64); 6] = [
    ("2.5", 0.25),
    ("5", 0.5),
    ("8", 8.0 * 128.0 / 130.0 / 8.0),
    ("16", 16.0 * 128.0 / 130.0 / 8.0),
    ("32", 32.0 * 128.0 / 130.0 / 8.0),
    ("64", 64.0 * 242.0 / 256.0 / 8.0),
];

/// What a lane carries in one direction, GB/s, by its gigatransfers a second as the kernel has them (`16.0`).
pub fn pcie_gb_per_s(speed: &str) -> Option<f64> {
    let speed: f64 = speed.parse().ok()?;
    let is_it = |(of, _): &&(&str, f64)| of.parse() == Ok(speed);
    PCIE.iter().find(is_it).map(|(_, rate)| *rate)
}

impl Rates {
    /// Of what NVML says: `18 26562`, NVLinks and the MB/s of a line; and `5 16`, generation and lanes.
    pub fn of_nvml(nvlinks: Option<&str>, pcie: Option<&str>) -> Rates {
        let pair = |text: Option<&str>| {
            let (a, b) = text?.split_once(' ')?;
            Some((a.parse::<u32>().ok(), b.parse::<u32>().ok()))
        };
        let (count, line) = pair(nvlinks).unwrap_or_default();
        let (generation, lanes) = pair(pcie).unwrap_or_default();
        Rates {
            nvlinks: count,
            nvlink_gb_per_s: line.and_then(|line| {
                let mut all = GENERATIONS.iter();
                all.find(|(lines, ..)| lines.contains(&line))
                    .map(|(.., rate)| *rate)
            }),
            pcie_generation: generation,
            pcie_lanes: lanes,
        }
    }

    /// Of what NCCL's topology file says: NVLinks in all, compute capability (`90`), and the PCIe link
    /// (`32.0 GT/s PCIe`, `16`).
    pub fn of_nccl(
        nvlinks: u32,
        capability: Option<&str>,
        speed: Option<&str>,
        width: Option<&str>,
    ) -> Rates {
        let capability = capability.and_then(|text| text.parse::<u32>().ok());
        let generation = |speed: &str| {
            let transfers = speed.split(' ').next()?.trim_end_matches(".0");
            let at = PCIE.iter().position(|(known, _)| *known == transfers)?;
            u32::try_from(at + 1).ok()
        };
        let rate = |capability: u32| {
            let mut all = GENERATIONS.iter();
            all.find(|(_, have, _)| have.contains(&capability))
                .map(|(.., rate)| *rate)
        };
        Rates {
            nvlinks: Some(nvlinks),
            nvlink_gb_per_s: capability.and_then(rate),
            pcie_generation: speed.and_then(generation),
            pcie_lanes: width.and_then(|width| width.parse().ok()),
        }
    }

    /// The PCIe link, GB/s in one direction.
    fn pcie_gb_per_s(&self) -> Option<f64> {
        let at = usize::try_from(self.pcie_generation?)
            .ok()?
            .checked_sub(1)?;
        let (_, lane) = PCIE.get(at)?;
        let lanes = self.pcie_lanes.filter(|lanes| *lanes > 0)?;
        Some(lane * f64::from(lanes))
    }
}

/// What each of these GPUs, by their place in the topology, can send to the others at most: the least of
/// them. `None` if there are fewer than two, if a rate is not known, or if some pairs have NVLinks and
/// others not.
pub fn peak(topology: &Topology, gpus: &[usize]) -> Option<Peak> {
    let nvlinks = |a: usize, b: usize| -> Option<u32> {
        let link = topology.links.get(a)?.get(b)?;
        Some(
            link.strip_prefix("NV")
                .map_or(0, |n| n.parse().unwrap_or(0)),
        )
    };
    let mut all: Option<Peak> = None;
    let mut by_nvlink = None;
    for gpu in gpus {
        let rates = &topology.devices.get(*gpu)?.rates;
        let others = gpus.iter().filter(|other| *other != gpu);
        let to: Vec<u32> = others
            .map(|other| nvlinks(*gpu, *other))
            .collect::<Option<_>>()?;
        let has = match (to.is_empty(), to.iter().all(|n| *n > 0), to.contains(&0)) {
            (true, ..) => return None,
            (_, true, _) => true,
            (.., true) if to.iter().all(|n| *n == 0) => false,
            _ => return None,
        };
        if by_nvlink.replace(has).is_some_and(|before| before != has) {
            return None;
        }
        let here = if has {
            let links = to.iter().sum::<u32>().min(rates.nvlinks?);
            let rate = rates.nvlink_gb_per_s?;
            Peak {
                gb_per_s: f64::from(links) * rate,
                named: format!("{links} NVLinks of {rate} GB/s"),
            }
        } else {
            Peak {
                gb_per_s: rates.pcie_gb_per_s()?,
                named: format!("PCIe {}.0 x{}", rates.pcie_generation?, rates.pcie_lanes?),
            }
        };
        if all
            .as_ref()
            .is_none_or(|least| here.gb_per_s < least.gb_per_s)
        {
            all = Some(here);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Device;

    fn topology(links: &[&str], rates: &Rates) -> Topology {
        let device = |number: usize| Device {
            name: format!("GPU{number}"),
            rates: rates.clone(),
            ..Device::default()
        };
        Topology {
            devices: (0..links.len()).map(device).collect(),
            links: links
                .iter()
                .map(|row| row.split(' ').map(str::to_owned).collect())
                .collect(),
        }
    }

    fn rate(of: &Topology, gpus: &[usize]) -> Option<f64> {
        peak(of, gpus).map(|peak| peak.gb_per_s)
    }

    #[test]
    fn eighteen_links_of_an_h200_are_450_gb_per_s_through_a_switch() {
        let h200 = Rates::of_nvml(Some("18 26562"), Some("5 16"));
        let of = topology(&["X NV18 NV18", "NV18 X NV18", "NV18 NV18 X"], &h200);
        let found = peak(&of, &[0, 1, 2]).expect("known");
        assert_eq!(
            (found.gb_per_s, &found.named[..]),
            (450.0, "18 NVLinks of 25 GB/s")
        );
        assert_eq!(rate(&of, &[1, 2]), Some(450.0));
        // There is nobody to send to, or no such GPU.
        assert_eq!((rate(&of, &[0]), rate(&of, &[0, 3])), (None, None));
    }

    #[test]
    fn without_a_switch_only_links_to_the_others_count() {
        let v100 = Rates::of_nvml(Some("6 25781"), None);
        let of = topology(&["X NV2 NV2", "NV2 X NV2", "NV2 NV2 X"], &v100);
        assert_eq!(rate(&of, &[0, 1, 2]), Some(100.0));
        assert_eq!(rate(&of, &[0, 1]), Some(50.0));
    }

    #[test]
    fn without_nvlink_it_is_pcie_and_a_mixture_is_not_known() {
        let l40 = Rates::of_nvml(None, Some("4 16"));
        let of = topology(&["X SYS", "SYS X"], &l40);
        let found = peak(&of, &[0, 1]).expect("known");
        assert!((found.gb_per_s - 31.508).abs() < 0.001, "{found:?}");
        assert_eq!(found.named, "PCIe 4.0 x16");
        let bridged = Rates::of_nvml(Some("4 25000"), Some("4 16"));
        let of = topology(&["X NV4 SYS", "NV4 X SYS", "SYS SYS X"], &bridged);
        assert_eq!(
            (rate(&of, &[0, 1]), rate(&of, &[0, 1, 2])),
            (Some(100.0), None)
        );
    }

    #[test]
    fn what_nobody_tells_is_not_known() {
        let unknown = Rates::of_nvml(Some("18 -"), Some("- -"));
        assert_eq!(unknown.nvlinks, Some(18));
        assert_eq!(
            rate(&topology(&["X NV18", "NV18 X"], &unknown), &[0, 1]),
            None
        );
        assert_eq!(
            rate(&topology(&["X PHB", "PHB X"], &unknown), &[0, 1]),
            None
        );
        // A rate of no generation.
        assert_eq!(Rates::of_nvml(Some("4 14062"), None).nvlink_gb_per_s, None);
    }

    #[test]
    fn nccl_s_file_names_the_generation_by_compute_capability() {
        let h100 = Rates::of_nccl(18, Some("90"), Some("32.0 GT/s PCIe"), Some("16"));
        assert_eq!(h100, Rates::of_nvml(Some("18 26562"), Some("5 16")));
        assert_eq!(
            Rates::of_nccl(0, None, Some("2.5 GT/s PCIe"), None).pcie_generation,
            Some(1)
        );
    }
}

//! What of a topology costs bandwidth.

use super::{Device, GraphChoice, Topology};
use serde::Serialize;
use std::collections::BTreeSet;

/// Something about a topology that costs bandwidth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// [`MISSING_NVLINK`], [`super::SLOW_PCIE`], [`FAR_NETWORK_CARD`] or [`FAR_CPUS`].
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
    // A link is what both of its ends say.
    let end = |a: usize, b: usize| {
        let count = topology.links[a][b].strip_prefix("NV")?;
        count.parse::<u32>().ok()
    };
    let nvlinks = |a: usize, b: usize| Some(end(a, b)?.min(end(b, a)?));
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
    let own = |gpu: usize| {
        if are_told {
            in_all(gpu)
        } else {
            whole
                .iter()
                .filter_map(|other| nvlinks(gpu, *other))
                .max()
                .unwrap_or(0)
        }
    };
    let usual = if are_told { full } else { most };
    // Else GPUs lack links to each other.
    let is_alone = lacking.iter().all(|gpu| own(*gpu) < usual);
    if are_told || is_switched && is_alone {
        let sentence = |gpu: usize| {
            let own = own(gpu);
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
                match end(a, b) {
                    None => &topology.links[a][b],
                    Some(_) => &topology.links[b][a],
                }
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

/// What costs bandwidth, in sentences: GPUs with fewer NVLinks than others, devices with a slow PCIe link,
/// and GPUs that no network card is near.
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
    remarks.extend(super::pcie::slow(topology));
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

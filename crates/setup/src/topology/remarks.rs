//! What of a topology costs bandwidth.

use super::matrix::POSSIBLE;
use super::{Device, GraphChoice, Topology};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Something about a topology that costs bandwidth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Remark {
    /// Which kind.
    #[schemars(extend("enum" = ["missing_nvlink", "slow_pcie", "far_network_card", "far_cpus", "no_p2p"]))]
    pub kind: &'static str,
    /// It.
    pub sentence: String,
}

/// GPUs can't reach each other's memory.
pub const NO_P2P: &str = "no_p2p";
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

/// That a process may run on these CPUs alone, and its GPU is beside others.
pub fn apart(rank: Option<u32>, pid: u32, cpus: &str, gpu: &str, beside: &str) -> Remark {
    let who = match rank {
        Some(rank) => format!("Rank {rank}"),
        None => format!("The process {pid}"),
    };
    Remark {
        kind: FAR_CPUS,
        sentence: format!(
            "{who} runs on the CPUs {cpus}, and its {gpu} is beside the CPUs {beside}."
        ),
    }
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
    // Bridges connect pairs. A GPU without a partner has none by design.
    let is_left_over = |one: usize, other: usize| partners(one) == 0 && partners(other) == 1;
    let is_lost = |(a, b): &(usize, usize)| {
        nvlinks(*a, *b).is_none()
            && !is_left_over(*a, *b)
            && !is_left_over(*b, *a)
            && (lacking.contains(a) || lacking.contains(b))
    };
    let lost: Vec<(usize, usize)> = pairs(gpus).into_iter().filter(is_lost).collect();
    let between = |a: usize, b: usize| match end(a, b) {
        None => &topology.links[a][b],
        Some(_) => &topology.links[b][a],
    };
    let mut sentences = Vec::new();
    let (of_one, rest) = by_gpu(lost);
    for (gpu, others) in of_one {
        let others: Vec<&str> = others.iter().map(|other| name(*other).as_str()).collect();
        sentences.push(if others.len() + 1 == gpus.len() {
            let other = whole.first().copied().unwrap_or(gpus[0]);
            format!(
                "{} has no NVLink, unlike others of this host, and reaches {} by {}.",
                name(gpu),
                name(other),
                between(gpu, other)
            )
        } else {
            format!(
                "{} has no NVLink to {}, unlike others of this host.",
                name(gpu),
                others.join(", ")
            )
        });
    }
    sentences.extend(rest.into_iter().map(|(a, b)| {
        format!(
            "{} and {} have no NVLink and are connected by {}, unlike others of this host.",
            name(a),
            name(b),
            between(a, b)
        )
    }));
    let fewer = |(a, b): (usize, usize)| match nvlinks(a, b) {
        Some(n) if n < most && lacking.contains(&a) && lacking.contains(&b) => Some(format!(
            "{} and {} have {n} NVLinks, and others have {most}.",
            name(a),
            name(b)
        )),
        _ => None,
    };
    sentences.extend(pairs(gpus).into_iter().filter_map(fewer));
    sentences
}

/// A GPU, and the others of its pairs.
type OfOne = (usize, Vec<usize>);

/// Pairs by the GPU that most of them share, and the pairs that share none with another.
fn by_gpu(mut pairs: Vec<(usize, usize)>) -> (Vec<OfOne>, Vec<(usize, usize)>) {
    let mut of_one = Vec::new();
    loop {
        let mut others: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (a, b) in &pairs {
            others.entry(*a).or_default().push(*b);
            others.entry(*b).or_default().push(*a);
        }
        let most = others
            .into_iter()
            .reduce(|a, b| if b.1.len() > a.1.len() { b } else { a });
        match most.filter(|(_, others)| others.len() > 1) {
            Some((gpu, others)) => {
                pairs.retain(|(a, b)| *a != gpu && *b != gpu);
                of_one.push((gpu, others));
            }
            None => return (of_one, pairs),
        }
    }
}

/// Pairs that a sentence names.
const NAMED: usize = 4;

/// Links of which the two ends count different NVLinks.
fn contradictions(topology: &Topology, gpus: &[usize]) -> Option<Remark> {
    let mut found = Vec::new();
    for (at, a) in gpus.iter().enumerate() {
        for b in &gpus[at + 1..] {
            let (there, back) = (&topology.links[*a][*b], &topology.links[*b][*a]);
            if there != back && there.starts_with("NV") && back.starts_with("NV") {
                let name = |gpu: usize| &topology.devices[gpu].name;
                found.push(format!("{}-{} ({there} and {back})", name(*a), name(*b)));
            }
        }
    }
    let more = found.len().saturating_sub(NAMED);
    let shown = found
        .iter()
        .take(NAMED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    (!found.is_empty()).then(|| Remark {
        kind: MISSING_NVLINK,
        sentence: format!(
            "Both ends of a link have as many NVLinks, but not here: {shown}{more}. A link went down while \
             this was written, or the text was changed."
        ),
    })
}

/// Pairs of GPUs that can't reach each other's memory, by the word of `nvidia-smi topo -p2p`.
fn without_p2p(topology: &Topology, gpus: &[usize]) -> Vec<Remark> {
    let mut all = 0;
    let mut of: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (at, a) in gpus.iter().enumerate() {
        for b in &gpus[at + 1..] {
            all += 1;
            let (there, back) = (&topology.links[*a][*b], &topology.links[*b][*a]);
            let word = if there == "OK" { back } else { there };
            if word != "OK" {
                let pair = [a, b].map(|gpu| topology.devices[*gpu].name.as_str());
                of.entry(word).or_default().push(pair.join("-"));
            }
        }
    }
    let remark = |(word, pairs): (&str, Vec<String>)| {
        let why = POSSIBLE.iter().find(|(of, _)| *of == word);
        let why = why.map_or(String::new(), |(_, why)| format!(": {why}"));
        let more = match pairs.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let shown = pairs
            .iter()
            .take(NAMED)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        Remark {
            kind: NO_P2P,
            sentence: format!(
                "{} of {all} pairs of GPUs can't reach each other's memory ({word}{why}): {shown}{more}.",
                pairs.len()
            ),
        }
    };
    of.into_iter().map(remark).collect()
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
    if topology.is_of_p2p() {
        return without_p2p(topology, &gpus);
    }
    remarks.extend(contradictions(topology, &gpus));
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

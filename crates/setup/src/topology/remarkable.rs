//! What is worth knowing about a topology although nothing is wrong with it.
//!
//! Rule: these are facts that follow from the links; whether they cost anything depends on the job.

use super::Topology;
use std::collections::BTreeSet;

/// Devices that a sentence names.
const NAMED: usize = 8;

/// Facts about the links, in sentences.
pub fn facts(topology: &Topology) -> Vec<String> {
    let gpus: Vec<usize> = (0..topology.devices.len())
        .filter(|at| topology.devices[*at].is_gpu())
        .collect();
    let mut facts = Vec::new();
    facts.extend(without_nvlink(topology, &gpus));
    facts.extend(alone(topology, &gpus));
    facts.extend(one_node(topology, &gpus));
    facts.extend(acs(topology, &gpus));
    facts
}

fn name(topology: &Topology, at: usize) -> &str {
    &topology.devices[at].name
}

fn pairs(gpus: &[usize]) -> impl Iterator<Item = (usize, usize)> + '_ {
    let behind = |at: usize| move |b: &&usize| **b > at;
    gpus.iter()
        .flat_map(move |a| gpus.iter().filter(behind(*a)).map(move |b| (*a, *b)))
}

/// Pairs without NVLink, if others have some.
fn without_nvlink(topology: &Topology, gpus: &[usize]) -> Option<String> {
    let has = |(a, b): &(usize, usize)| topology.links[*a][*b].starts_with("NV");
    let all = pairs(gpus).count();
    let lack: Vec<(usize, usize)> = pairs(gpus).filter(|pair| !has(pair)).collect();
    if lack.is_empty() || lack.len() == all {
        return None;
    }
    let shown = lack.iter().take(NAMED);
    let shown: Vec<String> = shown
        .map(|(a, b)| {
            let link = &topology.links[*a][*b];
            format!("{}-{} ({link})", name(topology, *a), name(topology, *b))
        })
        .collect();
    let more = if lack.len() > NAMED {
        format!(" and {} more", lack.len() - NAMED)
    } else {
        String::new()
    };
    Some(format!(
        "{} of {all} pairs of GPUs have no NVLink: {}{more}. Data between these goes another way.",
        lack.len(),
        shown.join(", "),
    ))
}

/// A GPU that reaches every other GPU across sockets, while those are on one.
fn alone(topology: &Topology, gpus: &[usize]) -> Option<String> {
    let far = |a: usize, b: usize| topology.links[a][b] == "SYS";
    let others = |at: usize| gpus.iter().copied().filter(move |other| *other != at);
    let is_alone = |at: &usize| {
        others(*at).all(|other| far(*at, other))
            && pairs(&others(*at).collect::<Vec<_>>()).all(|(a, b)| !far(a, b))
    };
    let found: Vec<usize> = gpus.iter().copied().filter(is_alone).collect();
    match found.as_slice() {
        [one] if gpus.len() > 2 => Some(format!(
            "{} is alone on its socket: it reaches every other GPU across sockets (SYS).",
            name(topology, *one)
        )),
        _ => None,
    }
}

/// SYS between GPUs of one NUMA node.
fn one_node(topology: &Topology, gpus: &[usize]) -> Option<String> {
    let node = |at: usize| topology.devices[at].numa;
    let found = pairs(gpus).find(|(a, b)| {
        topology.links[*a][*b] == "SYS" && node(*a).is_some() && node(*a) == node(*b)
    });
    found.map(|(a, b)| {
        format!(
            "{} and {} are on one NUMA node, and their link is SYS. These contradict each other, as in a \
             virtual machine that hides sockets or PCIe: do not trust the links between sockets.",
            name(topology, a),
            name(topology, b)
        )
    })
}

/// What P2P through PCIe switches needs.
fn acs(topology: &Topology, gpus: &[usize]) -> Option<String> {
    let is_switched =
        |(a, b): &(usize, usize)| ["PIX", "PXB"].contains(&topology.links[*a][*b].as_str());
    let found: BTreeSet<&str> = pairs(gpus)
        .filter(is_switched)
        .flat_map(|(a, b)| [name(topology, a), name(topology, b)])
        .collect();
    (!found.is_empty()).then(|| {
        "P2P through PCIe switches (PIX, PXB) needs ACS off on their bridges: with ACS or an IOMMU that \
         translates, it is slow or hangs. `lspci -vvv | grep ACSCtl` must not show `SrcValid+`."
            .to_owned()
    })
}

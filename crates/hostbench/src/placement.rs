//! The CPUs and NUMA nodes of a host, and which of them a start measures on.
//!
//! Rule: each start takes other CPUs, by its number. So the spread over starts has in it what differs from
//! CPU to CPU, as the place of a job's processes does.

use std::collections::BTreeMap;
use std::fs;
use std::mem::{size_of, zeroed};

/// Where a start measures.
#[derive(Clone, Debug, Default)]
pub struct CpuPlacement {
    /// The CPU of the measuring thread.
    pub cpu: usize,
    /// A CPU of another core for its partner, of the same node if there is one.
    pub partner: Option<usize>,
    /// The node of `cpu`; `None` if the system has no nodes.
    pub node: Option<usize>,
    /// The node farthest from it that has memory and CPUs.
    pub far: Option<usize>,
}

/// A list such as `0-3,8`.
pub fn list(text: &str) -> Vec<usize> {
    let mut all = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(from), Ok(to)) = (from.parse(), to.parse::<usize>()) {
            all.extend(from..=to);
        }
    }
    all
}

/// CPUs that this process may use.
pub fn allowed() -> Vec<usize> {
    // SAFETY: a set of bits, for which zeros are valid; the call fills it in.
    let set = unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        set
    };
    // SAFETY: every number is below the size of the set.
    let is_in = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    (0..libc::CPU_SETSIZE as usize).filter(is_in).collect()
}

/// Moves the calling thread to a CPU, if that is allowed.
pub fn pin(cpu: usize) {
    // SAFETY: a set of bits, for which zeros are valid, and a number that `allowed` found in one.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// NUMA nodes that have memory, with their CPUs.
pub fn nodes() -> BTreeMap<usize, Vec<usize>> {
    let root = "/sys/devices/system/node";
    let with_memory = fs::read_to_string(format!("{root}/has_memory")).unwrap_or_default();
    let cpus = |node: usize| fs::read_to_string(format!("{root}/node{node}/cpulist"));
    list(&with_memory)
        .into_iter()
        .filter_map(|node| Some((node, list(&cpus(node).ok()?))))
        .filter(|(_, cpus)| !cpus.is_empty())
        .collect()
}

/// The place of a start.
pub fn of_start(number: usize) -> CpuPlacement {
    let siblings = |cpu: usize| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        fs::read_to_string(path).map_or_else(|_| vec![cpu], |text| list(&text))
    };
    choose(number, &allowed(), &nodes(), siblings, distances)
}

/// Distances of a node to all nodes with numbers, in their order.
fn distances(node: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/node/node{node}/distance");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|d| d.parse().ok())
        .collect()
}

fn choose(
    number: usize,
    allowed: &[usize],
    nodes: &BTreeMap<usize, Vec<usize>>,
    siblings: impl Fn(usize) -> Vec<usize>,
    distances: impl Fn(usize) -> Vec<usize>,
) -> CpuPlacement {
    if allowed.is_empty() {
        return CpuPlacement::default();
    }
    // A step that has no common divisor with most counts of CPUs spreads the starts.
    let cpu = allowed[number * 37 % allowed.len()];
    let node_of = |cpu: usize| {
        let of = nodes.iter().find(|(_, cpus)| cpus.contains(&cpu));
        of.map(|(node, _)| *node)
    };
    let node = node_of(cpu);
    let same_core = siblings(cpu);
    let others: Vec<usize> = allowed
        .iter()
        .copied()
        .filter(|other| *other != cpu && !same_core.contains(other))
        .collect();
    let near: Vec<usize> = others
        .iter()
        .copied()
        .filter(|other| node_of(*other) == node)
        .collect();
    let from = if near.is_empty() { &others } else { &near };
    let partner = (!from.is_empty()).then(|| from[number * 41 % from.len()]);
    let far = node.and_then(|node| {
        // The file has a distance for each node that is online, in order.
        let known: Vec<usize> = nodes.keys().copied().collect();
        let all = distances(node);
        let distance = |other: usize| {
            let at = known.iter().position(|n| *n == other)?;
            all.get(at).copied()
        };
        let others = known.iter().copied().filter(|other| *other != node);
        others.max_by_key(|other| distance(*other).unwrap_or(0))
    });
    CpuPlacement {
        cpu,
        partner,
        node,
        far,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel() {
        assert_eq!(list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(list(""), [0usize; 0]);
    }

    #[test]
    fn a_partner_is_of_another_core_and_the_same_node() {
        let nodes = BTreeMap::from([(0, vec![0, 1, 4, 5]), (1, vec![2, 3, 6, 7])]);
        let siblings = |cpu: usize| vec![cpu % 4, cpu % 4 + 4];
        let allowed: Vec<usize> = (0..8).collect();
        let mut cpus = Vec::new();
        for number in 0..16 {
            let place = choose(number, &allowed, &nodes, siblings, |node| {
                if node == 0 {
                    vec![10, 21]
                } else {
                    vec![21, 10]
                }
            });
            let partner = place.partner.expect("a partner");
            assert_ne!(partner % 4, place.cpu % 4);
            assert!(nodes[&place.node.expect("a node")].contains(&partner));
            assert_eq!(place.far, Some(1 - place.node.expect("a node")));
            cpus.push(place.cpu);
        }
        cpus.sort_unstable();
        cpus.dedup();
        assert_eq!(cpus.len(), 8, "{cpus:?}");
    }

    #[test]
    fn one_cpu_has_no_partner_and_one_node_no_far_one() {
        let nodes = BTreeMap::from([(0, vec![0])]);
        let place = choose(3, &[0], &nodes, |cpu| vec![cpu], |_| vec![10]);
        assert_eq!((place.cpu, place.partner), (0, None));
        assert_eq!((place.node, place.far), (Some(0), None));
    }
}

//! Why a route is not the best one, and what changes that.

use super::{CommunicatorPaths, HostFacts, Mark, Route, Transport};
use crate::log::Init;
use crate::topology::Topology;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Why routes are not the best ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reason {
    /// A name that stays the same, for scripts.
    pub kind: &'static str,
    /// Hosts on which it is so, in order.
    pub hosts: Vec<String>,
    /// What it is, to stand behind "because".
    pub because: String,
    /// What changes it.
    pub change: String,
    /// The line of NCCL that says so; null if it follows from something else.
    pub evidence: Option<String>,
    /// Routes that go another way for this reason.
    pub routes: u32,
}

impl Reason {
    /// Whether a line, a setting or the topology says why; else [`Reason::because`] says that nothing does.
    pub fn is_known(&self) -> bool {
        !self.kind.ends_with("_unexplained")
    }
}

/// A kind of reason: its name, what it is, what changes it. The order is that of a page.
struct Kind {
    name: &'static str,
    because: &'static str,
    change: &'static str,
}

const KINDS: [Kind; 18] = [
    Kind {
        name: "sockets_by_setting",
        because: "a setting switches InfiniBand and RoCE off",
        change: "Unset it (`env | grep NCCL_`, /etc/nccl.conf, ~/.nccl.conf), and see that `Using network` \
                 then names another.",
    },
    Kind {
        name: "no_verbs",
        because: "libibverbs.so did not open, so that NCCL can't use InfiniBand or RoCE",
        change: "Install rdma-core (libibverbs1) in the image or on the host; `ibv_devices` must list the \
                 cards. A container also needs /dev/infiniband.",
    },
    Kind {
        name: "plugin_failed",
        because: "the network plugin did not load",
        change: "`ldd` on the plugin's library shows what is missing; NCCL_NET_PLUGIN and LD_LIBRARY_PATH \
                 say where it is.",
    },
    Kind {
        name: "no_rdma_device",
        because: "NCCL sees no InfiniBand or RoCE device",
        change: "If the host has cards: `ibv_devices` must list them inside the container, which needs \
                 /dev/infiniband and an unlimited memlock; NCCL_IB_HCA must name one of them. In a cloud, \
                 use its NCCL plugin. If the host has none, sockets are the best it has.",
    },
    Kind {
        name: "sockets_unexplained",
        because: "no line says why there is no faster network",
        change: "Run with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,NET from the beginning: the lines \
                 NET/IB and NET/Plugin before `Using network` say what was tried.",
    },
    Kind {
        name: "gdr_by_setting",
        because: "a setting limits GPU Direct RDMA",
        change: "Unset NCCL_NET_GDR_LEVEL and NCCL_NET_GDR_READ.",
    },
    Kind {
        name: "gdr_not_supported",
        because: "the network card can't reach the GPUs' memory",
        change: "`modprobe nvidia-peermem`, or a kernel, driver and rdma-core with DMA-BUF; after that NCCL \
                 says `GPU Direct RDMA … enabled`.",
    },
    Kind {
        name: "gdr_too_far",
        because: "the card is too far from the GPU on PCIe",
        change: "Use the card next to each GPU (`ncclscope topo`, NCCL_IB_HCA). If there is none, try \
                 NCCL_NET_GDR_LEVEL=SYS and measure.",
    },
    Kind {
        name: "gdr_unexplained",
        because: "no line says why there is no GPU Direct RDMA",
        change: "Run with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH: lines `GPU Direct RDMA` give \
                 the reason.",
    },
    Kind {
        name: "p2p_by_setting",
        because: "a setting switches P2P off",
        change: "Unset it (`env | grep NCCL_P2P`), unless the job hangs or fails without it.",
    },
    Kind {
        name: "p2p_not_possible",
        because: "the driver does not let these GPUs reach each other's memory",
        change: "`nvidia-smi topo -p2p r` shows it. In a virtual machine or with an IOMMU, PCIe ACS must be \
                 off; many GeForce and some cloud GPUs have no P2P.",
    },
    Kind {
        name: "p2p_lost",
        because: "NCCL did not use the link that the GPUs have",
        change: "Processes in containers must see each other: one IPC and PID namespace (`--ipc=host`), all \
                 GPUs visible. NCCL_DEBUG_SUBSYS=P2P,SHM says more.",
    },
    Kind {
        name: "p2p_too_far",
        because: "NCCL uses P2P by itself only within PCIe switches, and these GPUs meet at a CPU",
        change: "This is NCCL's choice for such a machine. NCCL_P2P_LEVEL=SYS tries P2P; measure it.",
    },
    Kind {
        name: "p2p_unexplained",
        because: "no line says why there is no P2P",
        change: "Give the host's links with `--topo FILE` (`nvidia-smi topo -m > FILE`): they say if P2P is \
                 possible.",
    },
    Kind {
        name: "shm_by_setting",
        because: "a setting switches shared memory off",
        change: "Unset NCCL_SHM_DISABLE.",
    },
    Kind {
        name: "seen_as_other_host",
        because: "NCCL takes the two processes for ones on different hosts",
        change: "Containers of one job on one host need the same /dev/shm and boot id, or one NCCL_HOSTID.",
    },
    Kind {
        name: "few_cards",
        because: "some of the host's network cards are not used",
        change: "See that NCCL_IB_HCA, NCCL_CROSS_NIC and NCCL_MAX_NCHANNELS leave them in, and that \
                 `ncclscope topo` shows each card near a GPU.",
    },
    Kind {
        name: "slow_pci",
        because: "a GPU's PCIe link is slow",
        change: "`nvidia-smi -q | grep -A9 'GPU Link Info'` shows generation and width under load. In a \
                 virtual machine, NCCL_TOPO_FILE must have the real link speeds.",
    },
];

/// Each kind of reason: its name, what it is, what changes it.
pub fn kinds() -> impl Iterator<Item = [&'static str; 3]> {
    KINDS
        .iter()
        .map(|kind| [kind.name, kind.because, kind.change])
}

/// A GPU's PCIe link below this is slow, GB/s: PCIe 3.0 has 6 with 8 lanes.
const SLOW_PCI_GB_PER_S: f64 = 5.0;

/// Gathers reasons.
#[derive(Default)]
pub(super) struct Reasons {
    found: BTreeMap<&'static str, Found>,
}

#[derive(Default)]
struct Found {
    hosts: BTreeSet<String>,
    detail: Option<String>,
    evidence: Option<String>,
    routes: u32,
}

impl Reasons {
    fn add(
        &mut self,
        kind: &'static str,
        hosts: &[&str],
        detail: Option<String>,
        evidence: Option<String>,
    ) {
        let found = self.found.entry(kind).or_default();
        found
            .hosts
            .extend(hosts.iter().map(|host| (*host).to_owned()));
        found.detail = found.detail.take().or(detail);
        found.evidence = found.evidence.take().or(evidence);
        found.routes = found.routes.saturating_add(1);
    }

    /// In the order of a page.
    pub(super) fn finish(mut self) -> Vec<Reason> {
        let reason = |kind: &Kind| {
            let found = self.found.remove(kind.name)?;
            Some(Reason {
                kind: kind.name,
                hosts: found.hosts.into_iter().collect(),
                because: found.detail.unwrap_or_else(|| kind.because.to_owned()),
                change: kind.change.to_owned(),
                evidence: found.evidence,
                routes: found.routes,
            })
        };
        KINDS.iter().filter_map(reason).collect()
    }
}

/// A setting that is the reason: its name and value.
fn setting(facts: &[&HostFacts], names: &[&str]) -> Option<(String, String)> {
    let all = names.iter().flat_map(|name| {
        let values = facts.iter().filter_map(|facts| facts.env.get(*name));
        values.map(|value| ((*name).to_owned(), value.clone()))
    });
    all.into_iter().next()
}

/// A switch that is on.
fn switched_on(facts: &[&HostFacts], names: &[&'static str]) -> Option<&'static str> {
    let is_on = |name: &&&'static str| facts.iter().any(|facts| facts.is_on(name));
    names.iter().find(is_on).copied()
}

fn marked(facts: &[&HostFacts], mark: Mark) -> Option<String> {
    facts
        .iter()
        .find_map(|facts| facts.marks.get(&mark).cloned())
}

/// Says if a route is the best one, and why not.
pub(super) fn judge<'t>(
    route: &mut Route,
    ends: [Option<&Init>; 2],
    hosts: &BTreeMap<String, HostFacts>,
    topology: &impl Fn(&str) -> Option<&'t Topology>,
    found: &mut Reasons,
) {
    let names: Vec<String> = [&route.from_host, &route.to_host]
        .into_iter()
        .flatten()
        .cloned()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    // A line without its place is of one host.
    let names = if names.is_empty() {
        vec![String::new()]
    } else {
        names
    };
    let facts: Vec<&HostFacts> = names.iter().filter_map(|name| hosts.get(name)).collect();
    let link = || {
        let [from, to] = ends;
        let (from, to) = (from?, to?);
        let topology = topology(&from.host)?;
        let gpu = |init: &Init| Some(format!("GPU{}", init.nvml.or(init.device)?));
        Some(topology.link(&gpu(from)?, &gpu(to)?)?.to_owned())
    };
    let verdict = match route.transport {
        Transport::P2p => (Some(true), None),
        Transport::CollNet => (Some(true), None),
        Transport::Shm => shm(&facts, link()),
        Transport::Net if route.is_within_host() == Some(true) => within(&facts),
        Transport::Net if route.through == "Socket" => sockets(&facts),
        Transport::Net if route.gdr == Some(false) => no_gdr(&facts),
        Transport::Net => (Some(true), None),
    };
    let (is_best, reason) = verdict;
    route.is_best = is_best;
    if let Some((kind, detail, evidence)) = reason {
        route.reasons.push(kind);
        let names: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|n| !n.is_empty())
            .collect();
        found.add(kind, &names, detail, evidence);
    }
}

type Verdict = (
    Option<bool>,
    Option<(&'static str, Option<String>, Option<String>)>,
);

fn by_setting(kind: &'static str, name: &str, value: &str) -> Verdict {
    let detail = format!("{name}={value} is set");
    let evidence = format!("{name} set by environment to {value}");
    (Some(false), Some((kind, Some(detail), Some(evidence))))
}

/// Through the host's memory.
fn shm(facts: &[&HostFacts], link: Option<String>) -> Verdict {
    if switched_on(facts, &["NCCL_P2P_DISABLE"]).is_some() {
        return by_setting("p2p_by_setting", "NCCL_P2P_DISABLE", "1");
    }
    let level = setting(facts, &["NCCL_P2P_LEVEL"]);
    if let Some((name, value)) = level.filter(|(_, value)| value != "SYS") {
        return by_setting("p2p_by_setting", &name, &value);
    }
    if let Some(line) = marked(facts, Mark::NoP2p) {
        return (Some(false), Some(("p2p_not_possible", None, Some(line))));
    }
    match link.as_deref() {
        Some("SYS" | "NODE" | "PHB") => (Some(true), Some(("p2p_too_far", None, None))),
        Some(link) if link.starts_with("NV") || link == "PIX" || link == "PXB" => {
            let detail = format!("NCCL did not use the link {link} that the GPUs have");
            (Some(false), Some(("p2p_lost", Some(detail), None)))
        }
        _ => (None, Some(("p2p_unexplained", None, None))),
    }
}

/// Over a network within a host.
fn within(facts: &[&HostFacts]) -> Verdict {
    if switched_on(facts, &["NCCL_SHM_DISABLE"]).is_some() {
        return by_setting("shm_by_setting", "NCCL_SHM_DISABLE", "1");
    }
    (Some(false), Some(("seen_as_other_host", None, None)))
}

/// TCP between hosts.
fn sockets(facts: &[&HostFacts]) -> Verdict {
    if switched_on(facts, &["NCCL_IB_DISABLE"]).is_some() {
        return by_setting("sockets_by_setting", "NCCL_IB_DISABLE", "1");
    }
    let network = setting(facts, &["NCCL_NET"]);
    if let Some((name, value)) = network.filter(|(_, v)| v.eq_ignore_ascii_case("socket")) {
        return by_setting("sockets_by_setting", &name, &value);
    }
    let because = |mark, kind| Some((Some(false), Some((kind, None, Some(marked(facts, mark)?)))));
    because(Mark::PluginFailed, "plugin_failed")
        .or_else(|| because(Mark::NoVerbs, "no_verbs"))
        .or_else(|| {
            let line = marked(facts, Mark::NoDevice)?;
            Some((None, Some(("no_rdma_device", None, Some(line)))))
        })
        .unwrap_or((None, Some(("sockets_unexplained", None, None))))
}

/// A fast network whose cards don't reach the GPUs' memory.
fn no_gdr(facts: &[&HostFacts]) -> Verdict {
    if let Some(line) = marked(facts, Mark::NoGdr) {
        return (Some(false), Some(("gdr_not_supported", None, Some(line))));
    }
    let level = setting(facts, &["NCCL_NET_GDR_LEVEL"]);
    let read = setting(facts, &["NCCL_NET_GDR_READ"]).filter(|(_, value)| value == "0");
    if let Some((name, value)) = read.or(level.filter(|(_, value)| value != "SYS")) {
        return by_setting("gdr_by_setting", &name, &value);
    }
    match marked(facts, Mark::FarForGdr) {
        Some(line) => (Some(false), Some(("gdr_too_far", None, Some(line)))),
        None => (Some(false), Some(("gdr_unexplained", None, None))),
    }
}

/// Hosts that leave cards unused although they send to other hosts.
pub(super) fn unused_cards(
    one: &CommunicatorPaths,
    hosts: &BTreeMap<String, HostFacts>,
    found: &mut Reasons,
) {
    let mut used: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    let between = one
        .routes
        .iter()
        .filter(|route| route.transport == Transport::Net && route.is_within_host() == Some(false));
    for route in between {
        for (host, card) in [
            (&route.from_host, &route.from_card),
            (&route.to_host, &route.to_card),
        ] {
            if let (Some(host), Some(card)) = (host, card) {
                used.entry((host, &route.through)).or_default().insert(card);
            }
        }
    }
    for ((host, network), used) in used {
        let Some(facts) = hosts.get(host).filter(|_| network != "Socket") else {
            continue;
        };
        let cards: BTreeSet<&str> = facts
            .cards
            .iter()
            .filter(|((of, _), _)| of == network)
            .map(|(_, card)| card.name.as_str())
            .collect();
        // A communicator of few ranks needs few cards.
        let here = one.routes.iter().flat_map(|route| {
            let ends = [(&route.from_host, route.from), (&route.to_host, route.to)];
            ends.into_iter()
                .filter(|(of, _)| of.as_deref() == Some(host))
                .map(|(_, rank)| rank)
        });
        let ranks: BTreeSet<u32> = here.collect();
        if used.len() < cards.len().min(ranks.len()) && used.iter().all(|card| cards.contains(card))
        {
            let detail = format!(
                "{} ranks of {host} use {} of its {} network cards",
                ranks.len(),
                used.len(),
                cards.len()
            );
            found.add("few_cards", &[host], Some(detail), None);
        }
    }
}

/// Hosts with a GPU that hangs on a slow PCIe link.
pub(super) fn slow_pci(
    hosts: &BTreeMap<String, HostFacts>,
    used: &BTreeSet<&str>,
    found: &mut Reasons,
) {
    for (host, facts) in hosts
        .iter()
        .filter(|(host, _)| used.contains(host.as_str()))
    {
        let slow = facts.slowest_pci.as_ref();
        if let Some((speed, line)) = slow.filter(|(speed, _)| *speed < SLOW_PCI_GB_PER_S) {
            let detail = format!("a GPU of {host} has a PCIe link of {speed} GB/s");
            found.add("slow_pci", &[host], Some(detail), Some(line.clone()));
        }
    }
}

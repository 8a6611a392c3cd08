//! Why a route is not the best one, and what changes that.

use super::{CommunicatorPaths, HostFacts, Mark, Network, Route, Transport};
use crate::log::Init;
use crate::topology::Topology;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Why routes are not the best ones.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Reason {
    /// A name that stays the same, for scripts.
    #[schemars(extend("enum" = [
        "sockets_by_setting", "no_verbs", "plugin_failed", "plugin_without_device", "cards_by_setting",
        "no_rdma_device", "sockets_unexplained", "gdr_by_setting", "gdr_not_supported", "gdr_too_far",
        "gdr_unexplained", "p2p_by_setting", "p2p_not_possible", "p2p_lost", "p2p_indirect", "p2p_too_far",
        "p2p_unexplained", "shm_by_setting", "card_is_nearer", "seen_as_other_host", "few_cards", "slow_pci"
    ]))]
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

const KINDS: [Kind; 22] = [
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
        name: "plugin_without_device",
        because: "the network plugin is loaded and found no device that it can use",
        change: "The plugin's own lines before `Using network` say what it missed. On AWS, the instance must \
                 have EFA, the container needs /dev/infiniband and the resource vpc.amazonaws.com/efa, \
                 FI_PROVIDER must not name another provider, and `fi_info -p efa` must list one.",
    },
    Kind {
        name: "cards_by_setting",
        because: "NCCL found no InfiniBand or RoCE device that NCCL_IB_HCA allows",
        change: "Unset NCCL_IB_HCA, or name cards that `ibv_devices` lists: a name stands for all cards that \
                 begin with it, `=` in front for this card only, and `^` for all but these.",
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
        name: "p2p_indirect",
        because: "NCCL found no NVLink between the two GPUs and goes through a third one",
        change: "`ncclscope topo` names NVLinks that are missing. In a cube mesh, pairs without one are \
                 normal. NCCL_NVB_DISABLE=1 leaves the third GPU out; measure it.",
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
        name: "card_is_nearer",
        because: "NCCL takes a network card that is nearer to the GPUs than they are to each other",
        change: "NCCL_NET_DISABLE_INTRA=1 makes it take the host's memory; measure it. P2P is faster than \
                 both, if the GPUs can have it (`nvidia-smi topo -p2p r`).",
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
                 `ncclscope topo` shows each card near a GPU. A plugin may list a card twice.",
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

/// A setting that may be the reason: its name and value.
type Setting = (&'static str, String);

/// A setting, if its value is one that `counts`.
fn setting(
    facts: &[&HostFacts],
    name: &'static str,
    counts: impl Fn(&str) -> bool,
) -> Option<Setting> {
    let mut values = facts.iter().filter_map(|facts| facts.env.get(name));
    let value = values.find(|value| counts(value))?;
    Some((name, value.clone()))
}

/// A switch that is on.
fn switched_on(facts: &[&HostFacts], name: &'static str) -> Option<Setting> {
    let is_on = |value: &str| value.parse::<i64>().is_ok_and(|value| value != 0);
    setting(facts, name, is_on)
}

/// The settings that limit P2P.
fn limits_of_p2p(facts: &[&HostFacts]) -> Vec<Setting> {
    let level = setting(facts, "NCCL_P2P_LEVEL", |value| value != "SYS");
    let off = switched_on(facts, "NCCL_P2P_DISABLE");
    off.into_iter().chain(level).collect()
}

fn marked(facts: &[&HostFacts], mark: Mark) -> Option<String> {
    facts
        .iter()
        .find_map(|facts| facts.marks.get(&mark).cloned())
}

/// Says if a route is the best one, and why not. `is_one_host` is whether NCCL takes hosts with one name for
/// one.
pub(super) fn judge<'t>(
    route: &mut Route,
    ends: [Option<&Init>; 2],
    is_one_host: Option<bool>,
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
    let is_one_process =
        matches!(ends, [Some(from), Some(to)] if from.pid != 0 && from.pid == to.pid);
    let is_one_host = is_one_process || is_one_host == Some(true);
    let link = || {
        let [from, to] = ends;
        let (from, to) = (from?, to?);
        let topology = topology(&from.host)?;
        let gpu = |init: &Init| Some(format!("GPU{}", init.nvml.or(init.device)?));
        Some(topology.link(&gpu(from)?, &gpu(to)?)?.to_owned())
    };
    let verdict = match route.transport {
        Transport::P2p if route.is_indirect() => indirect(&route.through, link()),
        Transport::P2p => (Some(true), Vec::new()),
        Transport::CollNet => (Some(true), Vec::new()),
        Transport::Shm => shm(&facts, link()),
        Transport::Net if route.is_within_host() == Some(true) => within(&facts, is_one_host),
        Transport::Net if route.through == "Socket" => sockets(&facts),
        Transport::Net if route.gdr == Some(false) => no_gdr(&facts),
        Transport::Net => (Some(true), Vec::new()),
    };
    let (is_best, reasons) = verdict;
    route.is_best = is_best;
    for (kind, detail, evidence) in reasons {
        route.reasons.push(kind);
        let names: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|n| !n.is_empty())
            .collect();
        found.add(kind, &names, detail, evidence);
    }
}

/// Says why NCCL chose sockets, for a log that ends before ranks are connected.
pub(super) fn judge_network(
    network: &mut Network,
    hosts: &BTreeMap<String, HostFacts>,
    found: &mut Reasons,
) {
    if network.name != "Socket" {
        return;
    }
    let names: Vec<&str> = network.hosts.iter().map(String::as_str).collect();
    let known: Vec<&str> = if names.is_empty() {
        vec![""]
    } else {
        names.clone()
    };
    let facts: Vec<&HostFacts> = known.iter().filter_map(|name| hosts.get(*name)).collect();
    for (kind, detail, evidence) in sockets(&facts).1 {
        network.reasons.push(kind);
        found.add(kind, &names, detail, evidence);
    }
}

/// Whether a route is the best one, and why not: kinds, with what is known beyond them, and NCCL's lines.
type Verdict = (
    Option<bool>,
    Vec<(&'static str, Option<String>, Option<String>)>,
);

fn because(is_best: Option<bool>, kind: &'static str, line: Option<String>) -> Verdict {
    (is_best, vec![(kind, None, line)])
}

/// These settings, all of which must be changed; nothing if there are none.
fn by_settings(kind: &'static str, settings: &[Setting]) -> Option<Verdict> {
    let named: Vec<String> = settings
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let are = if named.len() > 1 { "are" } else { "is" };
    let detail = format!("{} {are} set", named.join(" and "));
    let (name, value) = settings.first()?;
    let evidence = format!("{name} set by environment to {value}");
    Some((Some(false), vec![(kind, Some(detail), Some(evidence))]))
}

/// Through the memory of a third GPU: `indirect/5[5]/CUMEM`.
fn indirect(through: &str, link: Option<String>) -> Verdict {
    let rank = through
        .split('/')
        .nth(1)
        .and_then(|word| word.split('[').next());
    let detail = rank.map(|rank| {
        format!("NCCL found no NVLink between the two GPUs and goes through that of rank {rank}")
    });
    match link {
        Some(link) if link.starts_with("NV") => {
            let detail = format!("NCCL did not use the link {link} that the GPUs have");
            (Some(false), vec![("p2p_lost", Some(detail), None)])
        }
        Some(_) => (Some(true), vec![("p2p_indirect", detail, None)]),
        None => (None, vec![("p2p_indirect", detail, None)]),
    }
}

/// Through the host's memory.
fn shm(facts: &[&HostFacts], link: Option<String>) -> Verdict {
    if let Some(verdict) = by_settings("p2p_by_setting", &limits_of_p2p(facts)) {
        return verdict;
    }
    if let Some(line) = marked(facts, Mark::NoP2p) {
        return because(Some(false), "p2p_not_possible", Some(line));
    }
    match link.as_deref() {
        Some("SYS" | "NODE" | "PHB") => because(Some(true), "p2p_too_far", None),
        Some(link) if link.starts_with("NV") || link == "PIX" || link == "PXB" => {
            let detail = format!("NCCL did not use the link {link} that the GPUs have");
            (Some(false), vec![("p2p_lost", Some(detail), None)])
        }
        // Of `nvidia-smi topo -p2p`.
        Some(word) if !["OK", "U", "-", "X"].contains(&word) => {
            because(Some(false), "p2p_not_possible", None)
        }
        _ => because(None, "p2p_unexplained", None),
    }
}

/// Over a network within a host: NCCL took neither P2P nor shared memory.
fn within(facts: &[&HostFacts], is_one_host: bool) -> Verdict {
    let shm = switched_on(facts, "NCCL_SHM_DISABLE");
    let p2p = by_settings("p2p_by_setting", &limits_of_p2p(facts));
    match (by_settings("shm_by_setting", shm.as_slice()), p2p) {
        (Some((is_best, mut reasons)), p2p) => {
            reasons.splice(0..0, p2p.into_iter().flat_map(|(_, reasons)| reasons));
            (is_best, reasons)
        }
        (None, Some(p2p)) if is_one_host => p2p,
        (None, None) if is_one_host => match marked(facts, Mark::NoP2p) {
            Some(line) => because(Some(false), "p2p_not_possible", Some(line)),
            None => because(None, "card_is_nearer", None),
        },
        (None, _) => because(Some(false), "seen_as_other_host", None),
    }
}

/// TCP between hosts.
fn sockets(facts: &[&HostFacts]) -> Verdict {
    let off = switched_on(facts, "NCCL_IB_DISABLE");
    let network = setting(facts, "NCCL_NET", |value| {
        value.eq_ignore_ascii_case("socket")
    });
    let settings: Vec<Setting> = off.into_iter().chain(network).collect();
    if let Some(verdict) = by_settings("sockets_by_setting", &settings) {
        return verdict;
    }
    for (mark, kind) in [
        (Mark::PluginFailed, "plugin_failed"),
        (Mark::PluginFoundNone, "plugin_without_device"),
        (Mark::NoVerbs, "no_verbs"),
    ] {
        if let Some(line) = marked(facts, mark) {
            return because(Some(false), kind, Some(line));
        }
    }
    let Some(line) = marked(facts, Mark::NoDevice) else {
        return because(None, "sockets_unexplained", None);
    };
    match setting(facts, "NCCL_IB_HCA", |value| !value.is_empty()) {
        Some((name, value)) => {
            let detail =
                format!("NCCL found no InfiniBand or RoCE device that {name}={value} allows");
            (None, vec![("cards_by_setting", Some(detail), Some(line))])
        }
        None => because(None, "no_rdma_device", Some(line)),
    }
}

/// A fast network whose cards don't reach the GPUs' memory.
fn no_gdr(facts: &[&HostFacts]) -> Verdict {
    if let Some(line) = marked(facts, Mark::NoGdr) {
        return because(Some(false), "gdr_not_supported", Some(line));
    }
    let read = setting(facts, "NCCL_NET_GDR_READ", |value| value == "0");
    let level = setting(facts, "NCCL_NET_GDR_LEVEL", |value| value != "SYS");
    let settings: Vec<Setting> = read.into_iter().chain(level).collect();
    if let Some(verdict) = by_settings("gdr_by_setting", &settings) {
        return verdict;
    }
    match marked(facts, Mark::FarForGdr) {
        Some(line) => because(Some(false), "gdr_too_far", Some(line)),
        None => because(Some(false), "gdr_unexplained", None),
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
        let cards = facts.cards_of(network);
        let cards: BTreeSet<&str> = cards.iter().map(String::as_str).collect();
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
            // A plugin may list a card several times, once for each of its ways to it.
            let whose = if facts.listed(network, 0).is_some() {
                format!("its {} network cards", cards.len())
            } else {
                format!("the {} network cards that the plugin lists", cards.len())
            };
            let detail = format!(
                "{} ranks of {host} use {} of {whose}",
                ranks.len(),
                used.len()
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

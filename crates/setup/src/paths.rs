//! Which way NCCL goes between any two ranks, whether that is the best way of the machine, and if not, why.
//!
//! NCCL says for each channel how it connects two ranks ([`Hop`]), and it says what it does without
//! ([`HostFacts`]). [`paths`] puts the ends of all ranks together into [`Route`]s, and looks for the reason
//! of each route that is not the best one. A topology of the host ([`Topology`]) helps, and is not needed.
//!
//! Rule: a route is called worse than necessary only if a line, a setting or the topology says so. If none
//! does, `is_best` is `None` and the reason says what would tell.

mod facts;
mod hop;
mod reasons;

use crate::log::Init;
use crate::startup::group;
use crate::topology::Topology;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

pub use facts::{Card, HostFacts, Mark};
pub use hop::{reducing, End, Hop, Transport};
pub use reasons::{kinds, Reason};

/// The format of [`Paths`].
pub const SCHEMA: &str = "ncclscope.paths/1";

/// The ways of a job.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Paths {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Each communicator with a known connection, in the order of their first lines; then connections of
    /// ranks whose communicator no line names.
    pub communicators: Vec<CommunicatorPaths>,
    /// Which network NCCL chose between hosts, in the order of their names.
    pub networks: Vec<Network>,
    /// Communicators of one rank, which has nothing to be connected to.
    pub alone: u32,
    /// Why routes are not the best ones, and what changes that; what costs most first.
    pub reasons: Vec<Reason>,
}

/// The ways of a communicator.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CommunicatorPaths {
    /// NCCL's id as hex; null for a communicator that was split from another, or that no line names.
    pub id: Option<String>,
    /// Ranks in it; null if no line says it.
    pub nranks: Option<u32>,
    /// Ranks that are connected through the NVLink switch, which reduces and sends to all GPUs (NVLS).
    pub nvls_ranks: u32,
    /// The network that reduces on its way, if ranks are connected to one (SHARP).
    pub collnet: Option<String>,
    /// From each rank to each that it is connected to.
    pub routes: Vec<Route>,
}

/// A network that NCCL chose.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Network {
    /// NCCL's name for it: `IB`, `Socket`, or a plugin's.
    pub name: String,
    /// Hosts on which it chose it, in order; none if lines have lost their places.
    pub hosts: Vec<String>,
    /// Their cards or interfaces.
    pub cards: Vec<String>,
    /// Kinds of reasons, if no connection is known, so that nothing else tells of them.
    pub reasons: Vec<&'static str>,
}

/// How data goes from one rank to another, on channels that go the same way.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Route {
    /// The rank that sends.
    pub from: u32,
    /// The rank that receives.
    pub to: u32,
    /// The sender's host; null if no line says it.
    pub from_host: Option<String>,
    /// The receiver's host; null if no line says it.
    pub to_host: Option<String>,
    /// How data goes.
    pub transport: Transport,
    /// What NCCL says about it: `CUMEM/read`, or the network's name.
    pub through: String,
    /// The sender's network card; null without a network, or if its line is missing.
    pub from_card: Option<String>,
    /// The receiver's network card; null without a network, or if its line is missing.
    pub to_card: Option<String>,
    /// Whether cards reach GPUs' memory by themselves (GPU Direct RDMA), at both ends as far as is known;
    /// null without a network.
    pub gdr: Option<bool>,
    /// Whether sends and receives of the program use it, or collectives.
    pub is_send_receive: bool,
    /// NCCL's channels that go this way.
    pub channels: Vec<u32>,
    /// Whether the machine has no better way; null if that is not known.
    pub is_best: Option<bool>,
    /// Why not, as `kind` of `reasons`.
    pub reasons: Vec<&'static str>,
}

impl Route {
    /// Whether data goes through the memory of a third GPU.
    pub fn is_indirect(&self) -> bool {
        self.transport == Transport::P2p && self.through.starts_with("indirect")
    }

    /// Whether both ranks are on one host; `None` if that is not known.
    pub fn is_within_host(&self) -> Option<bool> {
        match self.transport {
            Transport::Shm => Some(true),
            // Only NVLink of many nodes leaves a host.
            Transport::P2p if !self.through.starts_with("MNNVL") => Some(true),
            _ => Some(self.from_host.as_ref()? == self.to_host.as_ref()?),
        }
    }
}

/// One end of a connection over a network.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct NetEnd {
    card: Option<String>,
    gdr: bool,
}

/// What is the same for all channels of a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    from: u32,
    to: u32,
    index: u32,
    transport: Transport,
    through: String,
    send: Option<NetEnd>,
    receive: Option<NetEnd>,
}

/// The ways that these inits' ranks are connected, and ranks of which only connections are known ([`apart`]).
/// `topology` has that of a host, if it is known.
///
/// [`apart`]: crate::log::Said::apart
pub fn paths<'t>(
    inits: &[Init],
    apart: &[Init],
    hosts: &BTreeMap<String, HostFacts>,
    topology: impl Fn(&str) -> Option<&'t Topology>,
) -> Paths {
    let mut found = reasons::Reasons::default();
    let mut communicators = Vec::new();
    let mut alone = 0;
    for members in groups(inits, apart) {
        let nranks = Some(members[0].nranks).filter(|nranks| *nranks > 0);
        alone += u32::from(nranks == Some(1));
        let mut one = CommunicatorPaths {
            id: members
                .iter()
                .find_map(|init| init.id)
                .map(|id| format!("0x{id:x}")),
            nranks,
            nvls_ranks: members.iter().filter(|init| init.nvls).count() as u32,
            collnet: members.iter().find_map(|init| init.collnet.clone()),
            routes: routes(&members, hosts),
        };
        if one.routes.is_empty() && one.nvls_ranks == 0 && one.collnet.is_none() {
            continue;
        }
        // NCCL counts hosts by what tells them apart for it, and their names say how many there should be.
        let names: BTreeSet<&str> = members.iter().map(|init| init.host.as_str()).collect();
        let nodes = members.iter().find_map(|init| init.nodes);
        let is_whole = nranks.is_some_and(|nranks| nranks as usize == members.len());
        let is_one_host = nodes
            .filter(|_| is_whole)
            .map(|nodes| nodes as usize == names.len());
        let ranks: BTreeMap<u32, &Init> = members.iter().map(|init| (init.rank, *init)).collect();
        for route in &mut one.routes {
            let ends = [ranks.get(&route.from), ranks.get(&route.to)].map(Option::<&&Init>::copied);
            reasons::judge(route, ends, is_one_host, hosts, &topology, &mut found);
        }
        reasons::unused_cards(&one, hosts, &mut found);
        communicators.push(one);
    }
    let used: BTreeSet<&str> = communicators
        .iter()
        .flat_map(|one| &one.routes)
        .flat_map(|route| [&route.from_host, &route.to_host])
        .flatten()
        .map(String::as_str)
        .collect();
    reasons::slow_pci(hosts, &used, &mut found);
    let mut networks = networks(hosts);
    if communicators.is_empty() {
        for network in &mut networks {
            reasons::judge_network(network, hosts, &mut found);
        }
    }
    Paths {
        schema: SCHEMA,
        communicators,
        networks,
        alone,
        reasons: found.finish(),
    }
}

/// The inits of each communicator. One that only its connections tell of goes to the first communicator that
/// is large enough and lacks its rank; if there is none, to the others like it.
fn groups<'a>(inits: &'a [Init], apart: &'a [Init]) -> Vec<Vec<&'a Init>> {
    let mut groups = group(inits);
    let mut unnamed: Vec<&Init> = Vec::new();
    for init in apart {
        let most = init.hops.iter().map(|hop| hop.from.max(hop.to)).max();
        let fits = |members: &&mut Vec<&Init>| {
            members[0].nranks > most.unwrap_or(0) && members.iter().all(|of| of.rank != init.rank)
        };
        match groups.iter_mut().find(fits) {
            Some(members) => members.push(init),
            None => unnamed.push(init),
        }
    }
    groups.extend(Some(unnamed).filter(|unnamed| !unnamed.is_empty()));
    groups
}

/// The networks that NCCL chose.
fn networks(hosts: &BTreeMap<String, HostFacts>) -> Vec<Network> {
    let mut networks: BTreeMap<&str, Network> = BTreeMap::new();
    for (host, facts) in hosts {
        let Some(name) = &facts.network else { continue };
        let network = networks.entry(name).or_insert_with(|| Network {
            name: name.clone(),
            hosts: Vec::new(),
            cards: Vec::new(),
            reasons: Vec::new(),
        });
        network
            .hosts
            .extend(Some(host.clone()).filter(|host| !host.is_empty()));
        for card in facts.cards_of(name) {
            if !network.cards.contains(&card) {
                network.cards.push(card);
            }
        }
    }
    networks.into_values().collect()
}

/// Names of hosts that name none: GPUs of two processes have one number on the bus, as if containers on many
/// hosts are all called `localhost`.
fn shared_names<'a>(members: &[&'a Init]) -> BTreeSet<&'a str> {
    let mut owner: BTreeMap<(&str, u64), u32> = BTreeMap::new();
    let known = members
        .iter()
        .filter_map(|init| Some((init.host.as_str(), init.bus?, init.pid)));
    let shares = |(host, bus, pid): (&'a str, u64, u32)| {
        let first = *owner.entry((host, bus)).or_insert(pid);
        (first != pid).then_some(host)
    };
    known.filter_map(shares).collect()
}

/// The routes of a communicator, by rank.
fn routes(members: &[&Init], hosts: &BTreeMap<String, HostFacts>) -> Vec<Route> {
    // By pair, channel and transport, because each end speaks for itself.
    type Place = (u32, u32, u32, u32, Transport, String);
    let mut all: BTreeMap<Place, [Option<NetEnd>; 2]> = BTreeMap::new();
    for init in members {
        for hop in &init.hops {
            let place = (
                hop.from,
                hop.to,
                hop.channel,
                hop.index,
                hop.transport,
                hop.through.clone(),
            );
            let ends = all.entry(place).or_default();
            if let Some(gdr) = hop.gdr {
                let facts = hosts.get(&init.host);
                let name = hop.card.map(|card| {
                    let known = facts.and_then(|facts| facts.card(&hop.through, card));
                    known.unwrap_or_else(|| format!("card {card}"))
                });
                ends[usize::from(hop.end == End::Receive)] = Some(NetEnd { card: name, gdr });
            }
        }
    }
    let shared = shared_names(members);
    let host_of: BTreeMap<u32, &str> = members
        .iter()
        .filter(|init| !init.host.is_empty() && !shared.contains(init.host.as_str()))
        .map(|init| (init.rank, init.host.as_str()))
        .collect();
    // Both ends of a channel use one transport. If they contradict each other, lines were mixed, and the one
    // that fits the hosts counts.
    let mut both: BTreeMap<(u32, u32, u32, u32), BTreeSet<bool>> = BTreeMap::new();
    for (from, to, channel, index, transport, _) in all.keys() {
        let is_local = matches!(transport, Transport::P2p | Transport::Shm);
        let place = (*from, *to, *channel, *index);
        both.entry(place).or_default().insert(is_local);
    }
    let fits = |from: u32, to: u32, channel: u32, index: u32, transport: Transport| {
        let contradict = both
            .get(&(from, to, channel, index))
            .is_some_and(|of| of.len() > 1);
        let is_local = matches!(transport, Transport::P2p | Transport::Shm);
        match (host_of.get(&from), host_of.get(&to)) {
            (Some(a), Some(b)) if contradict => (a == b) == is_local,
            _ => true,
        }
    };
    let mut ways: BTreeMap<Way, Vec<u32>> = BTreeMap::new();
    for ((from, to, channel, index, transport, through), [send, receive]) in all {
        if !fits(from, to, channel, index, transport) {
            continue;
        }
        let way = Way {
            from,
            to,
            index,
            transport,
            through,
            send,
            receive,
        };
        ways.entry(way).or_default().push(channel);
    }
    let host = |rank: u32| host_of.get(&rank).map(|host| (*host).to_owned());
    let route = |(way, channels): (Way, Vec<u32>)| {
        let ends = [&way.send, &way.receive].into_iter().flatten();
        let gdr = ends.map(|end| end.gdr).reduce(|a, b| a && b);
        let card = |end: Option<NetEnd>| end.and_then(|end| end.card);
        Route {
            from: way.from,
            to: way.to,
            from_host: host(way.from),
            to_host: host(way.to),
            transport: way.transport,
            through: way.through,
            from_card: card(way.send),
            to_card: card(way.receive),
            gdr,
            is_send_receive: way.index > 0,
            channels,
            is_best: None,
            reasons: Vec::new(),
        }
    };
    ways.into_iter().map(route).collect()
}

#[cfg(test)]
mod tests;

//! Which network operation of a call that does not end the others wait for.
//!
//! In a [`Graph`] each open network operation waits for its peer's half on the same channel, for the GPUs of its host,
//! or for the network; those that can't be followed further are [`Root`]s. A GPU that waits is followed to the network
//! operations of its host on the channel that wait for something else, because a kernel's channel gets no further than
//! its slowest network operation; if there are none, the GPU itself is the root.
//!
//! Rule: two halves are held against each other only if both stood so at some time. That a rank has no such half open
//! counts only where all its open ones are known, and none may run in another process's proxy.

use super::judge::Judge;
use super::net_ops::{steps_are_recorded, wait, Open};
use super::waits::Stall;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Why a network operation that others wait for does not go on.
///
/// The order is that in which operations that do not end are named: a GPU may be busy with another of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The network between the two ranks.
    Network,
    /// The receiver has not posted its receive.
    Receiver,
    /// Data that came is not flushed to the GPU.
    Flush,
    /// A GPU neither gives nor takes data.
    Gpu,
    /// The network proxy of the rank has not begun it.
    Proxy,
    /// What it waits for is not recorded.
    Unknown,
}

/// What a peer's half of a network operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    /// Open: an index into `NetOps::all`.
    Open(usize),
    /// Its rank has had network operations of the call, and this one is not open.
    Closed,
    /// Its rank has had none of the call.
    None,
    /// Not recorded, or before the wait for it began.
    Unknown,
}

/// A network operation that waits for no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Root {
    pub cause: Cause,
    /// Index into `NetOps::all`.
    pub at: usize,
    /// The other half.
    pub half: Half,
    /// Members that it names.
    pub ranks: Vec<usize>,
    /// It is inferred from how far others are ahead.
    pub inferred: bool,
}

/// The open network operations of a stalled operation, by member, channel and direction, and the roots of them.
pub(super) struct NetOps<'a> {
    pub all: Vec<Open<'a>>,
    /// By importance.
    pub roots: Vec<Root>,
}

/// What an open network operation is followed to.
enum Next {
    Others,
    Root(Cause, Half, Vec<usize>),
}

/// The open network operations of an operation, and what their ranks are known to have done.
struct Graph<'g> {
    all: &'g [Open<'g>],
    /// The first that a member has open to or from a peer (`true` sends) on a channel.
    halves: BTreeMap<(usize, usize, bool, u8), usize>,
    /// By member: the first member of its host.
    hosts: Vec<usize>,
    /// Hosts and channels on which a network operation waits for something else than GPUs.
    held: BTreeSet<(usize, u8)>,
    /// By member: newest evidence, ns since 1970.
    seen: Vec<i64>,
    /// By member: network operations that it has had; `None` where some may be elsewhere.
    counted: Vec<Option<u64>>,
    /// When a network operation got further last.
    moved: i64,
    /// It goes round a ring, so that how far ranks have come can be compared.
    ring: bool,
}

impl<'a> Judge<'a> {
    /// The open network operations of a stalled operation, and which of them the others wait for.
    pub(super) fn net_ops(&self, stall: &Stall) -> NetOps<'a> {
        let all = self.open(stall);
        let ranks = &self.calls.communicators[stall.communicator].ranks;
        let told = |open: &Open| {
            let process = ranks[open.member].process;
            steps_are_recorded(&self.capture.processes[process])
        };
        let roots = match all.iter().all(told) {
            true => Graph::new(self, stall, &all).roots(),
            false => Vec::new(),
        };
        NetOps { all, roots }
    }
}

impl<'g> Graph<'g> {
    /// `all` are the open network operations of `stall`.
    fn new(judge: &Judge, stall: &Stall, all: &'g [Open<'g>]) -> Graph<'g> {
        let ranks = &judge.calls.communicators[stall.communicator].ranks;
        let foreign = ranks
            .iter()
            .any(|member| judge.serves_others(member.process));
        let hosts = judge.hosts(stall);
        let (mut halves, mut held) = (BTreeMap::new(), BTreeSet::new());
        for (index, open) in all.iter().enumerate() {
            let channel = open.op.channel;
            if let Some(peer) = open.peer {
                halves
                    .entry((open.member, peer, open.op.send, channel))
                    .or_insert(index);
            }
            if !matches!(open.op.wait, wait::SEND_GPU | wait::RECV_GPU) {
                held.insert((hosts[open.member], channel));
            }
        }
        let (_, shape) = judge.calls.made(stall.communicator, stall.call);
        let algorithm = judge.capture.names.get(shape.algorithm);
        let evidence = |process: usize| judge.evidence[process].unwrap_or(i64::MIN);
        Graph {
            all,
            halves,
            hosts,
            held,
            seen: ranks
                .iter()
                .map(|member| evidence(member.process))
                .collect(),
            counted: (0..ranks.len())
                .map(|member| judge.counted(stall, member).filter(|_| !foreign))
                .collect(),
            moved: all.iter().map(|o| o.op.since_ns).max().unwrap_or(0),
            ring: stall.ordinal.is_some() && algorithm == Some("RING"),
        }
    }

    /// The network operations that wait for no other, the oldest wait first: the others came to wait for it.
    fn roots(&self) -> Vec<Root> {
        let mut roots = Vec::new();
        for (at, open) in self.all.iter().enumerate() {
            if let Next::Root(cause, half, ranks) = self.follow(open) {
                // Where others moved after what is known of it, it may have moved as well.
                let newest = self.seen[open.member] >= self.moved;
                roots.push(Root {
                    cause: if newest { cause } else { Cause::Unknown },
                    at,
                    half,
                    ranks,
                    inferred: false,
                });
            }
        }
        // One that is not begun may only wait for its turn, but not if one that is waits for it.
        let begun = |open: &Open| open.op.wait.is_some();
        let waiting = self.all.iter().filter(|open| begun(open));
        let waited_for: BTreeSet<usize> = waiting
            .filter_map(|open| match self.half(open) {
                Half::Open(index) => Some(index),
                _ => None,
            })
            .collect();
        let counts = |root: &Root| begun(&self.all[root.at]) || waited_for.contains(&root.at);
        if roots.iter().any(counts) {
            roots.retain(counts);
        } else {
            roots
                .iter_mut()
                .for_each(|root| root.cause = Cause::Unknown);
        }
        if roots.is_empty() && self.ring && (0..self.seen.len()).all(|member| self.is_known(member))
        {
            roots = self.least_sent();
        }
        roots.sort_by_key(|root| {
            let since = self.all[root.at].op.since_ns;
            (root.cause == Cause::Unknown, since == 0, since, root.at)
        });
        roots
    }

    /// Whether all network operations of a member are known as they are now.
    fn is_known(&self, member: usize) -> bool {
        self.counted[member].is_some() && self.seen[member] >= self.moved
    }

    fn half(&self, open: &Open) -> Half {
        let (Some(peer), op) = (open.peer, open.op) else {
            return Half::Unknown;
        };
        if op.since_ns == 0 || self.seen[peer] < op.since_ns {
            return Half::Unknown;
        }
        let key = (peer, open.member, !op.send, op.channel);
        match (self.halves.get(&key), self.counted[peer]) {
            (Some(index), _) => {
                let since = self.all[*index].op.since_ns;
                match self.seen[open.member] >= since {
                    true => Half::Open(*index),
                    false => Half::Unknown,
                }
            }
            (None, Some(0)) => Half::None,
            (None, Some(_)) => Half::Closed,
            (None, None) => Half::Unknown,
        }
    }

    fn follow(&self, open: &Open) -> Next {
        let half = self.half(open);
        // What the other half waits for, if there is one that is open.
        let theirs = match half {
            Half::Open(index) => Some(self.all[index].op.wait),
            _ => None,
        };
        let both = || std::iter::once(open.member).chain(open.peer).collect();
        let root = |cause, ranks| Next::Root(cause, half, ranks);
        match open.op.wait {
            wait::RECV_FLUSH => root(Cause::Flush, vec![open.member]),
            wait::SEND_GPU if open.vague => match theirs {
                Some(wait::RECV_NETWORK) => self.gpu(open, half),
                Some(_) => Next::Others,
                None => root(Cause::Unknown, vec![open.member]),
            },
            wait::RECV_GPU | wait::SEND_GPU => self.gpu(open, half),
            wait::RECV_NETWORK => match (half, theirs) {
                // It has sent what this one waits for, or has tried to.
                (_, Some(wait::SEND_NETWORK | wait::SEND_PEER)) | (Half::Closed, _) => {
                    root(Cause::Network, both())
                }
                (_, Some(_)) => Next::Others,
                _ => root(Cause::Unknown, vec![open.member]),
            },
            wait::SEND_PEER | wait::SEND_NETWORK => match (half, theirs) {
                // Where that waits for the network as well, it tells of both.
                (_, Some(_)) => Next::Others,
                (Half::Closed, _) => root(Cause::Network, both()),
                (Half::None, _) => root(Cause::Receiver, open.peer.into_iter().collect()),
                _ => root(Cause::Unknown, vec![open.member]),
            },
            // Not begun, or the network does not take it.
            _ if open.op.send => root(Cause::Proxy, vec![open.member]),
            _ => root(Cause::Receiver, vec![open.member]),
        }
    }

    /// A network operation that waits for the GPUs of its host.
    fn gpu(&self, open: &Open, half: Half) -> Next {
        if self
            .held
            .contains(&(self.hosts[open.member], open.op.channel))
        {
            return Next::Others;
        }
        let there = self.beside(open.member);
        match there.iter().all(|member| self.is_known(*member)) {
            true => Next::Root(Cause::Gpu, half, there),
            false => Next::Root(Cause::Unknown, half, vec![open.member]),
        }
    }

    /// The ranks of a member's host.
    fn beside(&self, member: usize) -> Vec<usize> {
        (0..self.hosts.len())
            .filter(|other| self.hosts[*other] == self.hosts[member])
            .collect()
    }

    /// Where all wait for GPUs, and these for data: whose GPUs sent least. In a ring each may send a part of its own
    /// and then what it received, so the others are ahead of the one that stopped.
    fn least_sent(&self) -> Vec<Root> {
        let mut sends: BTreeMap<u8, Vec<(u32, usize)>> = BTreeMap::new();
        for (at, open) in self.all.iter().enumerate() {
            let op = open.op;
            if op.wait == wait::SEND_GPU {
                let channel = sends.entry(op.channel).or_default();
                channel.push((op.done, at));
            }
        }
        let mut found: Vec<Root> = Vec::new();
        for channel in sends.values_mut() {
            channel.sort_unstable();
            match channel[..] {
                [(least, at), (second, _), ..] if least < second && !self.all[at].vague => {
                    found.push(Root {
                        cause: Cause::Gpu,
                        at,
                        half: Half::Unknown,
                        ranks: self.beside(self.all[at].member),
                        inferred: true,
                    });
                }
                _ => return Vec::new(),
            }
        }
        let alike = found.windows(2).all(|two| two[0].ranks == two[1].ranks);
        if alike {
            found
        } else {
            Vec::new()
        }
    }
}

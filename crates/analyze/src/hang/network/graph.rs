//! The wait-for graph of the network operations of a call that does not end.
//!
//! In a [`Graph`] each open network operation waits for its peer's half on the same channel, for the GPUs of
//! its host, or for the network. Those that can't be followed further are its [`NetSink`]s. If a GPU waits,
//! the graph goes on to the network operations of its host on that channel that wait for something else. A
//! kernel's channel gets no further than its slowest network operation. If there are none, the GPU itself is
//! the sink.
//!
//! Rule: two halves are held against each other only if both stood so at some time. That a rank has no such
//! half open counts only if all its open ones are known, and none may run in another process's proxy.

use super::ops::{Gathered, NetWait, Open};
use crate::hang::case::Case;
use crate::hang::waits::Stall;
use crate::time::HostTime;
use std::collections::{BTreeMap, BTreeSet};

/// Why a network operation that others wait for does not go on.
///
/// The order is that in which operations that do not end are named: a GPU may be busy with another of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// What the peer's half of a network operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// It is open: an index into [`super::Network::open`].
    Open(usize),
    /// Its rank has had network operations of the call, and this one is not open.
    Closed,
    /// Its rank has had none of the call.
    None,
    /// Not recorded, or only from before the wait for it began.
    Unknown,
}

/// A network operation that waits for no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetSink {
    /// Why it does not go on.
    pub cause: Cause,
    /// Index into [`super::Network::open`].
    pub op: usize,
    /// The other half.
    pub half: Half,
    /// Members of the communicator that are to blame: one, both ends of a path, or all on a host.
    pub members: Vec<usize>,
    /// It is inferred from how far the others are ahead.
    pub inferred: bool,
}

/// What an open network operation is followed to.
enum Next {
    Others,
    Sink(Cause, Half, Vec<usize>),
}

/// See the module.
pub(super) struct Graph<'g> {
    all: &'g [Open<'g>],
    /// The first that a member has open to or from a peer (`true` sends) on a channel.
    halves: BTreeMap<(usize, usize, bool, u8), usize>,
    /// By member: the first member of its host.
    hosts: Vec<usize>,
    /// Hosts and channels on which a network operation waits for something else than GPUs.
    held: BTreeSet<(usize, u8)>,
    /// By member: newest evidence.
    seen: Vec<HostTime>,
    /// By member: network operations that it has had; `None` if some may be elsewhere.
    counts: Vec<Option<u64>>,
    /// When a network operation got further last.
    moved: HostTime,
    /// The operation goes round a ring, so that it can be compared how far ranks have come.
    ring: bool,
}

impl<'g> Graph<'g> {
    pub fn new(case: &Case, stall: &Stall, gathered: &'g Gathered) -> Graph<'g> {
        let all = gathered.open.as_slice();
        let hosts = gathered.hosts();
        let (mut halves, mut held) = (BTreeMap::new(), BTreeSet::new());
        for (index, open) in all.iter().enumerate() {
            let channel = open.op.channel;
            if let Some(peer) = open.peer {
                halves
                    .entry((open.member, peer, open.op.send, channel))
                    .or_insert(index);
            }
            if !matches!(open.wait(), Some(NetWait::SendGpu | NetWait::RecvGpu)) {
                held.insert((hosts[open.member], channel));
            }
        }
        let (_, shape) = case.calls.made(stall.communicator, stall.call);
        let algorithm = case.capture.names.get(shape.algorithm);
        let ranks = case.of(stall.communicator).ranks.iter();
        let seen = ranks.map(|own| case.evidence.newest[own.process].unwrap_or(HostTime(i64::MIN)));
        Graph {
            all,
            halves,
            hosts,
            held,
            seen: seen.collect(),
            counts: gathered.counts(),
            moved: HostTime(all.iter().map(|o| o.op.since_ns).max().unwrap_or(0)),
            ring: stall.ordinal.is_some() && algorithm == Some("RING"),
        }
    }

    /// The network operations that wait for no other, the oldest wait first: the others came to wait for that
    /// one.
    pub fn sinks(&self) -> Vec<NetSink> {
        let mut sinks = Vec::new();
        for (at, open) in self.all.iter().enumerate() {
            if let Next::Sink(cause, half, members) = self.follow(open) {
                // If others moved after what is known of this one, it may have moved as well.
                let newest = self.seen[open.member] >= self.moved;
                sinks.push(NetSink {
                    cause: if newest { cause } else { Cause::Unknown },
                    op: at,
                    half,
                    members,
                    inferred: false,
                });
            }
        }
        // One that is not begun may only wait for its turn, but not if one that is waits for it.
        let begun = |open: &Open| open.wait().is_some();
        let waiting = self.all.iter().filter(|open| begun(open));
        let waited_for: BTreeSet<usize> = waiting
            .filter_map(|open| match self.half(open) {
                Half::Open(index) => Some(index),
                _ => None,
            })
            .collect();
        let counts = |sink: &NetSink| begun(&self.all[sink.op]) || waited_for.contains(&sink.op);
        if sinks.iter().any(counts) {
            sinks.retain(counts);
        } else {
            sinks
                .iter_mut()
                .for_each(|sink| sink.cause = Cause::Unknown);
        }
        if sinks.is_empty() && self.ring && (0..self.seen.len()).all(|member| self.is_known(member))
        {
            sinks = self.least_sent();
        }
        sinks.sort_by_key(|sink| {
            let since = self.all[sink.op].op.since_ns;
            (sink.cause == Cause::Unknown, since == 0, since, sink.op)
        });
        sinks
    }

    /// Whether all network operations of a member are known as they are now.
    fn is_known(&self, member: usize) -> bool {
        self.counts[member].is_some() && self.seen[member] >= self.moved
    }

    fn half(&self, open: &Open) -> Half {
        let (Some(peer), op) = (open.peer, open.op) else {
            return Half::Unknown;
        };
        if op.since_ns == 0 || self.seen[peer] < HostTime(op.since_ns) {
            return Half::Unknown;
        }
        let key = (peer, open.member, !op.send, op.channel);
        match (self.halves.get(&key), self.counts[peer]) {
            (Some(index), _) => {
                let since = HostTime(self.all[*index].op.since_ns);
                if self.seen[open.member] >= since {
                    Half::Open(*index)
                } else {
                    Half::Unknown
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
            Half::Open(index) => Some(self.all[index].wait()),
            _ => None,
        };
        let both = || std::iter::once(open.member).chain(open.peer).collect();
        let sink = |cause, members| Next::Sink(cause, half, members);
        match open.wait() {
            Some(NetWait::RecvFlush) => sink(Cause::Flush, vec![open.member]),
            Some(NetWait::SendGpu) if open.vague => match theirs {
                Some(Some(NetWait::RecvNetwork)) => self.gpu(open, half),
                Some(_) => Next::Others,
                None => sink(Cause::Unknown, vec![open.member]),
            },
            Some(NetWait::RecvGpu | NetWait::SendGpu) => self.gpu(open, half),
            Some(NetWait::RecvNetwork) => match (half, theirs) {
                // It has sent what this one waits for, or has tried to.
                (_, Some(Some(NetWait::SendNetwork | NetWait::SendPeer))) | (Half::Closed, _) => {
                    sink(Cause::Network, both())
                }
                (_, Some(_)) => Next::Others,
                _ => sink(Cause::Unknown, vec![open.member]),
            },
            Some(NetWait::SendPeer | NetWait::SendNetwork) => match (half, theirs) {
                // If that waits for the network as well, it stands for both.
                (_, Some(_)) => Next::Others,
                (Half::Closed, _) => sink(Cause::Network, both()),
                (Half::None, _) => sink(Cause::Receiver, open.peer.into_iter().collect()),
                _ => sink(Cause::Unknown, vec![open.member]),
            },
            // Not begun, or the network does not take it.
            _ if open.op.send => sink(Cause::Proxy, vec![open.member]),
            _ => sink(Cause::Receiver, vec![open.member]),
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
        if there.iter().all(|member| self.is_known(*member)) {
            Next::Sink(Cause::Gpu, half, there)
        } else {
            Next::Sink(Cause::Unknown, half, vec![open.member])
        }
    }

    /// The members of a member's host.
    fn beside(&self, member: usize) -> Vec<usize> {
        (0..self.hosts.len())
            .filter(|other| self.hosts[*other] == self.hosts[member])
            .collect()
    }

    /// If all wait for GPUs, and these for data: the host from which the GPUs sent least. In a ring each may
    /// send a part of its own and then what it received, so the others are ahead of the one that stopped.
    fn least_sent(&self) -> Vec<NetSink> {
        let mut sends: BTreeMap<u8, Vec<(u32, usize)>> = BTreeMap::new();
        for (at, open) in self.all.iter().enumerate() {
            let op = open.op;
            if open.wait() == Some(NetWait::SendGpu) {
                let channel = sends.entry(op.channel).or_default();
                channel.push((op.done, at));
            }
        }
        let mut found: Vec<NetSink> = Vec::new();
        for channel in sends.values_mut() {
            channel.sort_unstable();
            match channel[..] {
                [(least, at), (second, _), ..] if least < second && !self.all[at].vague => {
                    found.push(NetSink {
                        cause: Cause::Gpu,
                        op: at,
                        half: Half::Unknown,
                        members: self.beside(self.all[at].member),
                        inferred: true,
                    });
                }
                _ => return Vec::new(),
            }
        }
        let alike = found.windows(2).all(|two| two[0].members == two[1].members);
        if alike {
            found
        } else {
            Vec::new()
        }
    }
}

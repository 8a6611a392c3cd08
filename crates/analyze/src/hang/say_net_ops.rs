//! What an operation that does not end waits for in the network, in words and as rows.

use super::judge::Judge;
use super::net_ops::{steps_are_recorded, wait, Open};
use super::roots::{Cause, Half, NetOps, Root};
use super::say::{capital, span};
use super::waits::Stall;
use super::{seconds, CallRow};
use crate::job::ranges;
use capture::live::WAITS;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Rows of network operations at most; they are those that matter most.
const ROWS: usize = 1024;
/// Roots that are told of beside the first.
const OTHERS: usize = 4;

/// A network operation that is not over: one channel of one call, to or from one peer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NetOpRow {
    /// The launcher's rank.
    pub global_rank: Option<u32>,
    /// Rank in the communicator.
    pub rank: Option<u32>,
    /// Host.
    pub host: String,
    /// `send` or `receive`.
    pub direction: &'static str,
    /// Peer's rank in the communicator.
    pub peer: Option<u32>,
    /// Channel.
    pub channel: u8,
    /// What its oldest open step waits for, as in the table of calls; `not_begun` by the network proxy, or `not_taken`
    /// by the network, where no step has come that far; null where steps are not recorded.
    pub state: Option<&'static str>,
    /// Since when, s.
    pub for_s: Option<f64>,
    /// Steps done.
    pub steps_done: u32,
    /// Steps that it consists of.
    pub steps: u32,
    /// Why it does not go on, where it waits for no other network operation.
    pub cause: Option<Cause>,
}

impl Judge<'_> {
    /// The rows of a stall's network operations, those first that wait for no other.
    pub(super) fn net_op_rows(&self, stall: &Stall, net_ops: &NetOps) -> Vec<NetOpRow> {
        let communicator = &self.calls.communicators[stall.communicator];
        let cause_of: BTreeMap<usize, Cause> =
            net_ops.roots.iter().map(|r| (r.at, r.cause)).collect();
        let roots = net_ops.roots.iter().map(|root| root.at);
        let others = (0..net_ops.all.len()).filter(|at| !cause_of.contains_key(at));
        let row = |at: usize| {
            let open = &net_ops.all[at];
            let member = &communicator.ranks[open.member];
            let process = &self.capture.processes[member.process];
            NetOpRow {
                global_rank: process.rank,
                rank: member.rank,
                host: process.host.clone(),
                direction: if open.op.send { "send" } else { "receive" },
                peer: open.op.peer,
                channel: open.op.channel,
                state: match open.op.state() {
                    Some(state) => Some(state),
                    None => steps_are_recorded(process).then_some(match open.op.begun {
                        true => "not_taken",
                        false => "not_begun",
                    }),
                },
                for_s: self.since(open).map(seconds),
                steps_done: open.op.done,
                steps: open.op.steps,
                cause: cause_of.get(&at).copied(),
            }
        };
        roots.chain(others).take(ROWS).map(row).collect()
    }

    fn since(&self, open: &Open) -> Option<i64> {
        self.ago(Some(open.op.since_ns).filter(|since| *since != 0))
    }

    /// The call of a stalled operation that its first root is of.
    pub(super) fn stalled_call(&self, stall: &Stall, net_ops: &NetOps) -> CallRow {
        let piece = || {
            let open = &net_ops.all[net_ops.roots.first()?.at];
            let member = &self.calls.communicators[stall.communicator].ranks[open.member];
            let calls = &self.capture.processes[member.process].calls;
            let call = calls.binary_search_by_key(&open.op.ticket, |call| call.ticket);
            Some((open.member, call.ok()? as u32))
        };
        let call = match stall.ordinal {
            Some(_) => stall.call,
            None => piece().unwrap_or(stall.call),
        };
        self.call_row(stall.communicator, call, stall.ordinal, stall.lane)
    }

    /// The first sentence: the network operation that the others wait for.
    pub(super) fn say_net_op(
        &self,
        stall: &Stall,
        net_ops: &NetOps,
        root: &Root,
        call: &str,
    ) -> String {
        let open = &net_ops.all[root.at];
        let who = |member: usize| self.ranks(stall.communicator, &[member]);
        let host = |member: usize| {
            let process = self.calls.communicators[stall.communicator].ranks[member].process;
            self.capture.processes[process].host.as_str()
        };
        let channels = BTreeSet::from([open.op.channel]);
        let own = self.side(stall, open, &channels);
        let time = self
            .since(open)
            .map_or(String::new(), |ns| format!(" for {}", span(ns)));
        let op = open.op;
        let done = format!("{} of {} steps done", op.done, op.steps);
        let state = match op.wait {
            Some(_) => format!("has waited {}{time}, {done}", words(open)),
            None => format!("{}{time}", idle(open)),
        };
        let half = self.say_half(stall, net_ops, root);
        let look = match root.cause {
            Cause::Network => {
                let (from, to) = match open.op.send {
                    true => (Some(open.member), open.peer),
                    false => (open.peer, Some(open.member)),
                };
                match (from.map(host), to.map(host)) {
                    (Some(from), Some(to)) if from != to => format!(
                        ": look at the path from {from} to {to} (NIC, link, NCCL_IB_*, NCCL_SOCKET_*)"
                    ),
                    _ => ": look at the path between the two (NIC, link, NCCL_IB_*, NCCL_SOCKET_*)"
                        .to_owned(),
                }
            }
            Cause::Receiver if !op.send => {
                format!(
                    ": look at the network proxy of {} on {}",
                    who(open.member),
                    host(open.member)
                )
            }
            Cause::Receiver => open.peer.map_or(String::new(), |peer| {
                format!(": look at {} on {}", who(peer), host(peer))
            }),
            Cause::Flush => format!(
                ": the data is there, look at PCIe and GPUDirect RDMA on {} (NCCL_NET_GDR_LEVEL)",
                host(open.member)
            ),
            Cause::Gpu | Cause::Unknown => String::new(),
            Cause::Proxy => format!(
                ": look at the network proxy of {} on {}",
                who(open.member),
                host(open.member)
            ),
        };
        let half = half.map_or(String::new(), |half| format!("; {half}"));
        if root.cause == Cause::Gpu {
            let gpu = match root.ranks.len() {
                1 => "the GPU",
                _ => "a GPU",
            };
            let of = self.ranks(stall.communicator, &root.ranks);
            let host = host(open.member);
            return capital(format!(
                "{gpu} of {of} on {host} holds up {call}, not the network: {own} {state}{half}."
            ));
        }
        capital(format!("{own} of {call}, {state}{half}{look}."))
    }

    /// `rank 3's receive from rank 2 on channel 1`.
    fn side(&self, stall: &Stall, open: &Open, channels: &BTreeSet<u8>) -> String {
        let op = open.op;
        let (what, way) = match op.send {
            true => ("send", "to"),
            false => ("receive", "from"),
        };
        let peer = match (open.peer, op.peer) {
            (Some(peer), _) => self.ranks(stall.communicator, &[peer]),
            (None, Some(peer)) => format!("rank {peer} of the communicator"),
            (None, None) => "an unknown rank".to_owned(),
        };
        format!(
            "{}'s {what} {way} {peer} on {}",
            self.ranks(stall.communicator, &[open.member]),
            said(channels)
        )
    }

    /// What the other half of a root's network operation does.
    fn say_half(&self, stall: &Stall, net_ops: &NetOps, root: &Root) -> Option<String> {
        let open = &net_ops.all[root.at];
        let what = if open.op.send { "receive" } else { "send" };
        let peer = self.ranks(stall.communicator, &[open.peer?]);
        Some(match root.half {
            Half::Open(index) => {
                let theirs = &net_ops.all[index];
                let done = theirs.op.done;
                match theirs.op.wait {
                    Some(_) => format!("{peer}'s {what} waits {}, {done} done", words(theirs)),
                    None => format!("{peer}'s {what} {}", idle(theirs)),
                }
            }
            Half::Closed => format!("{peer} has no such {what} open"),
            Half::None => format!("{peer} has no network operation of the call"),
            // The GPU is to blame whatever the other half does.
            Half::Unknown if root.cause == Cause::Gpu => return None,
            Half::Unknown => format!("what {peer}'s {what} does is not recorded"),
        })
    }

    /// What else is to be said of a stall's network operations.
    pub(super) fn say_other_net_ops(&self, stall: &Stall, net_ops: &NetOps) -> Vec<String> {
        let mut said = Vec::new();
        let Some(first) = net_ops.roots.first() else {
            said.extend(self.say_unfollowed(stall, net_ops));
            return said;
        };
        if first.cause == Cause::Gpu {
            said.push("Work that was given to it before may keep it busy.".to_owned());
        }
        if first.cause == Cause::Gpu && first.ranks.len() > 1 {
            said.push(
                "Which of their GPUs can't be told: data between them leaves no trace.".to_owned(),
            );
        }
        if first.inferred {
            said.push(
                "All of its network operations wait for GPUs, and these for each other's data; that one sent least.".to_owned(),
            );
        }
        // A GPU is one, whatever waits for it; else channels of the same network operation are.
        let what = |root: &Root| {
            let open = &net_ops.all[root.at];
            match root.cause {
                Cause::Gpu => (root.cause, root.ranks.clone(), None),
                _ => (
                    root.cause,
                    vec![open.member],
                    Some((open.peer, open.op.send)),
                ),
            }
        };
        let mut alike: Vec<(&Root, BTreeSet<u8>)> = Vec::new();
        for root in &net_ops.roots {
            let channel = net_ops.all[root.at].op.channel;
            match alike
                .iter_mut()
                .find(|(other, _)| what(other) == what(root))
            {
                Some((_, channels)) => drop(channels.insert(channel)),
                None => alike.push((root, BTreeSet::from([channel]))),
            }
        }
        let (_, mut likewise) = alike.remove(0);
        likewise.remove(&net_ops.all[first.at].op.channel);
        if !likewise.is_empty() {
            said.push(format!("Likewise on {}.", self::said(&likewise)));
        }
        let others: Vec<String> = alike
            .iter()
            .map(|(root, channels)| {
                let open = &net_ops.all[root.at];
                format!("{} waits {}", self.side(stall, open, channels), words(open))
            })
            .collect();
        if !others.is_empty() {
            said.push(format!("Apart from it, {}.", some(&others)));
        }
        let behind = net_ops.all.len() - net_ops.roots.len();
        if behind > 0 {
            let wait = match behind {
                1 => "network operation of it waits",
                _ => "network operations of it wait",
            };
            said.push(format!("{behind} other {wait} behind that."));
        }
        said
    }

    /// What is known where no network operation can be named.
    fn say_unfollowed(&self, stall: &Stall, net_ops: &NetOps) -> Option<String> {
        if net_ops.all.is_empty() {
            return None;
        }
        let ranks = &self.calls.communicators[stall.communicator].ranks;
        let told =
            |open: &Open| steps_are_recorded(&self.capture.processes[ranks[open.member].process]);
        Some(match net_ops.all.iter().all(told) {
            true if net_ops.all.iter().any(|open| open.vague) => {
                "Which of its network operations the others wait for can't be told: below ABI v4 a send does not say whether it waits for its GPU or for its peer."
                    .to_owned()
            }
            true => "All of its network operations wait for GPUs, and these for each other's data.".to_owned(),
            false => {
                let mut sides: BTreeMap<_, (&Open, BTreeSet<u8>)> = BTreeMap::new();
                for open in &net_ops.all {
                    let key = (open.member, open.op.send, open.op.peer);
                    let channels = &mut sides.entry(key).or_insert((open, BTreeSet::new())).1;
                    channels.insert(open.op.channel);
                }
                let sides: Vec<String> = sides
                    .values()
                    .map(|(open, channels)| self.side(stall, open, channels))
                    .collect();
                format!(
                    "Not over: {}. With NCCLSCOPE_NET=steps it is also known what they wait for.",
                    some(&sides)
                )
            }
        })
    }
}

/// `channel 1`, `channels 0-3`.
fn said(channels: &BTreeSet<u8>) -> String {
    let plural = if channels.len() > 1 { "s" } else { "" };
    let numbers = ranges(channels.iter().map(|channel| u32::from(*channel)));
    format!("channel{plural} {numbers}")
}

/// The first of what there is to tell, and how many more there are.
fn some(all: &[String]) -> String {
    let told = all.len().min(OTHERS);
    let more = match all.len() - told {
        0 => String::new(),
        n => format!("; and {n} more"),
    };
    format!("{}{more}", all[..told].join("; "))
}

/// Where a network operation stands that has no step which waits for anything.
fn idle(open: &Open) -> &'static str {
    match open.op.begun {
        true => "has not been taken by the network",
        false => "has not been begun",
    }
}

/// What a network operation waits for, with NCCL's name of the state.
fn words(open: &Open) -> &'static str {
    match open.op.wait {
        wait::SEND_GPU if open.vague => "for its GPU's data or for its peer (SendGPUWait)",
        wait::SEND_GPU => "for its GPU's data (SendGPUWait)",
        wait::SEND_PEER => "for its peer to be ready (SendPeerWait)",
        wait::SEND_NETWORK => "for the network (SendWait)",
        wait::RECV_NETWORK => "for the network (RecvWait)",
        wait::RECV_FLUSH => "for the flush to its GPU (RecvFlushWait)",
        wait::RECV_GPU => "for its GPU to take the data (RecvGPUWait)",
        _ => "to be begun",
    }
}

const _: () = assert!(WAITS.len() == 6);

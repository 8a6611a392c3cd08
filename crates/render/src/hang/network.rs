//! Words for the network operations of an operation that does not end. They name the one that the others wait
//! for, its other half and where to look, and say what is known of the others.
//!
//! Rule: a cause is named only if it is known. Else the words say what is not recorded.

use super::names::{capital, for_time, one, rank, ranks, span};
use analyze::hang::{
    Cause, Counted, Half, Hang, Members, NetOpRow, NetSink, NetWait, Stage, Stall, Unfollowed,
};
use analyze::spelling::ranges;
use analyze::spelling::size;
use analyze::time::Nanos;
use std::collections::{BTreeMap, BTreeSet};

/// Network operations that are named beside the first; more are counted.
const OTHERS: usize = 4;

/// The network operation that the others wait for; nothing if none can be named. `call` is the operation by
/// name.
pub(super) fn sentence(hang: &Hang, stall: &Stall, call: &str) -> Option<String> {
    let sink = stall.network.sinks.first()?;
    let op = &stall.network.open[sink.op];
    let own = side(hang, stall, op, &BTreeSet::from([op.channel]));
    let time = for_time(op.lasted);
    let state = match op.stage {
        Some(Stage::Waits(_)) => format!(
            "has waited {}{time}, {} of {} steps done",
            waits(op),
            op.steps_done,
            op.steps
        ),
        _ => format!("{}{time}", idle(op)),
    };
    let half = half(hang, stall, sink);
    let half = half.map_or(String::new(), |half| format!("; {half}"));
    Some(capital(match sink.cause {
        Cause::Gpu => {
            let gpu = match sink.members.len() {
                1 => "the GPU",
                _ => "a GPU",
            };
            let of = ranks(hang, &members(stall, &sink.members));
            let host = host(hang, stall, op.member);
            format!(
                "{gpu} of {of} on {host} holds up {call}, not the network: {own} {state}{half}."
            )
        }
        _ => {
            let look = look(hang, stall, sink);
            format!("{own} of {call}, {state}{half}{look}.")
        }
    }))
}

/// What else is known of the network operations.
pub(super) fn details(hang: &Hang, stall: &Stall) -> Vec<String> {
    let network = &stall.network;
    match (network.sinks.first(), network.unfollowed) {
        (Some(first), _) => beside(hang, stall, first),
        (None, Some(why)) => vec![unfollowed(hang, stall, why)],
        (None, None) => match &network.counted {
            Some(counted) => from_counters(hang, stall, counted),
            None => Vec::new(),
        },
    }
}

fn members(stall: &Stall, members: &[usize]) -> Members {
    Members {
        communicator: stall.ranks.communicator,
        members: members.to_vec(),
    }
}

fn who(hang: &Hang, stall: &Stall, member: usize) -> String {
    one(hang, stall.ranks.communicator, member)
}

fn host<'h>(hang: &'h Hang, stall: &Stall, member: usize) -> &'h str {
    &rank(hang, stall.ranks.communicator, member).process.host
}

/// `rank 3's receive from rank 2 on channel 1`.
fn side(hang: &Hang, stall: &Stall, op: &NetOpRow, channels: &BTreeSet<u8>) -> String {
    let (what, way) = if op.send {
        ("send", "to")
    } else {
        ("receive", "from")
    };
    let peer = match (op.peer_member, op.peer) {
        (Some(peer), _) => who(hang, stall, peer),
        (None, Some(peer)) => format!("rank {peer} of the communicator"),
        (None, None) => "an unknown rank".to_owned(),
    };
    let own = who(hang, stall, op.member);
    format!("{own}'s {what} {way} {peer} on {}", on(channels))
}

/// What the other half of a network operation does.
fn half(hang: &Hang, stall: &Stall, sink: &NetSink) -> Option<String> {
    let op = &stall.network.open[sink.op];
    let what = if op.send { "receive" } else { "send" };
    let peer = who(hang, stall, op.peer_member?);
    Some(match sink.half {
        Half::Open(index) => {
            let theirs = &stall.network.open[index];
            match theirs.stage {
                Some(Stage::Waits(_)) => {
                    let done = theirs.steps_done;
                    format!("{peer}'s {what} waits {}, {done} done", waits(theirs))
                }
                _ => format!("{peer}'s {what} {}", idle(theirs)),
            }
        }
        Half::Closed => format!("{peer} has no such {what} open"),
        Half::None => format!("{peer} has no network operation of the call"),
        // The GPU is to blame whatever the other half does.
        Half::Unknown if sink.cause == Cause::Gpu => return None,
        Half::Unknown => format!("what {peer}'s {what} does is not recorded"),
    })
}

/// Where to look for the cause.
fn look(hang: &Hang, stall: &Stall, sink: &NetSink) -> String {
    let op = &stall.network.open[sink.op];
    let at = |member: usize| {
        let (who, host) = (who(hang, stall, member), host(hang, stall, member));
        format!("{who} on {host}")
    };
    match sink.cause {
        Cause::Network => {
            let (from, to) = if op.send {
                (Some(op.member), op.peer_member)
            } else {
                (op.peer_member, Some(op.member))
            };
            let host = |member| host(hang, stall, member);
            let path = match (from.map(host), to.map(host)) {
                (Some(from), Some(to)) if from != to => format!("from {from} to {to}"),
                _ => "between the two".to_owned(),
            };
            format!(": look at the path {path} (NIC, link, NCCL_IB_*, NCCL_SOCKET_*)")
        }
        Cause::Receiver if op.send => match op.peer_member {
            Some(peer) => format!(": look at {}", at(peer)),
            None => String::new(),
        },
        Cause::Receiver | Cause::Proxy => {
            format!(": look at the network proxy of {}", at(op.member))
        }
        Cause::Flush => format!(
            ": the data is there, look at PCIe and GPUDirect RDMA on {} (NCCL_NET_GDR_LEVEL)",
            host(hang, stall, op.member)
        ),
        Cause::Gpu | Cause::Unknown => String::new(),
    }
}

/// What is to be said beside the first of those that wait for no other.
fn beside(hang: &Hang, stall: &Stall, first: &NetSink) -> Vec<String> {
    let network = &stall.network;
    let mut said = Vec::new();
    if first.cause == Cause::Gpu {
        said.push("Work that was given to it before may keep it busy.".to_owned());
    }
    if first.cause == Cause::Gpu && first.members.len() > 1 {
        said.push(
            "Which of their GPUs can't be told: data between them leaves no trace.".to_owned(),
        );
    }
    if first.inferred {
        said.push(
            "All of its network operations wait for GPUs, and these for each other's data; that one \
             sent least."
                .to_owned(),
        );
    }
    let mut alike = alike(stall);
    let (_, mut likewise) = alike.remove(0);
    likewise.remove(&network.open[first.op].channel);
    if !likewise.is_empty() {
        said.push(format!("Likewise on {}.", on(&likewise)));
    }
    let other = |(sink, channels): &(&NetSink, BTreeSet<u8>)| {
        let op = &network.open[sink.op];
        format!("{} waits {}", side(hang, stall, op, channels), waits(op))
    };
    let others: Vec<String> = alike.iter().map(other).collect();
    if !others.is_empty() {
        said.push(format!("Apart from it, {}.", some(&others)));
    }
    let behind = network.open.len() - network.sinks.len();
    if behind > 0 {
        let wait = match behind {
            1 => "network operation of it waits",
            _ => "network operations of it wait",
        };
        said.push(format!("{behind} other {wait} behind that."));
    }
    said
}

/// Network operations that wait for no other, with the channels on which the same is so. A GPU is one,
/// whatever waits for it.
fn alike(stall: &Stall) -> Vec<(&NetSink, BTreeSet<u8>)> {
    let what = |sink: &NetSink| {
        let op = &stall.network.open[sink.op];
        match sink.cause {
            Cause::Gpu => (sink.cause, sink.members.clone(), None),
            _ => (sink.cause, vec![op.member], Some((op.peer_member, op.send))),
        }
    };
    let mut alike: Vec<(&NetSink, BTreeSet<u8>)> = Vec::new();
    for sink in &stall.network.sinks {
        let channel = stall.network.open[sink.op].channel;
        let same = alike
            .iter_mut()
            .find(|(other, _)| what(other) == what(sink));
        match same {
            Some((_, channels)) => drop(channels.insert(channel)),
            None => alike.push((sink, BTreeSet::from([channel]))),
        }
    }
    alike
}

/// Why no network operation can be named.
fn unfollowed(hang: &Hang, stall: &Stall, why: Unfollowed) -> String {
    match why {
        Unfollowed::Vague => "Which of its network operations the others wait for can't be told: \
             below ABI v4 a send does not say whether it waits for its GPU or for its peer."
            .to_owned(),
        Unfollowed::Gpus => {
            "All of its network operations wait for GPUs, and these for each other's data."
                .to_owned()
        }
        Unfollowed::NotRecorded => {
            let mut sides: BTreeMap<_, (&NetOpRow, BTreeSet<u8>)> = BTreeMap::new();
            for op in &stall.network.open {
                let side = sides.entry((op.member, op.send, op.peer));
                let (_, channels) = side.or_insert((op, BTreeSet::new()));
                channels.insert(op.channel);
            }
            let sides = sides.values();
            let sides: Vec<String> = sides
                .map(|(op, channels)| side(hang, stall, op, channels))
                .collect();
            format!(
                "Not over: {}. With NCCLSCOPE_NET=steps it is also known what they wait for.",
                some(&sides)
            )
        }
    }
}

/// What the counters of a collective's network operations say: who is behind, and in which waits.
fn from_counters(hang: &Hang, stall: &Stall, counted: &Counted) -> Vec<String> {
    let mut said = Vec::new();
    if !counted.unfinished.is_empty() {
        let unfinished = members(stall, &counted.unfinished);
        said.push(format!(
            "The network has unfinished operations for it on {}.",
            ranks(hang, &unfinished)
        ));
    }
    let wait = counted.longest.map_or(String::new(), |(wait, ns)| {
        let (name, time) = (wait.name(), span(Nanos::from(ns)));
        format!(", and its finished steps waited longest in {name} ({time})")
    });
    said.push(format!(
        "{} moved least: {} sent, {} received in {} steps{wait}.",
        capital(who(hang, stall, counted.least)),
        size(counted.bytes_sent),
        size(counted.bytes_received),
        counted.steps
    ));
    said.push("Which step waits now, and for which peer, is not recorded.".to_owned());
    said
}

/// `channel 1`, `channels 0-3`.
fn on(channels: &BTreeSet<u8>) -> String {
    let plural = if channels.len() > 1 { "s" } else { "" };
    let numbers = ranges(channels.iter().map(|channel| u32::from(*channel)));
    format!("channel{plural} {numbers}")
}

/// The first of what there is to say, and how many more there are.
fn some(all: &[String]) -> String {
    let named = all.len().min(OTHERS);
    let more = match all.len() - named {
        0 => String::new(),
        n => format!("; and {n} more"),
    };
    format!("{}{more}", all[..named].join("; "))
}

/// Where a network operation stands that has no step which waits for anything.
fn idle(op: &NetOpRow) -> &'static str {
    match op.stage {
        Some(Stage::NotBegun) => "has not been begun",
        _ => "has not been taken by the network",
    }
}

/// What a network operation waits for, with NCCL's name of the state.
fn waits(op: &NetOpRow) -> &'static str {
    let Some(Stage::Waits(wait)) = op.stage else {
        return "to be begun";
    };
    match wait {
        NetWait::SendGpu if op.vague => "for its GPU's data or for its peer (SendGPUWait)",
        NetWait::SendGpu => "for its GPU's data (SendGPUWait)",
        NetWait::SendPeer => "for its peer to be ready (SendPeerWait)",
        NetWait::SendNetwork => "for the network (SendWait)",
        NetWait::RecvNetwork => "for the network (RecvWait)",
        NetWait::RecvFlush => "for the flush to its GPU (RecvFlushWait)",
        NetWait::RecvGpu => "for its GPU to take the data (RecvGPUWait)",
    }
}
